"""Spark, over files that situ opens itself: many questions are one query, and one job."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import situ
from cases.case_file import Found
from conformance.question import Question, tagged_to_found
from situ.runtime.spark.inputs.own_files import Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkFiles:
    """`situ.detect` over `situ.read`, with the rows of each stream in some files of a directory."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory

    def accepts(self, question: Question) -> bool:
        return not question.arriving

    def run(self, question: Question, rng: random.Random) -> Found:
        streams = {name: self._written(name, table, rng) for name, table in question.events.items()}
        detection = situ.detect(question.graph, streams, show_definitions=True)
        return tagged_to_found(question.graph, detection.output, detection.events.toArrow(), rejected=True)

    def _written(self, name: str, table: pa.Table, rng: random.Random) -> Files:
        directory = self._directory / name
        directory.mkdir(parents=True)
        cuts = sorted(rng.randint(0, len(table)) for _ in range(rng.randint(0, 2)))
        for number, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(table)], strict=True)):
            pq.write_table(table.slice(begin, end - begin), directory / f"{number}.parquet")
        return situ.read(self._spark, "parquet", directory)
