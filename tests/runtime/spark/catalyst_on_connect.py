"""A script: random expressions on Spark Connect, beside the kernel. Its argument is a folder for rows."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from runtime.random_expressions import RandomExpressions, random_rows
from runtime.spark.catalyst_comparison import Table, differences
from situ.runtime.spark.java import java_for_spark

if __name__ == "__main__":
    with java_for_spark():
        spark = SparkSession.builder.remote("local[2]").getOrCreate()
    print(type(spark).__module__)
    events, times = random_rows(random.Random(7), 90)
    table = Table.of(spark, Path(sys.argv[1]) / "rows.parquet", events, times)
    draw = RandomExpressions(random.Random(7))
    expressions = [draw.any(2) for _ in range(300)]
    differ = list(differences(expressions, table))
    print(f"{len(expressions)} expressions, {len(differ)} differ")
    print(*differ, sep="\n", file=sys.stderr)
    spark.stop()
