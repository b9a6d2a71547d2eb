"""Operators that read each other, and the events that wait between them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.errors import StateError
from situ.core.memory import MemoryBudget
from situ.core.time import BEGINNING
from situ.core.types import to_arrow
from situ.flow.inbox import Inbox, distinct
from situ.graph.operators import Operator
from situ.graph.query import Stream
from situ.kernel.batch import Batch, concat
from situ.kernel.compile import RuleProgram, start_operator
from situ.kernel.matching.matcher import WORTH_A_THREAD
from situ.kernel.operator import Chosen, Conditions, Produced, RunningOperator
from situ.kernel.state.checks import numbers, require_times
from situ.kernel.state.snapshot import digest_of, with_digest

_PORT = b"situ.port"
_LOWS = "low watermarks"


@dataclass(frozen=True, slots=True)
class Port:
    """Where events of a type come in from outside, for some operators; `stream`, if they are a stream's."""

    type: str
    readers: tuple[str, ...]
    stream: Stream | None


@dataclass(slots=True)
class _Node:
    """An operator, with what it has not read yet."""

    program: RuleProgram
    operator: RunningOperator
    inboxes: dict[str, Inbox]
    low_watermark: int = BEGINNING

    @property
    def name(self) -> str:
        return self.program.context.operator.name

    @property
    def depth(self) -> int:
        return self.program.context.operator.depth

    def tests(self, event_type: str) -> set[Conditions]:
        return {*self.program.tests().get(event_type, ())}

    def types(self, event_type: str) -> dict[str, pa.DataType]:
        """The attributes of a type that it reads."""
        return {name: to_arrow(type_) for name, type_ in self.program.context.schemas[event_type].attributes}

    def snapshot(self) -> dict[str, pa.Table]:
        """Its state, and what it has not read yet."""
        tables = self.tables(self.operator.snapshot())
        return tables | {f"inbox/{self.name}/{t}": inbox.table() for t, inbox in self.inboxes.items() if inbox.waiting}

    def tables(self, state: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """The tables of a state under the operator's name, each with the digest that it fits."""
        digests = self.program.digests()
        return {f"operator/{self.name}/{part}": with_digest(table, digests[part]) for part, table in state.items()}

    def put(self, tables: Mapping[str, pa.Table]) -> None:
        self.operator.put({part: tables[f"operator/{self.name}/{part}"] for part in self.program.digests()})
        for type_, inbox in self.inboxes.items():
            if (waiting := tables.get(f"inbox/{self.name}/{type_}")) is not None:
                inbox.put(waiting, self.types(type_), self.tests(type_))


def operators_in(tables: Mapping[str, pa.Table]) -> set[str]:
    """The operators that a snapshot of a flow has the state of."""
    return {*tables[_LOWS].column("name").to_pylist()}


@dataclass
class Flow:
    """Runs operators, inputs first. `threads` are shared by operators that do not read each other; `chosen`: by
    operator, the only selections that it processes."""

    programs: Mapping[str, RuleProgram]
    ports: Sequence[Port]
    threads: int = 1
    chosen: Mapping[str, Chosen] = field(default_factory=dict)
    failed_calls: Counter[str] = field(default_factory=Counter)
    memory: MemoryBudget = field(default_factory=MemoryBudget.of_process)
    duplicates: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.nodes = {name: self._started(program) for name, program in self.programs.items()}
        self._order_nodes()
        self._pending = {port: Inbox() for port in self.ports}
        self._readers = {port: port.readers for port in self.ports}

    def _started(self, program: RuleProgram) -> _Node:
        of_one = self.threads // max(len(self.programs), 1)  # operators run side by side first
        threads = 1 << max(of_one.bit_length() - 1, 0)
        chosen = self.chosen.get(program.context.operator.name)
        operator = start_operator(program, self.failed_calls, self.memory, threads, chosen)
        return _Node(program, operator, {type_: Inbox() for type_ in program.context.inputs})

    def _order_nodes(self) -> None:
        depths = sorted({node.depth for node in self.nodes.values()})
        self._levels = [[node for node in self.nodes.values() if node.depth == depth] for depth in depths]

    def operator(self, name: str) -> Operator:
        """What the operator graph says of an operator of this name."""
        return self.nodes[name].program.context.operator

    def add(self, port: Port, batch: Batch) -> None:
        """Events that have come; they wait until time has passed them."""
        self._pending[port].add(batch)

    def advance(self, passed: int, lows: Mapping[str, int] | None = None) -> dict[str, Produced]:
        """Time has passed up to `passed`: let every operator read what came before it.

        `lows`: complex events from outside have come up to these times only, by their type.
        """
        lows = lows or {}
        events = 0
        for port, inbox in self._pending.items():
            limit = min(passed, lows.get(port.type, passed))
            ready = inbox.before(limit)
            if ready is not None:
                ready = self._distinct(port, ready)
                events += len(ready)
            for reader in self._readers[port]:
                self._hand_to(self.nodes[reader].inboxes[port.type], port, ready, limit)
        produced: dict[str, Produced] = {}
        for level in self._levels:
            made = self._process(level, passed, lows, events)
            for name, result in made.items():
                for node in self.nodes.values():
                    if name in node.inboxes:
                        node.inboxes[name].add(result.events)
            produced |= made
        return produced

    def _hand_to(self, inbox: Inbox, port: Port, ready: Batch | None, limit: int) -> None:
        if port.stream is not None and port.stream.unique is not None and (waited := inbox.before(limit)) is not None:
            # When rules changed, it waited for some readers only (see `_restore_port`); copies may have come since.
            ready = self._distinct(port, concat([waited, ready] if ready is not None else [waited]))
        if ready is not None:
            inbox.add(ready)

    def _distinct(self, port: Port, batch: Batch) -> Batch:
        if port.stream is None or not self._readers[port]:
            return batch
        events, dropped = distinct(batch, port.stream)
        self.duplicates += dropped
        return events

    def _process(self, level: list[_Node], passed: int, lows: Mapping[str, int], events: int) -> dict[str, Produced]:
        """Operators that do not read each other, side by side where there is enough to do."""

        def low(name: str) -> int:
            return self.nodes[name].low_watermark if name in self.nodes else lows.get(name, passed)

        def step(node: _Node) -> Produced:
            limit = min([passed, *map(low, node.inboxes)])
            inputs = {t: batch for t, inbox in node.inboxes.items() if (batch := inbox.before(limit)) is not None}
            if inputs:
                self.memory.require(
                    0, node.name, f"with the state of {len(self.nodes):,} rules", "Run fewer rules or keys at once."
                )
            return node.operator.process(inputs, limit)

        if len(level) > 1 and self.threads > 1 and events >= WORTH_A_THREAD:
            with ThreadPoolExecutor(self.threads) as pool:
                results = list(pool.map(step, level))
        else:
            results = [step(node) for node in level]
        for node, result in zip(level, results, strict=True):
            node.low_watermark = result.low_watermark
        return {node.name: result for node, result in zip(level, results, strict=True)}

    # --- state

    def snapshot(self) -> dict[str, pa.Table]:
        """The state as tables."""
        tables: dict[str, pa.Table] = {}
        for node in self.nodes.values():
            tables |= node.snapshot()
        for number, (port, inbox) in enumerate(self._pending.items()):
            if inbox.waiting:
                about = {_PORT: json.dumps([port.type, *self._readers[port]]).encode()}
                tables[f"port/{number}"] = inbox.table().replace_schema_metadata(about)
        return tables | {_LOWS: self._lows(self.nodes)}

    def take_groups(self, keys: Sequence[pa.Array]) -> dict[str, pa.Table]:
        """Remove the groups whose first keys are among `keys`, a column for each key, from all operators.

        The state of these groups, with the events that wait for them, as tables for `put`. All operators group by
        attributes of these names first.
        """
        tables: dict[str, pa.Table] = {}
        at_ports = {
            port: inbox.take_groups(self._first_keys(port, keys), keys)
            for port, inbox in self._pending.items()
            if self._readers[port]  # what nobody reads is nobody's
        }
        for name, node in self.nodes.items():
            tables |= node.tables(node.operator.take(keys))
            names = node.program.context.group_by[: len(keys)]
            for type_, inbox in node.inboxes.items():
                waiting = inbox.take_groups(names, keys)
                for port, arrived in at_ports.items():
                    if port.type == type_ and name in self._readers[port]:
                        waiting.waiting += arrived.waiting
                if waiting.waiting:
                    tables[f"inbox/{name}/{type_}"] = waiting.table()
        return tables | {_LOWS: self._lows(self.nodes)}

    def _first_keys(self, port: Port, keys: Sequence[pa.Array]) -> tuple[str, ...]:
        """The names of the first group keys, by an operator that reads the port."""
        reader = self._readers[port][0]
        return self.nodes[reader].program.context.group_by[: len(keys)]

    def take(self, name: str) -> dict[str, pa.Table]:
        """Remove an operator; its state, with the events that wait for it, as tables for `put`."""
        lows, node = self._lows([name]), self.nodes.pop(name)
        for port, inbox in self._pending.items():
            if name in self._readers[port]:
                node.inboxes[port.type].waiting += inbox.waiting
                self._readers[port] = tuple(reader for reader in self._readers[port] if reader != name)
        self._order_nodes()
        return node.snapshot() | {_LOWS: lows}

    def put(self, tables: Mapping[str, pa.Table], program: RuleProgram | None = None) -> None:
        """Add state that was taken out of this flow or of another one: of groups, or of an operator.

        `program` is that of an operator which is not here yet. It reads what operators here make, and of other types
        what comes in at the port of each.
        """
        if program is not None:
            self._add_operator(program)
        lows = numbers(tables[_LOWS].column("time"), np.int64, "watermarks")
        require_times(lows, "watermarks")
        for name, low in zip(tables[_LOWS].column("name").to_pylist(), lows.tolist(), strict=True):
            node = self.nodes[name]
            node.put(tables)
            # Of a flow that has no state yet, time has not passed; else what is put in may hold the operator back.
            node.low_watermark = low if node.low_watermark == BEGINNING else min(node.low_watermark, low)

    def restore(self, tables: Mapping[str, pa.Table], changed: Collection[str] = (), passed: int = BEGINNING) -> None:
        """Go on from a snapshot, at which time had passed up to `passed`. Operators whose program is not that of the
        snapshot start afresh if they are named in `changed`, and are refused otherwise; operators that are new begin
        with the next event, or, where the query was told its start, no earlier than now."""
        fitting = self._fitting(tables, changed)
        for name in self.nodes.keys() - fitting:
            self._begin_no_earlier(name, passed)
        of_fitting = pc.is_in(tables[_LOWS].column("name"), pa.array(sorted(fitting), pa.string()))
        self.put({**tables, _LOWS: tables[_LOWS].filter(of_fitting)})
        for key, table in tables.items():
            if key.startswith("port/"):
                self._restore_port(table, fitting)

    def _begin_no_earlier(self, name: str, passed: int) -> None:
        program = self.nodes[name].program
        start_us = program.context.start_us
        if start_us is not None and start_us < passed:
            context = replace(program.context, start_us=passed)
            self.nodes[name] = self._started(replace(program, context=context))
            self._order_nodes()

    def _add_operator(self, program: RuleProgram) -> None:
        name = program.context.operator.name
        self.nodes[name] = self._started(program)
        for type_ in program.context.inputs:
            if type_ not in self.nodes:
                port = self.port(type_)
                self._readers[port] = (*self._readers[port], name)
        self._order_nodes()

    def port(self, event_type: str) -> Port:
        """Where events of a type come in; where none have come so far, a new port."""
        for port in self._pending:
            if port.type == event_type:
                return port
        port = Port(event_type, (), None)
        self._pending[port], self._readers[port] = Inbox(), ()
        return port

    def _lows(self, names: Iterable[str]) -> pa.Table:
        times = pa.array([self.nodes[name].low_watermark for name in names], pa.int64())
        return pa.table({"name": pa.array(list(names), pa.string()), "time": times})

    def _fitting(self, tables: Mapping[str, pa.Table], changed: Collection[str]) -> set[str]:
        """The operators that go on with their state."""
        fitting = set()
        for name in operators_in(tables) & {*self.nodes}:
            digests = self.nodes[name].program.digests()
            parts = {part: tables.get(f"operator/{name}/{part}") for part in digests}
            if all(parts[part] is not None and digest_of(parts[part]) == digest for part, digest in digests.items()):
                fitting.add(name)
            elif name not in changed:
                raise StateError(
                    f"the snapshot's state of {name} is of another program",
                    remedy=f"Restore with changed=['{name}'] to start it afresh, or use the query of the snapshot.",
                )
        return fitting

    def _restore_port(self, table: pa.Table, fitting: set[str]) -> None:
        """What waited goes to those it waited for, and to no operator that is new."""
        type_, *readers = json.loads(table.schema.metadata[_PORT])
        for port, inbox in self._pending.items():
            if port.type == type_ and self._readers[port] == tuple(readers) and fitting >= {*readers}:
                types = {} if not readers else self.nodes[readers[0]].types(type_)  # none: what moves alone reads it
                inbox.put(table, types, {t for name in readers for t in self.nodes[name].tests(type_)})
                return
        for name in readers:
            if name in fitting:
                node = self.nodes[name]
                node.inboxes[type_].put(table, node.types(type_), node.tests(type_))
