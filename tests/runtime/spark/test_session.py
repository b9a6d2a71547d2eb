"""The settings of a session: what the user gives comes first, and what situ adds is quiet."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from situ.core.memory import memory_bytes
from situ.runtime.spark.session.errors import SparkError
from situ.runtime.spark.session.session import (
    LOG_SETTINGS,
    borrowed_session,
    require_answer,
    running_session,
    session_settings,
    spark_defaults,
    spark_session,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GB = 2**30


def settings(
    master: str | None = None, conf: Mapping[str, str] | None = None, memory: int = 16 * GB, **environ: str
) -> dict[str, str]:
    return session_settings(master, conf or {}, environ, memory)


def test_without_a_word_spark_runs_here() -> None:
    made = settings()
    assert made["spark.master"] == "local[*]"
    assert made["spark.sql.session.timeZone"] == "UTC"
    assert made["spark.driver.host"] == "127.0.0.1"
    assert made["spark.ui.enabled"] == "false"


def test_what_is_given_stays() -> None:
    given = {"spark.sql.session.timeZone": "Europe/Berlin", "spark.driver.memory": "3g", "spark.ui.enabled": "true"}
    made = settings("local[2]", given)
    assert given.items() <= made.items()
    assert made["spark.master"] == "local[2]"


@pytest.mark.parametrize(("memory", "java"), [(1 * GB, "1024m"), (16 * GB, "6554m"), (512 * GB, "30720m")])
def test_java_gets_a_share_of_the_memory(memory: int, java: str) -> None:
    assert settings(memory=memory)["spark.driver.memory"] == java


def test_a_cluster_keeps_its_own_memory_and_addresses() -> None:
    made = settings("spark://master:7077")
    assert not {"spark.driver.memory", "spark.driver.host", "spark.driver.bindAddress", "spark.ui.enabled"} & set(made)
    assert made["spark.sql.session.timeZone"] == "UTC"


def test_spark_connect_is_given_only_what_a_session_can_set() -> None:
    made = settings("sc://host:15002")
    assert made.pop("spark.remote") == "sc://host:15002"
    assert all(key.startswith("spark.sql.") for key in made)
    assert settings(SPARK_REMOTE="sc://other")["spark.remote"] == "sc://other"
    assert "spark.remote" not in settings("local[1]", SPARK_REMOTE="sc://other")


def test_a_server_of_spark_connect_that_starts_here_has_local_defaults() -> None:
    made = settings(SPARK_REMOTE="local[2]")
    assert made["spark.remote"] == "local[2]"
    assert "spark.master" not in made
    assert made["spark.driver.host"] == "127.0.0.1"


def test_a_server_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        require_answer(f"sc://127.0.0.1:{port}/;token=secret", {})
    with pytest.raises(SparkError, match=f"answers at sc://127.0.0.1:{port}: ") as raised:
        require_answer(f"sc://127.0.0.1:{port}/;token=secret", {})
    assert "15002" in raised.value.remedy
    require_answer(f"sc://127.0.0.1:{port}", {"https_proxy": "http://proxy"})
    with pytest.raises(SparkError):
        require_answer("sc://host:many", {})


def test_under_spark_submit_nothing_is_added() -> None:
    assert settings(conf={"a": "b"}, PYSPARK_GATEWAY_PORT="1") == {"a": "b"}
    assert settings(PYSPARK_SUBMIT_ARGS="--master yarn pyspark-shell") == {}


def test_an_address_that_the_machine_is_told_stays() -> None:
    assert "spark.driver.host" not in settings(SPARK_LOCAL_IP="10.0.0.1")


def test_a_users_java_options_come_after_ours() -> None:
    options = settings(conf={"spark.driver.extraJavaOptions": "-Xss8m"})["spark.driver.extraJavaOptions"]
    assert options == f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()} -Xss8m"
    assert LOG_SETTINGS.is_file()


def test_sparks_own_files_come_before_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "# ours\nspark.master  spark://box:7077\nspark.sql.session.timeZone=CET\n\nspark.empty\n"
    )
    given = {"spark.master": "spark://box:7077", "spark.sql.session.timeZone": "CET"}
    assert spark_defaults({"SPARK_HOME": str(tmp_path)}) == given
    assert spark_defaults({"SPARK_CONF_DIR": str(tmp_path / "conf")}) == given
    made = settings(SPARK_HOME=str(tmp_path))
    assert given.items() <= made.items()
    assert "spark.driver.memory" not in made
    assert "log4j2" in made["spark.driver.extraJavaOptions"]
    (tmp_path / "conf" / "log4j2.properties").write_text("rootLogger.level = info\n")
    assert "spark.driver.extraJavaOptions" not in settings(SPARK_HOME=str(tmp_path))


def test_a_master_that_is_none() -> None:
    with pytest.raises(SparkError, match="'foo' names no place") as raised:
        spark_session("foo")  # whether a session runs or not
    assert "local[*]" in raised.value.remedy


def test_a_containers_memory_counts(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("1048576\n")
    assert memory_bytes((limit,)) == 1 << 20
    limit.write_text("max\n")
    assert memory_bytes((limit, tmp_path / "none")) == memory_bytes(())


def test_the_session_that_runs_is_taken(spark: SparkSession) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        assert spark_session() is spark
        assert spark_session(master="local[2]") is spark
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_a_session_that_runs_elsewhere_is_an_error(spark: SparkSession) -> None:
    for master in ("local[7]", "sc://host"):
        with pytest.raises(SparkError, match=r"runs already, on local\[2\]"):
            spark_session(master=master)


def test_a_borrowed_session_goes_on_running(spark: SparkSession) -> None:
    with borrowed_session() as session:
        assert session is spark
    assert running_session() is spark
    assert spark.range(3).count() == 3


@pytest.mark.spark
@pytest.mark.slow
def test_a_spark_that_does_not_start_says_why(tmp_path: Path) -> None:
    program = (
        "import situ.runtime.spark.session.session as s\n"
        "try: s.spark_session('local[1]', {'spark.driver.memory': 'much'})\n"
        "except s.SparkError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Spark does not start" in done.stdout
    assert "much" in done.stderr


def test_without_pyspark_the_remedy_is_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)  # as if there were none
    with pytest.raises(SparkError, match="not installed") as raised:
        spark_session()
    assert raised.value.remedy == "pip install 'situ[spark]'"
