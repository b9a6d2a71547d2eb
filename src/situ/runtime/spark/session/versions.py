"""Which versions of Spark situ runs on. `make sparks` runs tests on each of them."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from situ.runtime.spark.session.errors import SparkError

#: The first version that has what situ asks of DataFrames, and the first one with `transformWithState` over rows.
OLDEST, OLDEST_FOR_STREAMS = (4, 0), (4, 1)
#: The first version whose Python sources are told where a batch begins.
OLDEST_FOR_SITES = (4, 2)


def installed_version() -> str | None:
    """The version of the PySpark of this interpreter, by the text of its own file.

    Nothing is imported: an old PySpark may not even import with today's Python and Arrow. The names and versions of
    installed packages are not asked either, because PySpark comes in several (`pyspark`, `pyspark-client`, vendors').
    """
    spec = find_spec("pyspark")
    for folder in (spec and spec.submodule_search_locations) or ():
        file = Path(folder, "version.py")
        said = re.search(r"__version__[^=]*=\s*[\"']([^\"']+)", file.read_text("utf-8")) if file.is_file() else None
        if said:
            return said[1]
    return None


def release(version: str) -> tuple[int, int]:
    """The two numbers that say what a Spark can do.

    >>> release("4.1.4"), release("4.2.0.dev1")
    ((4, 1), (4, 2))
    """
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None:
        raise SparkError(f"'{version}' is no version of Spark")
    return int(numbers[1]), int(numbers[2])


def require_spark(version: str | None) -> None:
    """An error with the remedy for a PySpark that is too old; None is one that does not say its version."""
    if version is not None and release(version) < OLDEST:
        raise SparkError(
            f"situ runs on Spark {_spelt(OLDEST)} and newer, and PySpark {version} is installed",
            remedy="pip install --upgrade 'situ[spark]', or do without Spark: situ.Engine, and --engine embedded.",
        )


def require_streams(version: str) -> None:
    """An error with the remedy for a Spark that knows batches only.

    >>> require_streams("4.1.0")
    """
    if release(version) < OLDEST_FOR_STREAMS:
        raise SparkError(
            f"streams need Spark {_spelt(OLDEST_FOR_STREAMS)} or newer, and this is Spark {version}",
            remedy="Tables (spark.read) can be asked here. For streams: pip install --upgrade 'situ[spark]', "
            "and the same version on the cluster.",
        )


def require_site_streams(version: str | None) -> None:
    """An error with the remedy for a Spark on which no site can run.

    >>> require_site_streams("4.1.0")
    Traceback (most recent call last):
    situ.runtime.spark.session.errors.SparkError: a Spark site needs Spark 4.2 or newer, and this is Spark 4.1.0.
      pip install --upgrade 'situ[spark]', and the same on the cluster; or leave out --engine spark.
    """
    if version is not None and release(version) < OLDEST_FOR_SITES:
        raise SparkError(
            f"a Spark site needs Spark {_spelt(OLDEST_FOR_SITES)} or newer, and this is Spark {version}",
            remedy="pip install --upgrade 'situ[spark]', and the same on the cluster; or leave out --engine spark.",
        )


def _spelt(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))
