"""What is left of an error of Spark's: the sentence that matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from situ.core.errors import QueryError
from situ.runtime.spark.session.errors import SparkError, cause_and_remedy, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Texts of Spark 4.3: classic, and Spark Connect.
TEXTS = {
    "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL (line 1) ==\n\nJVM stacktrace:\norg.a\n\tat a.b": (
        "[DIVIDE_BY_ZERO] Division by zero.",
        "",
    ),
    "An error occurred while calling o125.collectToPython.\n: org.apache.spark.SparkException: [FAILED_READ_FILE] "
    "Encountered error while reading file a.parquet.  SQLSTATE: KD001\n\tat org.apache.A$.b(A.scala:920)\n"
    "Caused by: java.io.IOException: bad\n\tat c\nCaused by: org.X: don't know what type: 14\n\t... 1 more": (
        "[FAILED_READ_FILE] Encountered error while reading file a.parquet. (don't know what type: 14)",
        "",
    ),
    "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File 'a.py', line 1\n"
    "situ.core.errors.QueryError: function f cannot be imported: no module.\n  Install it.": (
        "function f cannot be imported: no module.",
        "Install it.",
    ),
    "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n[PYTHON_EXCEPTION] An "
    "exception was thrown from the Python worker: Traceback (most recent call last):\n  File 'a.py', line 1\n"
    "situ.core.errors.InputError: cars.csv: not UTF-8.\n SQLSTATE: 38000": ("cars.csv: not UTF-8.", ""),
    "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File 'a.py', line 1\n"
    "ValueError: a defect": (
        "a worker failed\nTraceback (most recent call last):\nFile 'a.py', line 1\nValueError: a defect",
        "",
    ),
    "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.": (
        "its Java process ended at once",
        "What Java printed above says more.",
    ),
}


@pytest.mark.parametrize(("text", "said"), TEXTS.items())
def test_what_is_said(text: str, said: tuple[str, str]) -> None:
    assert cause_and_remedy(text) == said


def test_a_users_mistake_that_a_worker_finds(spark: SparkSession) -> None:
    def fail(batches):  # type: ignore[no-untyped-def]
        raise QueryError("function f cannot be imported", remedy="Install it.")

    with pytest.raises(SparkError) as raised, spark_errors("Spark gives up"):
        spark.range(1).mapInArrow(fail, "id long").count()
    assert raised.value.cause == "Spark gives up: function f cannot be imported"
    assert raised.value.remedy == "Install it."


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(ZeroDivisionError), spark_errors("Spark gives up"):
        print(1 // 0)
