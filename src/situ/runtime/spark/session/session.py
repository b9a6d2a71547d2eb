"""A Spark session that starts without preparation: Java found, quiet, local defaults where nobody gave any."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from situ.core.memory import memory_bytes
from situ.runtime.spark.session.errors import SparkError, spark_errors
from situ.runtime.spark.session.java import java_for_spark
from situ.runtime.spark.session.versions import installed_version, require_spark
from situ.runtime.spark.session.workers import python_for_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Of a local session's memory, what Spark's Java gets; the Python workers and their columns live beside it.
JAVA_SHARE = 0.4
_LEAST_MB, _MOST_MB = 1024, 30 * 1024  # Java's references are short below 32 GB
#: A task needs so many times the memory of what it reads of a shuffle; what it is given lies between these bounds.
_TASK_PER_SHUFFLE = 16
_LEAST_TASK_MB, _MOST_TASK_MB = 64, 512

#: Where a server of Spark Connect listens if nothing else is said, and how long one may take to answer.
CONNECT_PORT, ANSWER_S = 15002, 20

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

#: The state store of streaming queries.
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

#: Set for all sessions that are made here, on Spark Connect too.
_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    # Spark would measure a batch that crosses to Python after each of its rows, which takes longer than to write the
    # row. So only rows limit a batch; what situ itself sends is small enough for that (see `shards.PACKET_BYTES`).
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    # What streaming queries need: Spark's own default keeps state in Java's memory, and not for queries such as ours.
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    # A micro-batch writes what changed in the state, not a whole copy of it, which takes a third of a small one's time.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


#: Set where Spark's driver is started here.
_NOT_ON_CONNECT = {
    "spark.ui.showConsoleProgress": "false",
    # PySpark would ask Java for its settings at each column and each step of a DataFrame, to be able to say in which
    # line of Python it was made: several calls for each.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


def spark_session(
    master: str | None = None, conf: Mapping[str, str] | None = None, app_name: str = "situ"
) -> SparkSession:
    """The Spark session that runs already, else a new one.

    `master` is where it runs: `local[*]` (this machine, if nothing else is said), `spark://host:7077`, `yarn`, or
    `sc://host` for Spark Connect. `conf` and Spark's own files (`spark-defaults.conf`) come before the defaults here.

    >>> session_settings("local[2]", {"spark.driver.memory": "2g"}, {}, 16 * 2**30)["spark.driver.memory"]
    '2g'
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    if master is not None:
        _check_master(master)
    running = running_session()
    if running is not None:
        _refuse_another_master(running, master)
        settings = dict(conf or {})  # somebody else's session: nothing is changed that nobody asked for
    else:
        settings = session_settings(master, conf or {}, os.environ, memory_bytes())
    with spark_errors("Spark does not start"):
        builder = SparkSession.builder.appName(app_name) if running is None else SparkSession.builder
        for key, value in settings.items():
            builder = builder.config(key, value)
        if running is None and is_remote(settings):
            require_answer(settings["spark.remote"], os.environ)
        if running is not None or is_remote(settings):
            return builder.getOrCreate()
        _require_whole_pyspark()
        workers = python_for_workers(spark_defaults(os.environ) | settings)
        with java_for_spark(), workers, warnings.catch_warnings():
            # A local server of Spark Connect takes the settings, and then refuses each of them for its first session.
            warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
            return builder.getOrCreate()


@contextmanager
def borrowed_session(master: str | None = None, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session for a while. One that ran before goes on running; one that was started for this is stopped."""
    require_pyspark()
    running = running_session()
    session = spark_session(master, conf)
    try:
        yield session
    finally:
        if running is None:
            session.stop()


def require_pyspark() -> None:
    """An error with the remedy, where PySpark is not installed, or one that is too old."""
    if find_spec("pyspark") is None:
        raise SparkError("the Spark engine needs PySpark, which is not installed", remedy="pip install 'situ[spark]'")
    require_spark(installed_version())


def _require_whole_pyspark() -> None:
    """An error with the remedy, where a Spark is to be started and only the thin client of Spark Connect is there."""
    from pyspark.util import is_remote_only

    if is_remote_only():
        raise SparkError(
            "only the thin client of Spark Connect (pyspark-client) is installed, which starts no Spark",
            remedy="Name a server: situ.spark_session('sc://HOST'), --master sc://HOST. Or: pip install 'situ[spark]'",
        )


def running_session() -> SparkSession | None:
    """The session of this process, if there is one."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def is_connect(session: SparkSession) -> bool:
    """Is it a client of a Spark that runs elsewhere (Spark Connect)? Such a session has no `sparkContext`."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def is_remote(settings: Mapping[str, str]) -> bool:
    """Is Spark Connect's server there already, so that no Java is needed here?"""
    return settings.get("spark.remote", "").startswith("sc://")


def require_answer(remote: str, environ: Mapping[str, str]) -> None:
    """An error, if nobody listens where a server of Spark Connect is to be. Its client would try for ten minutes."""
    if any(name.lower() in ("grpc_proxy", "https_proxy", "http_proxy") for name in environ):
        return  # the way there is not ours to know
    try:
        server = urlsplit(remote)
        address = (server.hostname or "", server.port or CONNECT_PORT)
        socket.create_connection(address, timeout=ANSWER_S).close()
    except (OSError, ValueError) as error:
        raise SparkError(
            f"no server of Spark Connect answers at {remote.partition('/;')[0]}: {error}",
            remedy=f"Start it there, or write its address as sc://HOST:PORT; without PORT, it is {CONNECT_PORT}.",
        ) from error


def session_settings(
    master: str | None, conf: Mapping[str, str], environ: Mapping[str, str], memory: int
) -> dict[str, str]:
    """All settings of a new session: what is given, and defaults for the rest.

    >>> session_settings("sc://host", {}, {}, 16 * 2**30)["spark.remote"]
    'sc://host'
    """
    given = dict(conf)
    if master is not None:
        given["spark.remote" if master.startswith("sc://") else "spark.master"] = master
    if "PYSPARK_GATEWAY_PORT" in environ or "PYSPARK_SUBMIT_ARGS" in environ:
        return given  # spark-submit has settled everything
    if "spark.remote" not in given and "spark.master" not in given and "SPARK_REMOTE" in environ:
        given["spark.remote"] = environ["SPARK_REMOTE"]
    known = spark_defaults(environ) | given
    if is_remote(known):
        return _EVERYWHERE | given
    # spark.remote=local[2] is a server of Spark Connect that starts here; Spark takes one of the two settings only.
    key = "spark.remote" if "spark.remote" in known else "spark.master"
    where = known.setdefault(key, "local[*]")
    defaults = _EVERYWHERE | _NOT_ON_CONNECT | {key: where}
    if where.startswith("local"):
        defaults |= _local_defaults(environ, memory)
    settings = {key: known.get(key, value) for key, value in defaults.items()} | given
    if _says_its_own_log(environ):
        return settings
    options = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()} {known.get('spark.driver.extraJavaOptions', '')}"
    return settings | {"spark.driver.extraJavaOptions": options.strip()}


def _check_master(master: str) -> None:
    if not master.startswith(("local", "spark://", "yarn", "k8s://", "sc://")):
        raise SparkError(
            f"'{master}' names no place where Spark runs",
            remedy="It is local[*] (this machine), spark://HOST:7077, yarn, k8s://URL, or sc://HOST (Spark Connect).",
        )


def _local_defaults(environ: Mapping[str, str], memory: int) -> dict[str, str]:
    megabytes = min(max(round(memory * JAVA_SHARE / 2**20), _LEAST_MB), _MOST_MB)
    defaults = {
        "spark.driver.memory": f"{megabytes}m",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": f"{_task_megabytes(memory)}m",
        "spark.python.daemon.module": "situ.runtime.spark.session.daemon",
        "spark.shuffle.compress": "false",  # what is shuffled stays on this machine, mostly in memory
        "spark.ui.enabled": "false",
        # Checkpoints lie on this machine: files are made and renamed without a `chmod` process for each.
        "spark.sql.streaming.checkpointFileManagerClass": _LOCAL_CHECKPOINTS,
    }
    if "SPARK_LOCAL_IP" not in environ:
        # Driver and executor are one process: no need to ask the network what this machine is called.
        defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return defaults


def _task_megabytes(memory: int) -> int:
    """How much of a shuffle one task may read: what fits into a core's share of Python's memory with all that is made
    of it. Spark makes as few tasks as this allows, but one for each core; if it were less, tasks might be one or two
    more than cores, which would wait for these."""
    share = memory * (1 - JAVA_SHARE) / (os.cpu_count() or 1)
    return min(max(round(share / _TASK_PER_SHUFFLE / 2**20), _LEAST_TASK_MB), _MOST_TASK_MB)


def spark_defaults(environ: Mapping[str, str]) -> dict[str, str]:
    """What the user's `spark-defaults.conf` says; nothing, if there is none."""
    file = _conf_directory(environ) / "spark-defaults.conf"
    if not file.is_file():
        return {}
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    pairs = [line.replace("=", " ", 1).split(None, 1) for line in lines if line and not line.startswith("#")]
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


def _says_its_own_log(environ: Mapping[str, str]) -> bool:
    return any(_conf_directory(environ).glob("log4j2.*"))


def _conf_directory(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("SPARK_CONF_DIR") or Path(environ.get("SPARK_HOME") or "/nowhere") / "conf")


def _refuse_another_master(running: SparkSession, master: str | None) -> None:
    """A session that runs elsewhere than asked for would be a surprise."""
    if master is None or (is_connect(running) and master.startswith("sc://")):
        return
    current = "Spark Connect" if is_connect(running) else running.conf.get("spark.master")
    if current != master:
        raise SparkError(
            f"a Spark session runs already, on {current}, and another one is asked for, on {master}",
            remedy="Stop the one that runs (session.stop()), or leave out the master.",
        )
