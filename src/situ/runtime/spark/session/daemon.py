"""The process that Spark forks its Python workers from, with everything that they import already in memory.

Without it each worker, one or two per core, imports NumPy, Arrow, Numba and situ for itself.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from importlib.machinery import PathFinder


def without_archives(path: list[str]) -> list[str]:
    """A path for imports without archives that have what is installed, too, as Spark's `pyspark.zip` and its py4j.

    Modules of an archive are compiled at each start, and each worker looks through all of it once more.
    """
    others = [place for place in path if not place.endswith(".zip")]
    installed = [PathFinder.find_spec(package, others) for package in ("pyspark", "py4j")]
    homes = [home for spec in installed if spec is not None for home in spec.submodule_search_locations or ()]
    if len(homes) < len(installed):
        return path
    return [place for place in path if place in others or not place.startswith(homes[0])]


if __name__ == "__main__":
    sys.path[:] = without_archives(sys.path)
    for archive in [place for place in sys.path_importer_cache if place not in sys.path and place.endswith(".zip")]:
        del sys.path_importer_cache[archive]

    from pyspark.daemon import manager

    with suppress(Exception):  # what cannot be imported here is said by the worker that needs it
        import pyspark.sql.streaming.proto.StateMessage_pb2
        import pyspark.worker  # noqa: F401

        import situ.runtime.spark.inputs.tables
        import situ.runtime.spark.stages.batch_stage
        import situ.runtime.spark.stages.stream_stage  # noqa: F401
    # Spark's daemon lets each worker collect garbage after each task, which takes a tenth of a second with all that is
    # imported. What is there now stays: workers do not look through it.
    gc.freeze()
    manager()
