"""Real Sparks for tests, in processes of their own: a standalone master with workers, a server of Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from servers.debian import answers, free_port, wait_until
from situ.runtime.spark.session.java import java_for_spark

START_S, STOP_S = 300, 60
#: How long a Python that Spark has started may take to answer: more than the usual 15 s, on machines that are busy.
PATIENCE = "300s"


@dataclass(frozen=True)
class Cluster:
    """A master that listens, the directories in which its workers' executors run, and the workers' processes, whose
    children executors are."""

    master: str
    works: tuple[Path, ...]
    workers: list[int] = field(default_factory=list)


@contextmanager
def running_cluster(home: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master with so many workers of one core, all of which have told it that they are there."""
    port, page = free_port(), free_port()
    cluster = Cluster(f"spark://127.0.0.1:{port}", tuple(home / f"worker-{number}" for number in range(workers)))
    here = ["--host", "127.0.0.1"]
    with ExitStack() as stack:
        master = [*here, "--port", str(port), "--webui-port", str(page)]
        stack.enter_context(_spark_process(home / "master.log", "org.apache.spark.deploy.master.Master", *master))
        _await_workers(page, 0)
        for work in cluster.works:
            options = [*here, "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(work)]
            worker = ["org.apache.spark.deploy.worker.Worker", *options, cluster.master]
            cluster.workers.append(stack.enter_context(_spark_process(Path(f"{work}.log"), *worker)))
        _await_workers(page, workers)
        yield cluster


@contextmanager
def running_connect_server(home: Path) -> Iterator[str]:
    """The address of a server of Spark Connect, as `start-connect-server.sh` starts one. Its workers have situ."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.python.authenticate.socketTimeout": PATIENCE,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    conf = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    server = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]", *conf]
    log = home / "server.log"
    submit = ["org.apache.spark.deploy.SparkSubmit", *server, "spark-internal"]
    with _spark_process(log, *submit, python=sys.executable):
        wait_until(lambda: answers(port), "a server of Spark Connect", START_S)
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _spark_process(log: Path, *arguments: str, python: str | None = None) -> Iterator[int]:
    """The number of a process of Spark's own. It knows nothing of the Python of this one, as on another machine, if not
    told."""
    hidden = ("PYSPARK_PYTHON", "PYTHONPATH", "VIRTUAL_ENV", "SPARK_REMOTE")
    with java_for_spark(), log.open("wb") as output:
        environ = {name: value for name, value in os.environ.items() if name not in hidden}
        environ |= {"PATH": "/usr/bin:/bin", "SPARK_HOME": str(Path(pyspark.__file__).parent)}
        environ |= {} if python is None else {"PYSPARK_PYTHON": python}
        command = [f"{environ['SPARK_HOME']}/bin/spark-class", *arguments]
        process = subprocess.Popen(command, env=environ, stdout=output, stderr=output)
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_workers(page: int, count: int) -> None:
    def there() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=START_S) as answer:
                return bool(json.load(answer)["aliveworkers"] == count)
        except (OSError, ValueError):  # it answers before it has pages
            return False

    wait_until(there, f"a master with {count} workers", START_S)
