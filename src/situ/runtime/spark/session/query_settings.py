"""Settings that hold for the streaming queries which are started meanwhile, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

#: Does Spark run micro-batches without rows, so that time may pass?
EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


@contextmanager
def setting_for_queries(session: SparkSession, key: str, value: str) -> Iterator[None]:
    """A setting for the queries that are started meanwhile: each takes a copy of its session's settings. The session
    itself may be the user's, with other queries to come, and is left as it was."""
    before = session.conf.get(key, None)
    session.conf.set(key, value)
    try:
        yield
    finally:
        session.conf.unset(key) if before is None else session.conf.set(key, before)
