"""Spark, over streams: many questions are one streaming query."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from cases.case_file import Found
from conformance.question import Question, far_away, pieces, tagged_to_found
from situ.runtime.spark.detect import detect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Far above what anything here takes: a test that waits so long has failed.
DEADLINE_S = 300.0
Rows = dict[str, pa.Table]


class SparkStreaming:
    """`situ.detect` over `spark.readStream`, in a directory of its own and in few micro-batches."""

    def __init__(self, spark: SparkSession, directory: Path, micro_batches: int = 3, shards: int = 3) -> None:
        self._spark = spark
        self._directory = directory
        self._micro_batches = micro_batches
        self._shards = shards

    def accepts(self, question: Question) -> bool:
        return not question.ends_only

    def run(self, question: Question, rng: random.Random) -> Found:
        for number, rows in enumerate([*_few(pieces(question, rng), self._micro_batches), far_away(question)]):
            self._write(number, question, rows)
        reader = self._spark.readStream.option("maxFilesPerTrigger", 1)
        streams = {
            name: reader.schema(from_arrow_schema(table.schema)).parquet(str(self._directory / "in" / name))
            for name, table in question.events.items()
        }
        detection = detect(question.graph, streams, show_definitions=True, shards=self._shards)
        writer = detection.events.writeStream.format("parquet").option("path", str(self._directory / "out"))
        query = writer.option("checkpointLocation", str(self._directory / "ck")).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(DEADLINE_S), "Spark did not come to the end of what was available"
        finally:
            query.stop()
        tagged = self._spark.read.parquet(str(self._directory / "out")).toArrow()
        return tagged_to_found(question.graph, detection.output, tagged, rejected=True)

    def _write(self, number: int, question: Question, rows: Rows) -> None:
        """A file for every stream: the n-th micro-batch reads the n-th file of each."""
        for name, table in question.events.items():
            path = self._directory / "in" / name / f"{number:04}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows.get(name, table.slice(0, 0)), path)
            os.utime(path, (1_700_000_000 + number,) * 2)


def _few(all_pieces: list[Rows], most: int) -> list[Rows]:
    """Neighbours together, because each micro-batch takes a second."""
    joined: list[Rows] = [{} for _ in range(min(most, len(all_pieces)))]
    for number, piece in enumerate(all_pieces):
        into = joined[number * len(joined) // len(all_pieces)]
        for name, table in piece.items():
            into[name] = pa.concat_tables([into[name], table]) if name in into else table
    return joined
