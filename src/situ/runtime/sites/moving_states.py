"""States of operators on their way from one version of a plan to the next: what a log of kind `state` has.

A state comes in pieces, the last of which is marked `whole`. The operator may run on at the old site meanwhile (`mfgs`,
TCEP): then each of its steps follows, with what it read, and the new site does them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from situ.core.errors import StateError
from situ.core.memory import MemoryBudget
from situ.core.time import BEGINNING
from situ.flow.inbox import Inbox
from situ.flow.nodes import attribute_types
from situ.graph.query import Stream
from situ.kernel.batch import Batch
from situ.kernel.operator import Context
from situ.kernel.state.checks import damage_is_told, numbers, require_times
from situ.kernel.state.snapshot import pack, unpack
from situ.runtime.sites.host import PART, STATE, STATES
from situ.runtime.sites.lone_operator import LoneOperator

#: A state travels in pieces of so many bytes.
_PIECE = 1 << 20
_INPUTS, _EVENTS = "inputs", "events/"
Part = Literal["piece", "whole", "step"]


def state_rows(tables: Mapping[str, pa.Table], lows: Mapping[str, int]) -> pa.RecordBatch:
    """A state as rows of a log, with the times up to which inputs had come."""
    state = pack({**tables, _INPUTS: _lows_table(lows)})
    pieces = [state[begin : begin + _PIECE] for begin in range(0, len(state), _PIECE)]
    return _rows([*(("piece", piece) for piece in pieces[:-1]), ("whole", pieces[-1])])


def step_rows(events: Mapping[str, Sequence[Batch]], lows: Mapping[str, int]) -> pa.RecordBatch:
    """What an operator read in a step, as a row of the log of its state."""
    tables = {}
    for type_, batches in events.items():
        inbox = Inbox()
        inbox.waiting = [*batches]
        tables[f"{_EVENTS}{type_}"] = inbox.table()
    return _rows([("step", pack({**tables, _INPUTS: _lows_table(lows)}))])


def no_rows() -> pa.RecordBatch:
    return _rows([])


def parts_of(rows: pa.RecordBatch) -> list[tuple[str, bytes]]:
    """The parts of a state that rows of its log have."""
    return list(zip(rows.column(PART).to_pylist(), rows.column(STATE).to_pylist(), strict=True))


def _rows(parts: Iterable[tuple[Part, bytes]]) -> pa.RecordBatch:
    names, states = zip(*parts, strict=True) if (parts := list(parts)) else ((), ())
    columns = [pa.array(names, pa.string()), pa.array(states, pa.large_binary())]
    return pa.RecordBatch.from_arrays(columns, schema=STATES)


def _lows_table(lows: Mapping[str, int]) -> pa.Table:
    return pa.table({"type": pa.array(lows, pa.string()), "low": pa.array(lows.values(), pa.int64())})


def _lows_of(table: pa.Table) -> dict[str, int]:
    lows = numbers(table.column("low"), np.int64, "times")
    require_times(lows, "times")
    return dict(zip(table.column("type").to_pylist(), lows.tolist(), strict=True))


class ArrivingState:
    """The state of one operator on its way here. `lows` are the times up to which its inputs had come."""

    def __init__(self, context: Context, streams: Mapping[str, Stream], memory: MemoryBudget) -> None:
        self._context, self._streams, self._memory = context, streams, memory
        self._pieces: list[bytes] = []
        self._tables: dict[str, pa.Table] | None = None
        self._follower: LoneOperator | None = None
        self.lows: dict[str, int] = {}

    def receive(self, part: str, data: bytes) -> None:
        """Take the next part."""
        match part:
            case "piece":
                self._pieces.append(data)
            case "whole":
                tables = unpack(b"".join([*self._pieces, data]))
                self._pieces.clear()
                with damage_is_told():
                    self.lows = _lows_of(tables.pop(_INPUTS))
                self._tables = tables
            case "step":
                self._follow(unpack(data))
            case _:
                raise StateError(f"a part {part!r} of the state of {self._context.operator.name} means nothing")

    def _follow(self, tables: dict[str, pa.Table]) -> None:
        """Do a step of the original again. What it made is known already."""
        if self._follower is None:
            if self._tables is None:
                raise StateError(f"the state of {self._context.operator.name} lacks its beginning")
            self._follower = LoneOperator(self._context, self._streams, self._memory)
            with damage_is_told():
                self._follower.restore(self._tables)
            self._tables = None
        with damage_is_told():
            self.lows = _lows_of(tables.pop(_INPUTS))
            events: dict[str, list[Batch]] = {}
            for type_ in self._context.inputs:
                if (table := tables.get(f"{_EVENTS}{type_}")) is not None:
                    inbox = Inbox()
                    inbox.put(table, attribute_types(self._context, type_))
                    events[type_] = inbox.waiting
        self._follower.step(events, self.lows)

    def taken(self) -> dict[str, pa.Table]:
        """The state, for a flow to go on with."""
        if self._follower is not None:
            return self._follower.taken()
        if self._tables is None:
            raise StateError(f"the state of {self._context.operator.name} did not come as a whole")
        return self._tables

    def snapshot(self) -> bytes:
        """What has come so far, as bytes that `restore` takes."""
        tables = {f"piece/{n}": pa.table({STATE: pa.array([p], pa.large_binary())}) for n, p in enumerate(self._pieces)}
        state = self._follower.snapshot() if self._follower is not None else self._tables or {}
        kind = "following" if self._follower is not None else "whole" if self._tables is not None else "pieces"
        return pack({
            **tables, **{f"state/{key}": table for key, table in state.items()},
            "kind": pa.table({"kind": [kind]}), _INPUTS: _lows_table(self.lows),
        })  # fmt: skip

    def restore(self, snapshot: bytes) -> None:
        tables = unpack(snapshot)
        with damage_is_told():
            kind = tables.pop("kind").column("kind")[0].as_py()
            self.lows = _lows_of(tables.pop(_INPUTS))
            pieces = [table for key, table in tables.items() if key.startswith("piece/")]
            self._pieces = [table.column(STATE)[0].as_py() for table in pieces]
            state = {key.removeprefix("state/"): table for key, table in tables.items() if key.startswith("state/")}
            if kind == "whole":
                self._tables = state
            elif kind == "following":
                self._follower = LoneOperator(self._context, self._streams, self._memory)
                self._follower.restore(state)


def farthest(lows: Iterable[Mapping[str, int]], since_us: int) -> dict[str, int]:
    """By type, how far time had come in the version before; what has ended for it has come to the end of its time."""
    times: dict[str, int] = {}
    for of_state in lows:
        for type_, low in of_state.items():
            times[type_] = max(times.get(type_, BEGINNING), min(low, since_us))
    return times
