"""An operator that runs by itself, beside the flow of a host: one that finishes what began before a cut, or one that
follows what its original reads at another site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from situ.core.memory import MemoryBudget
from situ.core.time import END
from situ.flow.flow import Flow
from situ.flow.port import Port
from situ.graph.query import Stream
from situ.kernel.batch import Batch
from situ.kernel.compile import RuleProgram, compile_operator
from situ.kernel.operator import Context, Produced


class LoneOperator:
    """One operator on a flow of its own. `own_us`: only what begins in this span of time is found."""

    def __init__(
        self,
        context: Context,
        streams: Mapping[str, Stream],
        memory: MemoryBudget,
        own_us: tuple[int, int] | None = None,
    ) -> None:
        self.name = context.operator.name
        self.inputs = context.operator.inputs
        self._ports = {type_: Port(type_, (self.name,), streams.get(type_)) for type_ in self.inputs}
        program: RuleProgram = compile_operator(replace(context, own_us=own_us))
        self.flow = Flow({self.name: program}, list(self._ports.values()), memory=memory)

    @property
    def low_us(self) -> int:
        return self.flow.nodes[self.name].low_watermark

    def restore(self, tables: Mapping[str, pa.Table], passed_us: int | None = None) -> None:
        """Go on with a state that was taken elsewhere; or with one of `snapshot`."""
        if passed_us is None:
            self.flow.restore(tables)
        else:
            self.flow.restore(tables, passed=passed_us)

    def snapshot(self) -> dict[str, pa.Table]:
        return self.flow.snapshot()

    def taken(self) -> dict[str, pa.Table]:
        """Its state, with the events that wait for it; it runs no more."""
        return self.flow.take(self.name)

    def step(self, events: Mapping[str, list[Batch]], lows: Mapping[str, int]) -> Produced | None:
        """Read events that have come; by type, no event before a time will follow."""
        for type_, port in self._ports.items():
            for batch in events.get(type_, ()):
                self.flow.add(port, batch)
        return self.flow.advance(END, {type_: lows[type_] for type_ in self._ports}).get(self.name)
