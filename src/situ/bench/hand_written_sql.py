"""The peer that a Spark user would take instead: the same questions in Spark SQL, written by hand as well as we can.

`next` is two running aggregates over one sort: for every event the time of the next C, and for every event the next B
with what that B knows of C. `rising` and `each` are joins of the candidates on the key and a bucket of time as long as
the window, so that rows meet only those of their own bucket and the next one. docs/coming-from.md shows them.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import assert_never

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from situ.bench.measure import WARM_RUNS, Timed
from situ.bench.peer import PeerRun
from situ.bench.workload import Pattern, Workload, stream_on_disk
from situ.runtime.spark.session.session import borrowed_session

_NEXT = """
WITH candidates AS (SELECT {key} AS key, type, id, ts FROM events WHERE type IN (0, 1, 2)),
     with_c AS (SELECT *, min(CASE WHEN type = 2 THEN ts END) OVER later AS c FROM candidates
                WINDOW later AS (PARTITION BY key ORDER BY ts DESC, id DESC
                                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)),
     with_b AS (SELECT *, min(CASE WHEN type = 1 THEN struct(ts, id, c) END) OVER later AS b FROM with_c
                WINDOW later AS (PARTITION BY key ORDER BY ts DESC, id DESC
                                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
SELECT key, ts AS a, b.ts AS b, b.c AS c FROM with_b
WHERE type = 0 AND b.c <= ts + INTERVAL '{window_us}' MICROSECOND
"""

_RISING = """
WITH candidates AS (SELECT {key} AS key, id, value, ts, unix_micros(ts) DIV {window_us} AS bucket
                    FROM events WHERE type = 0),
     doubled AS (SELECT *, explode(array(bucket, bucket + 1)) AS reached FROM candidates)
SELECT a.key, a.ts AS a, min(b.ts) AS b FROM doubled a JOIN candidates b
  ON a.key = b.key AND a.reached = b.bucket AND (b.ts, b.id) > (a.ts, a.id)
     AND b.ts <= a.ts + INTERVAL '{window_us}' MICROSECOND AND b.value > a.value + 500
GROUP BY a.key, a.id, a.ts
"""

_EACH = """
WITH candidates AS (SELECT {key} AS key, type, id, ts, unix_micros(ts) DIV {window_us} AS bucket
                    FROM events WHERE type IN (0, 1, 2)),
     first_step AS (SELECT *, explode(array(bucket, bucket + 1)) AS reached FROM candidates WHERE type = 0),
     two_steps AS (SELECT a.key, a.ts AS a, b.ts AS b, b.id AS b_id, explode(array(a.bucket, a.bucket + 1)) AS reached
                   FROM first_step a JOIN candidates b
                     ON b.type = 1 AND a.key = b.key AND a.reached = b.bucket AND (b.ts, b.id) > (a.ts, a.id)
                        AND b.ts <= a.ts + INTERVAL '{window_us}' MICROSECOND)
SELECT s.key, s.a, s.b, c.ts AS c FROM two_steps s JOIN candidates c
  ON c.type = 2 AND s.key = c.key AND s.reached = c.bucket AND (c.ts, c.id) > (s.b, s.b_id)
     AND c.ts <= s.a + INTERVAL '{window_us}' MICROSECOND
"""


def sql_text(workload: Workload) -> str:
    """The workload's query in Spark SQL, over a view `events`."""
    match workload.pattern:
        case Pattern.NEXT:
            template = _NEXT
        case Pattern.RISING:
            template = _RISING
        case Pattern.EACH:
            template = _EACH
        case _:
            assert_never(workload.pattern)
    return template.format(window_us=workload.window_ms * 1000, key="key" if workload.grouped else "0")


def run(workload: Workload, cache: Path) -> PeerRun:
    """Hand-written SQL on the workload's events, in the session that is there: the median of warm runs, as for situ."""
    directory = stream_on_disk(workload, cache)
    with borrowed_session() as spark:
        cold, *warm = (time_sql(spark, workload, directory) for _ in range(1 + WARM_RUNS))
    seconds = statistics.median(timed.seconds for timed in warm)
    return PeerRun("sql", workload.events, cold.matches, workload.events / seconds)


def time_sql(spark: SparkSession, workload: Workload, directory: Path) -> Timed:
    """Times the hand-written query from Parquet files on disk to rows that Spark hands to a sink."""
    start = time.perf_counter()
    spark.read.parquet(str(directory)).createOrReplaceTempView("events")
    matches = Observation()
    rows = spark.sql(sql_text(workload)).observe(matches, F.count(F.lit(1)).alias("rows"))
    rows.write.format("noop").mode("overwrite").save()
    return Timed(matches.get["rows"], time.perf_counter() - start)
