"""The Python that Spark's workers run, which needs situ as the driver does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from situ.runtime.spark.session.errors import SparkError, no_python_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What a worker imports beside PySpark, which Spark brings along.
_NEEDED = ("situ", "numba", "pyarrow")
_PROBE = "import importlib.util, sys; print(*(m for m in sys.argv[1:] if importlib.util.find_spec(m) is None))"
_PROBE_S = 60


@contextmanager
def python_for_workers(settings: Mapping[str, str]) -> Iterator[None]:
    """While it lasts, PYSPARK_PYTHON is what a new session starts its workers with.

    That is what `spark.pyspark.python` says, which PySpark itself heeds under spark-submit only. Else local workers are
    of this interpreter, where situ is installed; clusters have their own.
    """
    where = settings.get("spark.remote") or settings.get("spark.master", "")
    before = os.environ.get("PYSPARK_PYTHON")
    python = settings.get("spark.pyspark.python") or before or (sys.executable if where.startswith("local") else None)
    if python is None:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = python
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYSPARK_PYTHON"]
        else:
            os.environ["PYSPARK_PYTHON"] = before


def require_situ_on_workers(session: SparkSession) -> None:
    """An error with the remedy, where the workers of a local Spark run a Python without situ.

    On a cluster, and on Spark Connect, the first worker finds out: see `errors.cause_and_remedy`. Nor is anything said
    where modules were shipped with the job, which only the worker sees.
    """
    context = getattr(session, "sparkContext", None)
    if context is None or not context.master.startswith("local") or context._python_includes:
        return
    if missing := missing_modules(context.pythonExec):
        raise SparkError(
            f"Spark's workers run {context.pythonExec}, which has no {' and no '.join(missing)}",
            place=shutil.which(context.pythonExec),
            remedy=f"Start the session with situ.spark_session(), or set PYSPARK_PYTHON={sys.executable} before it "
            "starts (under spark-submit: spark.pyspark.python).",
        )


def require_python_beside_driver(session: SparkSession) -> None:
    """An error with the remedy, where a relative path leads executors to their Python, and the driver nowhere.

    Spark asks a worker beside the driver for the schema of a stream's state, and has no setting for its path.
    """
    context = getattr(session, "sparkContext", None)
    python = sys.executable if context is None else context.pythonExec
    if os.sep in python and not os.path.exists(python):
        cause, remedy = no_python_at(python)
        raise SparkError(cause, remedy=remedy)


@cache
def missing_modules(command: str) -> tuple[str, ...]:
    """The modules that workers need and that this Python does not have; none, if it cannot be asked."""
    python = shutil.which(command)
    if python is None or os.path.abspath(python) == sys.executable:
        return ()
    asking = [python, "-c", _PROBE, *_NEEDED]
    try:
        done = subprocess.run(asking, capture_output=True, text=True, timeout=_PROBE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(done.stdout.split()) if done.returncode == 0 else ()
