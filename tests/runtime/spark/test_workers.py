"""The Python of Spark's workers: which one it is, and what is said if situ is not there."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from situ.runtime.spark.follow.query_errors import query_error
from situ.runtime.spark.session.daemon import without_archives
from situ.runtime.spark.session.errors import SparkError, cause_and_remedy
from situ.runtime.spark.session.workers import (
    missing_modules,
    python_for_workers,
    require_python_beside_driver,
    require_situ_on_workers,
)


@dataclass
class Context:
    """What is asked of a SparkContext."""

    pythonExec: str
    master: str = "local[2]"
    _python_includes: list[str] = field(default_factory=list)


@dataclass
class Session:
    sparkContext: Context


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    """A Python without packages."""
    python = tmp_path / "bare-python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    return str(python)


@pytest.mark.parametrize(
    ("settings", "before", "python"),
    [
        ({"spark.master": "local[2]"}, None, sys.executable),
        ({"spark.remote": "local"}, None, sys.executable),
        ({"spark.master": "local[2]"}, "/other/python", "/other/python"),
        ({"spark.master": "local[2]", "spark.pyspark.python": "/said"}, "/other/python", "/said"),
        ({"spark.master": "spark://host:7077", "spark.pyspark.python": "./environment/bin/python"}, None, None),
        ({"spark.master": "spark://host:7077"}, None, None),
    ],
)
def test_which_python_workers_run(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], before: str | None, python: str | None
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if before is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", before)
    with python_for_workers(settings):
        assert os.environ.get("PYSPARK_PYTHON") == (python or settings.get("spark.pyspark.python"))
    assert os.environ.get("PYSPARK_PYTHON") == before


def test_a_python_without_situ_is_refused_where_it_can_be_asked(bare_python: str) -> None:
    assert missing_modules(bare_python) == ("situ", "numba", "pyarrow")
    session: Any = Session(Context(bare_python))
    with pytest.raises(SparkError, match="which has no situ and no numba and no pyarrow") as raised:
        require_situ_on_workers(session)
    assert f"PYSPARK_PYTHON={sys.executable}" in raised.value.remedy
    unknown: list[Any] = [
        Session(Context(bare_python, "spark://host:7077")),
        Session(Context(bare_python, _python_includes=["situ.zip"])),
        Session(Context("/no/python/at/all")),
        Session(Context(sys.executable)),
        object(),  # Spark Connect
    ]
    for other in unknown:
        require_situ_on_workers(other)


def test_streams_need_the_workers_python_beside_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bare_python: str
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster: Any = Session(Context("./environment/bin/python", "spark://host:7077"))
    with pytest.raises(SparkError, match=r"there is no Python at \./environment/bin/python") as raised:
        require_python_beside_driver(cluster)
    assert "in which the driver was started" in raised.value.remedy
    (tmp_path / "environment" / "bin").mkdir(parents=True)
    (tmp_path / "environment" / "bin" / "python").symlink_to(bare_python)
    elsewhere: list[Any] = [cluster, Session(Context("python3", "yarn")), object()]
    for other in elsewhere:
        require_python_beside_driver(other)


OWN_SESSION = """
from pyspark.sql import SparkSession
import situ

spark = SparkSession.builder.master("local[1]").getOrCreate()
rows = spark.createDataFrame([(1, 1.0)], "n int, at double")
try:
    situ.detect("stream A(n int, at double) time at in s subscribe B detect A as a assign n = a.n", {"A": rows})
except situ.SituError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.storm
def test_a_session_of_ones_own_whose_workers_run_another_python(bare_python: str) -> None:
    environ = os.environ | {"PYSPARK_PYTHON": bare_python}
    done = subprocess.run([sys.executable, "-c", OWN_SESSION], env=environ, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(f"{bare_python}: Spark's workers run {bare_python}, which has no situ"), done.stderr


#: As classic Spark, a daemon that cannot start, and a stream say it.
TEXTS = [
    "Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times: org.apache.spark.api.python.Exception: "
    'Traceback (most recent call last):\n  File "worker.py", line 2015, in main\nModuleNotFoundError: No module '
    "named 'situ'\n\n\tat org.apache.spark.api.python.BasePythonRunner",
    "Error from python worker:\n  /usr/bin/python3: Error while finding module specification for "
    "'situ.runtime.spark.session.daemon' (ModuleNotFoundError: No module named 'situ')\n"
    "PYTHONPATH was:\n  /spark/python",
]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_said_when_a_worker_finds_out(text: str) -> None:
    cause, remedy = cause_and_remedy(text)
    assert cause == "there is no situ in the Python that Spark's workers run"
    assert "spark.pyspark.python" in remedy
    assert cause in query_error(text).cause


def test_what_is_said_when_there_is_no_such_python() -> None:
    text = 'java.io.IOException: Cannot run program "./environment/bin/python": error=2, No such file or directory'
    cause, remedy = cause_and_remedy(text)
    assert cause == "there is no Python at ./environment/bin/python"
    assert "from the directory in which the driver was started" in remedy


def test_workers_import_what_is_installed_and_not_archives_of_it(tmp_path: Path) -> None:
    installed, half = tmp_path / "installed", tmp_path / "half"
    for package in (installed / "pyspark", installed / "py4j", half / "pyspark"):
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
    for home, is_enough in ((installed, True), (half, False)):
        archives = [str(home / "pyspark" / "python" / "lib" / name) for name in ("pyspark.zip", "py4j-src.zip")]
        others = [str(tmp_path / "own.zip"), str(home)]
        assert without_archives([*archives, *others]) == (others if is_enough else [*archives, *others])
