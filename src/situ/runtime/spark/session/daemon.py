"""The process that Spark forks its Python workers from, with everything that they import already in memory.

Without it each worker, one or two per core, imports NumPy, Arrow, Numba and situ for itself.
"""

from __future__ import annotations

import gc
from contextlib import suppress

from pyspark.daemon import manager

if __name__ == "__main__":
    with suppress(Exception):  # what cannot be imported here is said by the worker that needs it
        import pyspark.worker  # noqa: F401

        import situ.runtime.spark.inputs.tables
        import situ.runtime.spark.stages.batch_stage
        import situ.runtime.spark.stages.stream_stage  # noqa: F401
    # Spark's daemon lets each worker collect garbage after each task, which takes a tenth of a second with all that is
    # imported. What is there now stays: workers do not look through it.
    gc.freeze()
    manager()
