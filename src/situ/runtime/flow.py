"""Operators that read each other, and the events that wait between them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa

from situ.core.errors import StateError
from situ.graph.query import Stream
from situ.kernel.batch import Batch, concat, without_duplicates
from situ.kernel.matcher import WORTH_A_THREAD
from situ.kernel.operator import SLICE, Conditions, Context, Produced, RunningOperator
from situ.kernel.snapshot import digest_of
from situ.runtime.clock import BEGINNING
from situ.runtime.compile import compile_operator
from situ.runtime.inbox import Inbox

_PORT = b"situ.port"


@dataclass(frozen=True, slots=True)
class Port:
    """Where events of a type come in from outside, for some operators; `stream`, if they are a stream's."""

    type: str
    readers: tuple[str, ...]
    stream: Stream | None


@dataclass(slots=True)
class _Node:
    """An operator, with what it has not read yet."""

    context: Context
    operator: RunningOperator
    inboxes: dict[str, Inbox]
    low_watermark: int = BEGINNING


def operators_in(tables: Mapping[str, pa.Table]) -> set[str]:
    """The operators that a snapshot of a flow has the state of."""
    return {*tables["low watermarks"].column("name").to_pylist()}


@dataclass
class Flow:
    """Runs operators, inputs first. `threads` are shared by operators that do not read each other."""

    contexts: Mapping[str, Context]
    ports: Sequence[Port]
    threads: int = 1
    duplicates: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        of_one = self.threads // max(len(self.contexts), 1)  # operators run side by side first
        threads = 1 << max(of_one.bit_length() - 1, 0)
        self.nodes = {
            name: _Node(context, compile_operator(context, threads), {type_: Inbox() for type_ in context.inputs})
            for name, context in self.contexts.items()
        }
        depths = sorted({node.context.operator.depth for node in self.nodes.values()})
        self._levels = [[n for n in self.nodes.values() if n.context.operator.depth == depth] for depth in depths]
        self._pending = {port: Inbox() for port in self.ports}

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
            for reader in port.readers:
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
        if port.stream is None or port.stream.unique is None or not port.readers:
            return batch
        ties = self.nodes[port.readers[0]].context.inputs[port.type].tie_attributes
        apart = (SLICE,) if SLICE in batch.columns else ()  # slices have copies of their own
        distinct, dropped = without_duplicates(batch, port.stream.unique, ties, apart)
        self.duplicates += dropped
        return distinct

    def _process(self, level: list[_Node], passed: int, lows: Mapping[str, int], events: int) -> dict[str, Produced]:
        """Operators that do not read each other, side by side where there is enough to do."""

        def low(name: str) -> int:
            return self.nodes[name].low_watermark if name in self.nodes else lows.get(name, passed)

        def step(node: _Node) -> Produced:
            limit = min([passed, *map(low, node.inboxes)])
            inputs = {t: batch for t, inbox in node.inboxes.items() if (batch := inbox.before(limit)) is not None}
            return node.operator.process(inputs, limit)

        if len(level) > 1 and self.threads > 1 and events >= WORTH_A_THREAD:
            with ThreadPoolExecutor(self.threads) as pool:
                results = list(pool.map(step, level))
        else:
            results = [step(node) for node in level]
        for node, result in zip(level, results, strict=True):
            node.low_watermark = result.low_watermark
        return {node.context.operator.name: result for node, result in zip(level, results, strict=True)}

    # --- snapshots

    def snapshot(self) -> dict[str, pa.Table]:
        """The state as tables."""
        tables: dict[str, pa.Table] = {}
        for name, node in self.nodes.items():
            tables |= {f"operator/{name}/{part}": table for part, table in node.operator.snapshot().items()}
            tables |= {f"inbox/{name}/{t}": inbox.table() for t, inbox in node.inboxes.items() if inbox.waiting}
        for number, (port, inbox) in enumerate(self._pending.items()):
            if inbox.waiting:
                about = {_PORT: json.dumps([port.type, *port.readers]).encode()}
                tables[f"port/{number}"] = inbox.table().replace_schema_metadata(about)
        lows = pa.array([node.low_watermark for node in self.nodes.values()], pa.int64())
        tables["low watermarks"] = pa.table({"name": pa.array(list(self.nodes), pa.string()), "time": lows})
        return tables

    def restore(self, tables: Mapping[str, pa.Table], changed: Collection[str] = ()) -> None:
        """Go on from a snapshot. Operators whose program is not that of the snapshot start afresh if they are named
        in `changed`, and are refused otherwise; operators that are new begin with the next event."""
        known = self._known(tables, changed)
        for name in known:
            node = self.nodes[name]
            node.operator.restore({part: tables[f"operator/{name}/{part}"] for part in node.operator.digests()})
            for type_, inbox in node.inboxes.items():
                if f"inbox/{name}/{type_}" in tables:
                    inbox.restore(tables[f"inbox/{name}/{type_}"], self._tests(name, type_))
        for key, table in tables.items():
            if key.startswith("port/"):
                self._restore_port(table, known)
        for row in tables["low watermarks"].to_pylist():
            if row["name"] in known:
                self.nodes[row["name"]].low_watermark = row["time"]

    def _known(self, tables: Mapping[str, pa.Table], changed: Collection[str]) -> set[str]:
        """The operators that go on."""
        known = set()
        for name in operators_in(tables) & {*self.nodes}:
            digests = self.nodes[name].operator.digests()
            parts = {part: tables.get(f"operator/{name}/{part}") for part in digests}
            if all(parts[part] is not None and digest_of(parts[part]) == digest for part, digest in digests.items()):
                known.add(name)
            elif name not in changed:
                raise StateError(
                    f"the snapshot's state of {name} is of another program",
                    remedy=f"Restore with changed=['{name}'] to start it afresh, or use the query of the snapshot.",
                )
        return known

    def _restore_port(self, table: pa.Table, known: set[str]) -> None:
        """What waited goes to those it waited for, and to no operator that is new."""
        type_, *readers = json.loads(table.schema.metadata[_PORT])
        for port, inbox in self._pending.items():
            if port.type == type_ and port.readers == tuple(readers) and known >= {*readers}:
                inbox.restore(table, {t for name in readers for t in self._tests(name, type_)})
                return
        for name in readers:
            if name in known:
                inbox = Inbox()
                inbox.restore(table, self._tests(name, type_))
                for batch in inbox.waiting:
                    self.nodes[name].inboxes[type_].add(batch)

    def _tests(self, name: str, type_: str) -> set[Conditions]:
        return {*self.nodes[name].operator.tests().get(type_, ())}
