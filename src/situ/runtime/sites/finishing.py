"""Operators that are cut in time (`sms`, TCEP): in a new version of a plan, an instance at the old site finishes what
began before a cut, and one at the new site, without any state, finds what begins later. Whoever reads the operator
reads both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from situ.core.memory import MemoryBudget
from situ.core.time import BEGINNING, END
from situ.graph.cuts import cut_in, lags_in
from situ.graph.operators import OperatorGraph
from situ.graph.query import Stream
from situ.kernel.batch import Batch
from situ.kernel.operator import Context, Produced
from situ.runtime.sites.deployed_plan import DeployedPlan, PlanError
from situ.runtime.sites.lone_operator import LoneOperator

_FINISHING = "finishing/"


@dataclass(frozen=True, slots=True)
class CutTimes:
    """What begins before `cut_us` is found by the old instance, which is done when the time of its inputs has come to
    `decided_us`; and that is so when the time of all streams has come to `done_us`."""

    cut_us: int
    decided_us: int
    done_us: int


def cut_times(plan: DeployedPlan, graph: OperatorGraph) -> dict[str, CutTimes]:
    """By operator that a plan cuts in time: where; PlanError if it cannot be cut.

    Operators that read complex events may have been given some of the first microsecond of the version in the version
    before, so that a new instance knows all events only from the next microsecond on.
    """
    times, lags = {}, lags_in(graph)
    for operator in graph.operators:
        if plan.operators[operator.name].finished_at is not None:
            cut = cut_in(graph, operator.name)
            if isinstance(cut, str):
                raise PlanError(
                    f"{operator.name} cannot be cut in time: {cut}", remedy=f"Move {operator.name} by mfgs instead."
                )
            cut_us = plan.starts_us + 1 + cut.back_us
            decided_us = cut_us + cut.after_us
            times[operator.name] = CutTimes(
                cut_us, decided_us, decided_us + max(lags[event] or 0 for event in operator.inputs)
            )
    return times


class FinishingOperators:
    """The operators that finish at one site what began before their cuts."""

    def __init__(
        self,
        contexts: Mapping[str, Context],
        cuts: Mapping[str, CutTimes],
        streams: Mapping[str, Stream],
        memory: MemoryBudget,
    ) -> None:
        self._cuts = cuts
        self._operators = {
            name: LoneOperator(context, streams, memory, own_us=(BEGINNING, cuts[name].cut_us))
            for name, context in contexts.items()
        }

    def __contains__(self, name: str) -> bool:
        return name in self._operators

    @property
    def inputs(self) -> list[str]:
        return [type_ for operator in self._operators.values() for type_ in operator.inputs]

    def begin(self, name: str, tables: Mapping[str, pa.Table], since_us: int) -> None:
        """An operator goes on with the state that it had in the version before."""
        self._operators[name].restore(tables, since_us)

    def step(
        self, arrived: Mapping[str, list[Batch]], lows: Mapping[str, int]
    ) -> dict[str, tuple[Produced | None, int]]:
        """By operator: what it found, and how far it has come; to the end, if all is decided that began before."""
        made = {}
        for name in list(self._operators):
            operator = self._operators[name]
            produced = operator.step(arrived, lows)
            is_done = min(lows[type_] for type_ in operator.inputs) >= self._cuts[name].decided_us
            made[name] = produced, END if is_done else operator.low_us
            if is_done:
                del self._operators[name]
        return made

    def wanted(self, asked: Mapping[str, tuple[int, int]], lows: Mapping[str, int]) -> dict[str, int]:
        """By type, up to which time somebody waits for it to pass: those who read these operators, and they themselves,
        until they are done."""
        wanted: dict[str, int] = {}
        for name, operator in self._operators.items():
            decided_us = self._cuts[name].decided_us
            asked_us = asked[name][0] if name in asked else decided_us
            for type_ in operator.inputs:
                until_us = asked_us if lows[type_] < asked_us < decided_us else decided_us
                wanted[type_] = min(wanted.get(type_, END), until_us)
        return wanted

    def passed_us(self, event_type: str, lows: Mapping[str, int]) -> list[int]:
        """How far time has come for those that read a type."""
        reading = [operator for operator in self._operators.values() if event_type in operator.inputs]
        return [min(lows[type_] for type_ in operator.inputs) for operator in reading]

    def snapshot(self) -> dict[str, pa.Table]:
        return {
            f"{_FINISHING}{name}/{key}": table
            for name, operator in self._operators.items()
            for key, table in operator.snapshot().items()
        } | {_FINISHING: pa.table({"name": pa.array(list(self._operators), pa.string())})}

    def restore(self, tables: dict[str, pa.Table]) -> None:
        """Go on from a snapshot; its tables are taken out of `tables`."""
        unfinished = tables.pop(_FINISHING).column("name").to_pylist()
        self._operators = {name: self._operators[name] for name in unfinished}
        for name, operator in self._operators.items():
            prefix = f"{_FINISHING}{name}/"
            own = {key.removeprefix(prefix): tables.pop(key) for key in list(tables) if key.startswith(prefix)}
            operator.restore(own)
