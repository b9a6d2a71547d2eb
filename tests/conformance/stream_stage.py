"""The plan and the Python parts of a streaming query, in this process: in any micro-batches, partitions and shards."""

from __future__ import annotations

import random

import pyarrow as pa

from cases.case_file import Found
from conformance.question import Question, far_away, pieces, tagged_to_found
from runtime.spark.streaming_without_spark import StreamingQuery

SHARDS = [1, 2, 5]


class StreamStage:
    """What Spark would give to Python and take from it, with micro-batches, shuffles and state by hand."""

    def accepts(self, question: Question) -> bool:
        return not question.ends_only

    def run(self, question: Question, rng: random.Random) -> Found:
        query = StreamingQuery(question.graph, rng, rng.choice(SHARDS), most_in_catalyst=rng.choice([0, 100]))
        tagged = [query.micro_batch(rows) for rows in [*pieces(question, rng), far_away(question)]]
        return tagged_to_found(question.graph, query.output, pa.concat_tables(tagged))
