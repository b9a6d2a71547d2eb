"""Files that situ opens itself on Spark, in this process: in slices of time, and as packets."""

from __future__ import annotations

import random
from dataclasses import dataclass

from cases.case_file import Found
from conformance.question import Question, tagged_to_found
from runtime.spark.files_without_spark import detect_files, files_output
from situ.core.functions import default
from situ.runtime.spark.plan.plan import plan_on_spark
from situ.runtime.spark.plan.time_slices import plan_reach_us
from situ.runtime.spark.session.functions import functions_used


@dataclass(frozen=True)
class OwnFiles:
    """What Spark's tasks would read, pack and find; `in_slices`: those of questions that slices of time allow, where
    the times of all rows are known. Others are read as packets."""

    in_slices: bool

    def accepts(self, question: Question) -> bool:
        if question.arriving or not self.in_slices:
            return not question.arriving
        plan = plan_on_spark(question.graph, tallies=False)
        return plan_reach_us(plan) is not None and not functions_used(question.graph, default)

    def run(self, question: Question, rng: random.Random) -> Found:
        tables = dict(question.events)
        tagged = detect_files(question.graph, tables, rng, in_slices=self.in_slices)
        if tagged is None:
            tagged = detect_files(question.graph, tables, rng, in_slices=False)
        assert tagged is not None
        return tagged_to_found(question.graph, files_output(question.graph), tagged)
