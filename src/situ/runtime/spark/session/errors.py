"""The error of everything around Spark, and what an error of Spark's own says in a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from situ.core.errors import SituError

_TRACEBACK = "Traceback (most recent call last):\n"


class SparkError(SituError):
    """Spark cannot do what is asked of it: it is not installed, finds no Java, does not start, or gives up."""


@contextmanager
def spark_errors(what: str) -> Iterator[None]:
    """An error of Spark's as one with a cause and a remedy, not a stack trace of Java's."""
    try:
        yield
    except spark_exceptions() as error:
        cause, remedy = cause_and_remedy(str(error))
        raise SparkError(f"{what}: {cause}", remedy=remedy) from error


def spark_exceptions() -> tuple[type[Exception], ...]:
    """What Spark raises: PySpark's own errors, and those of its bridge to Java, which the thin client does not have."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    except ImportError:
        return (PySparkException,)
    return PySparkException, Py4JError


def cause_and_remedy(text: str) -> tuple[str, str]:
    """What matters in the text of an error of Spark's.

    >>> cause_and_remedy("An error occurred.\\n: org.a.SparkException: no such master\\n\\tat a.Spark")
    ('no such master', '')
    """
    text = re.sub(r"\s*SQLSTATE: \w{5}", "", text).strip()
    if "[JAVA_GATEWAY_EXITED]" in text:
        return "its Java process ended at once", "What Java printed above says more."
    if re.search(r"No module named 'situ\b", text):
        return "there is no situ in the Python that Spark's workers run", (
            "Install it there, in the version that is here, or ship it with the job. Which Python they run is said by "
            "spark.pyspark.python or, to a session of your own and to a server of Spark Connect, by PYSPARK_PYTHON."
        )
    if absent := re.search(r'Cannot run program "([^"]*python[^"]*)"', text):
        return no_python_at(absent[1])
    if _TRACEBACK in text:
        return _from_python(text.partition(_TRACEBACK)[2].partition("\n\nJVM stacktrace:")[0].strip())
    thrown = re.search(r"^: [\w.$]+: (.*)$", text, re.MULTILINE)  # after a line that names a call by a number
    cause = thrown[1] if thrown else text.partition("\n")[0]
    deepest = re.findall(r"^Caused by: (?:[\w.$]+: )?(.*)$", text, re.MULTILINE)
    return cause + (f" ({deepest[-1].rstrip('.')})" if deepest and deepest[-1] not in cause else ""), ""


def no_python_at(path: str) -> tuple[str, str]:
    """Cause and remedy, where workers are to run a Python that is not there."""
    return f"there is no Python at {path}", (
        "Workers run the Python of spark.pyspark.python, or PYSPARK_PYTHON. For a stream, Spark starts one beside the "
        "driver, too: a relative path must lead to it from the directory in which the driver was started."
    )


def _from_python(trace: str) -> tuple[str, str]:
    """A user's mistake that only a worker could find is said as it is said elsewhere; a defect keeps its trace."""
    raised = re.search(r"^situ\.[\w.]+: (.*)(?:\n  (.*))?\Z", trace, re.MULTILINE)
    if raised:
        return raised[1], raised[2] or ""
    return f"a worker failed\n{_TRACEBACK}{trace}", ""
