"""The plan and the Python parts of a Spark batch, in this process: however rows are divided."""

from __future__ import annotations

import random

from cases.case_file import Found
from conformance.question import Question, tagged_to_found
from runtime.spark.without_spark import detect_without_spark, output_without_spark


class BatchStage:
    """What Spark would give to Python and take from it, with partitions and shuffles by hand."""

    def accepts(self, question: Question) -> bool:
        return not question.arriving

    def run(self, question: Question, rng: random.Random) -> Found:
        tagged = detect_without_spark(question.graph, dict(question.events), rng)
        return tagged_to_found(question.graph, output_without_spark(question.graph), tagged)
