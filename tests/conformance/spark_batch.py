"""Spark, over tables: many questions are one query, and one job."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cases.case_file import Found
from conformance.question import Question, tagged_to_found
from situ.runtime.spark.detect import detect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class SparkBatch:
    """`situ.detect` over DataFrames; `mixed`: their rows are in another order, and in several partitions."""

    def __init__(self, spark: SparkSession, mixed: bool = False) -> None:
        self._spark = spark
        self._mixed = mixed

    def accepts(self, question: Question) -> bool:
        return not question.arriving

    def run(self, question: Question, rng: random.Random) -> Found:
        streams = {name: self._dataframe(table, rng) for name, table in question.events.items()}
        detection = detect(question.graph, streams, show_definitions=True)
        return tagged_to_found(question.graph, detection.output, detection.events.toArrow(), rejected=True)

    def _dataframe(self, table: pa.Table, rng: random.Random) -> DataFrame:
        if len(table) == 0:  # Spark Connect takes no empty table without a schema
            return self._spark.createDataFrame([], from_arrow_schema(table.schema))
        rows = self._spark.createDataFrame(table)
        if not self._mixed:
            return rows.coalesce(1)
        return rows.repartition(rng.choice([1, 2, 5])).sortWithinPartitions(F.rand(rng.randrange(1000)))
