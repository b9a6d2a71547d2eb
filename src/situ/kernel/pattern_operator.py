"""A pattern rule at work: batches in, complex events out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from situ.core.memory import MemoryBudget
from situ.kernel.batch import Batch, Calls, concat
from situ.kernel.case_run import LOG, SECTIONS, CaseRun
from situ.kernel.operator import Chosen, Produced
from situ.kernel.program.pattern_program import PatternProgram


class PatternOperator:
    """A pattern rule at work: its cases side by side."""

    def __init__(
        self, program: PatternProgram, calls: Calls, memory: MemoryBudget, shards: int, chosen: Chosen | None
    ) -> None:
        self.context = program.context
        self.cases = [CaseRun(program, number, calls, memory, shards, chosen) for number in range(len(program.cases))]

    def snapshot(self) -> dict[str, pa.Table]:
        return self._of_cases([case.snapshot() for case in self.cases])

    def take(self, keys: Sequence[pa.Array]) -> dict[str, pa.Table]:
        return self._of_cases([case.take(keys) for case in self.cases])

    def put(self, tables: Mapping[str, pa.Table]) -> None:
        for number, case in enumerate(self.cases):
            names = (SECTIONS, LOG) if self.context.selections else (SECTIONS,)
            case.put({name: tables[f"case {number}{name}"] for name in names})

    def _of_cases(self, cases: list[dict[str, pa.Table]]) -> dict[str, pa.Table]:
        return {f"case {number}{name}": table for number, case in enumerate(cases) for name, table in case.items()}

    def idle(self, before: int) -> bool:
        idle = [case.idle(before) for case in self.cases]  # of all: time passes for each
        return all(idle)

    def process(self, inputs: Mapping[str, Batch], before: int) -> Produced:
        produced = [case.process(inputs, before) for case in self.cases]
        return Produced(
            _merged([p.events for p in produced], self.context.in_order),
            _merged([p.timed_out for p in produced], self.context.in_order),
            min(p.low_watermark for p in produced),
            pa.concat_tables([p.selections for p in produced]) if self.context.selections else None,
        )


def _merged(batches: list[Batch], in_order: bool) -> Batch:
    """Several batches as one, in order of time if that is asked for."""
    if len(batches) == 1:
        return batches[0]
    joined = concat(batches)
    return joined.take(np.argsort(joined.times, kind="stable")) if in_order else joined
