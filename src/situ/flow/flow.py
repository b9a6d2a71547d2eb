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
from situ.filter.filterer import Filterer, Hits
from situ.flow.describe_rules import describe_rules
from situ.flow.families import FamilyKey, families_of, family_key, may_join
from situ.flow.family import RuleFamily
from situ.flow.inbox import Inbox, distinct
from situ.flow.nodes import FamilyNode, Node, NodeStep, RuleNode, attribute_types, inboxes_for, state_tables
from situ.flow.port import Port
from situ.graph.operators import Operator
from situ.kernel.batch import Batch, Calls, concat
from situ.kernel.compile import Programs, RuleProgram, start_operator
from situ.kernel.matching.matcher import WORTH_A_THREAD
from situ.kernel.operator import Chosen, Conditions, Context, Produced
from situ.kernel.program.shape import Shaped
from situ.kernel.state.checks import numbers, require_times
from situ.kernel.state.snapshot import digest_of

_PORT = b"situ.port"
_LOWS = "low watermarks"
#: How much memory is in use is asked after so many events. Operators that are about to take much ask by themselves.
_ASK_AFTER = 1 << 14


def operators_in(tables: Mapping[str, pa.Table]) -> set[str]:
    """The operators that a snapshot of a flow has the state of."""
    return {*tables[_LOWS].column("name").to_pylist()}


def as_one(taken: Iterable[Mapping[str, pa.Table]], passed: int) -> dict[str, pa.Table]:
    """The states of operators that were taken one by one, as one that a flow can be restored from, at which time had
    passed up to `passed` at most."""
    tables: dict[str, pa.Table] = {}
    lows = []
    for state in taken:
        tables |= state
        lows.append(state[_LOWS])
    joined = pa.concat_tables(lows)
    times = pc.min_element_wise(joined.column("time"), pa.scalar(passed, pa.int64()))
    return tables | {_LOWS: joined.set_column(1, "time", times)}


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
        self._pending = {port: Inbox() for port in self.ports}
        self._readers = {port: dict.fromkeys(port.readers) for port in self.ports}
        self._filterers: dict[str, Filterer] = {}
        self._families: dict[FamilyKey, list[FamilyNode]] = {}
        self.nodes: dict[str, Node] = {}
        self._levels: dict[int, dict[int, Node]] = {}
        self._unasked = _ASK_AFTER
        joint = self._joint_rules()
        for name in self.programs:
            if name in joint:
                self._join(name, *joint[name])
            else:
                self._start(self.programs[name])
        for filterer in self._filterers.values():
            filterer.take_in_new()

    def _joint_rules(self) -> dict[str, tuple[FamilyKey, Shaped, int]]:
        if not isinstance(self.programs, Programs) or self.chosen:
            return {}
        return families_of(self.programs, self._ports_of, self.threads)

    def _start(self, program: RuleProgram) -> None:
        """Run a rule by itself."""
        of_one = self.threads // max(len(self.programs), 1)  # operators run side by side first
        threads = 1 << max(of_one.bit_length() - 1, 0)
        chosen = self.chosen.get(program.context.operator.name)
        operator = start_operator(program, self.failed_calls, self.memory, threads, chosen)
        node = RuleNode(program, operator, inboxes_for(program.context.inputs))
        if isinstance(self.programs, Programs):
            self._make_filterers(program.context)
            node.index(self._filterers)
        self._place(node.name, node)

    def _join(self, name: str, key: FamilyKey, rule: Shaped, families: int = 1) -> None:
        """Run a rule together with those of its shape, of which there are so many families side by side."""
        assert isinstance(self.programs, Programs)
        context = self.programs.contexts[name]
        self._make_filterers(context)
        of_shape = self._families.setdefault(key, [])
        # What waits for a family has come before the rule.
        joinable = [node for node in of_shape if not any(inbox.waiting for inbox in node.inboxes.values())]
        if len(joinable) < families:
            program = self.programs.template(name)
            operator = start_operator(program, self.failed_calls, self.memory)
            family = RuleFamily(program, operator, Calls(functions=context.functions, errors=self.failed_calls))
            ports = [list(self._readers)[number] for number in key[1]]
            streams = {port.type: port.stream for port in ports if port.stream is not None and port.stream.unique}
            of_shape.append(FamilyNode(family, inboxes_for(context.inputs), self.programs.contexts, streams))
            joinable.append(of_shape[-1])
        node = min(joinable, key=lambda node: len(node.family.rules))
        node.add(name, rule, self._filterers)
        self._place(name, node)

    def _make_filterers(self, context: Context) -> None:
        for type_ in context.inputs:
            if type_ not in self._filterers:
                self._filterers[type_] = Filterer(dict(context.schemas[type_].attributes))

    def _place(self, name: str, node: Node) -> None:
        self.nodes[name] = node
        self._levels.setdefault(node.depth, {})[id(node)] = node

    def _ports_of(self, context: Context) -> tuple[int, ...]:
        """The numbers of the ports at which an operator reads; of other types, operators here make its events."""
        name, inputs = context.operator.name, context.inputs
        return tuple(n for n, (p, readers) in enumerate(self._readers.items()) if p.type in inputs and name in readers)

    def operator(self, name: str) -> Operator:
        """What the operator graph says of an operator of this name."""
        return self.nodes[name].context(name).operator

    def low_watermark(self, names: Collection[str], passed: int) -> int:
        """No complex event of these operators before this time will follow."""
        return min((node.low_watermark for node in {id(n): n for n in map(self.nodes.get, names)}.values() if node),
                   default=passed)  # fmt: skip

    def describe_rules(self) -> str:
        """Which rules run as one, and how the index finds what rules ask for; empty if each runs by itself."""
        return describe_rules(self._families.values(), self._distinct_nodes(), self._filterers)

    def one_of_each_shape(self) -> list[str]:
        """A rule of each program that runs: first of those that are many rules."""
        joint = [of_shape[0].names[0] for of_shape in self._families.values()]
        return joint + [node.name for node in self._distinct_nodes() if isinstance(node, RuleNode)]

    def columns_read(self, event_type: str) -> frozenset[str]:
        """The columns of a type that some operator always reads."""
        read: frozenset[str] = frozenset()
        for node in self._distinct_nodes():
            name = node.names[0]
            if event_type in node.inboxes:
                read |= self.programs[name].columns_read().get(event_type, frozenset())
        return read | self._filtered_by(event_type)

    def _filtered_by(self, event_type: str) -> frozenset[str]:
        """The columns of a type that conditions on single events read."""
        filterer = self._filterers.get(event_type)
        return frozenset() if filterer is None else filterer.attributes_read()

    def add(self, port: Port, batch: Batch) -> None:
        """Events that have come; they wait until time has passed them."""
        self._pending[port].add(batch)

    def advance(self, passed: int, lows: Mapping[str, int] | None = None) -> dict[str, Produced]:
        """Time has passed up to `passed`: let every operator read what came before it.

        `lows`: complex events from outside have come up to these times only, by their type; also of types that are made
        here, if they are made elsewhere, too.
        """
        lows = lows or {}
        events = 0
        for port, inbox in self._pending.items():
            limit = min(passed, lows.get(port.type, passed))
            ready = inbox.before(limit)
            if ready is not None:
                ready = self._distinct(port, ready)
                events += len(ready)
            for node in {id(node): node for node in map(self.nodes.__getitem__, self._readers[port])}.values():
                self._hand_to(node.inboxes[port.type], port, ready, limit)
        produced: dict[str, Produced] = {}
        for depth in sorted(self._levels):
            made = self._process(list(self._levels[depth].values()), passed, lows, events)
            for reading in (self._levels[below] for below in self._levels if below > depth):
                for node in reading.values():
                    for type_, inbox in node.inboxes.items():
                        if type_ in made:
                            inbox.add(made[type_].events)
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

    def _process(self, level: list[Node], passed: int, lows: Mapping[str, int], events: int) -> dict[str, Produced]:
        """Operators that do not read each other, side by side where there is enough to do. Those that no event
        concerns, and for which time alone decides nothing, are passed over."""

        def low(name: str) -> int:
            from_outside = lows.get(name, passed)
            return min(self.nodes[name].low_watermark, from_outside) if name in self.nodes else from_outside

        produced: dict[str, Produced] = {}
        hits: dict[int, Hits] = {}
        steps: list[tuple[Node, NodeStep]] = []
        for node in level:
            limit = min([passed, *map(low, node.inboxes)])
            inputs = {t: batch for t, inbox in node.inboxes.items() if (batch := inbox.before(limit)) is not None}
            step = NodeStep(
                limit, inputs, {t: found for t in inputs if (found := self._hits(node, t, inputs[t], hits))}
            )
            if node.is_idle(step):
                produced |= node.nothing(limit)
            else:
                steps.append((node, step))

        if len(steps) > 1 and self.threads > 1 and events >= WORTH_A_THREAD:
            with ThreadPoolExecutor(self.threads) as pool:
                results = list(pool.map(self._run, *zip(*steps, strict=True)))
        else:
            results = [self._run(node, step) for node, step in steps]
        for made in results:
            produced |= made
        return produced

    def _run(self, node: Node, step: NodeStep) -> dict[str, Produced]:
        self._unasked += sum(map(len, step.inputs.values()))
        if self._unasked >= _ASK_AFTER:
            self._unasked = 0
            cause = f"with the state of {len(self.nodes):,} rules"
            self.memory.require(0, node.names[0], cause, "Run fewer rules or keys at once.")
        return node.process(step)

    def _hits(self, node: Node, event_type: str, batch: Batch, known: dict[int, Hits]) -> Hits | None:
        """What the index says of a batch, for a node that wants to know; asked once for each batch. What Spark has
        judged already is not judged again."""
        filterer = self._filterers.get(event_type)
        if filterer is None or not node.wants_hits(filterer):
            return None
        calls = Calls(functions=node.functions, errors=self.failed_calls)
        if batch.masks:
            return filterer.hits_one_by_one(node.contents_of(event_type), batch, calls)
        if id(batch) not in known:
            known[id(batch)] = filterer.hits(batch, calls)
        return known[id(batch)]

    # --- state

    def snapshot(self) -> dict[str, pa.Table]:
        """The state as tables."""
        tables: dict[str, pa.Table] = {}
        for node in self._distinct_nodes():
            tables |= node.snapshot(self.programs)
        for number, (port, inbox) in enumerate(self._pending.items()):
            if inbox.waiting:
                about = {_PORT: json.dumps([port.type, *self._readers[port]]).encode()}
                tables[f"port/{number}"] = inbox.table().replace_schema_metadata(about)
        return tables | {_LOWS: self._lows(self.nodes)}

    def _distinct_nodes(self) -> list[Node]:
        return [node for level in self._levels.values() for node in level.values()]

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
            assert isinstance(node, RuleNode), "groups move in flows in which every rule runs by itself"
            tables |= state_tables(name, node.program, node.operator.take(keys))
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
        reader = next(iter(self._readers[port]))
        return self.nodes[reader].context(reader).group_by[: len(keys)]

    def take(self, name: str) -> dict[str, pa.Table]:
        """Remove an operator; its state, with the events that wait for it, as tables for `put`."""
        lows = self._lows([name])
        tables, waiting = self._removed(name)
        for port, inbox in self._pending.items():
            if name in self._readers[port]:
                waiting[port.type].waiting += inbox.waiting
                del self._readers[port][name]
        tables |= {f"inbox/{name}/{t}": inbox.table() for t, inbox in waiting.items() if inbox.waiting}
        return tables | {_LOWS: lows}

    def copied(self, names: Collection[str]) -> dict[str, dict[str, pa.Table]]:
        """By operator, what `take` would give; they stay."""
        of_families: dict[int, Mapping[str, Mapping[str, pa.Table]]] = {}
        copies: dict[str, dict[str, pa.Table]] = {}
        for name in names:
            node = self.nodes[name]
            match node:
                case RuleNode():
                    state, waiting = node.operator.snapshot(), node.inboxes
                case FamilyNode():
                    if id(node) not in of_families:  # of all its rules at once
                        of_families[id(node)] = node.family.snapshot()
                    state, waiting = of_families[id(node)][name], node.waiting(name)
            tables = state_tables(name, self._program(name), state)
            for type_, inbox in waiting.items():
                ports = [port for port in self._pending if port.type == type_ and name in self._readers[port]]
                all_waiting = Inbox()
                all_waiting.waiting = [*inbox.waiting, *(b for port in ports for b in self._pending[port].waiting)]
                if all_waiting.waiting:
                    tables[f"inbox/{name}/{type_}"] = all_waiting.table()
            copies[name] = tables | {_LOWS: self._lows([name])}
        return copies

    def _removed(self, name: str) -> tuple[dict[str, pa.Table], dict[str, Inbox]]:
        """Remove an operator: its state, and the events that wait for it."""
        node = self.nodes.pop(name)
        match node:
            case RuleNode():
                state, waiting = node.operator.snapshot(), node.inboxes
                node.leave(self._filterers)
                program = node.program
            case FamilyNode():
                waiting, program = node.waiting(name), self.programs[name]
                state = node.take(name, self._filterers)
        self._end_if_over(node)
        return state_tables(name, program, state), waiting

    def _end_if_over(self, node: Node) -> None:
        """A node of no rule runs no longer."""
        if isinstance(node, FamilyNode) and node.family.rules:
            return
        del self._levels[node.depth][id(node)]
        self._families = {k: kept for k, of in self._families.items() if (kept := [f for f in of if f is not node])}

    def put(self, tables: Mapping[str, pa.Table], program: RuleProgram | None = None) -> None:
        """Add state that was taken out of this flow or of another one: of groups, or of an operator.

        `program` is that of an operator which is not here yet. It reads what operators here make, and of other types
        what comes in at the port of each.
        """
        if program is not None:
            self._add_operator(program)
        lows = numbers(tables[_LOWS].column("time"), np.int64, "watermarks")
        require_times(lows, "watermarks")
        low_of = dict(zip(tables[_LOWS].column("name").to_pylist(), lows.tolist(), strict=True))
        names_of: dict[int, list[str]] = {}
        for name in low_of:
            names_of.setdefault(id(self.nodes[name]), []).append(name)
        for names in names_of.values():
            self.nodes[names[0]].put(names, tables)
        for name, low in low_of.items():
            node = self.nodes[name]
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
        """Let a silence that comes first in a new operator begin when time has passed so far. Such an operator runs by
        itself."""
        node = self.nodes[name]
        if isinstance(node, RuleNode):
            program, start_us = node.program, node.program.context.start_us
            if start_us is not None and start_us < passed:
                self._removed(name)
                self._start(replace(program, context=replace(program.context, start_us=passed)))

    def _add_operator(self, program: RuleProgram) -> None:
        """A rule that brings its state along runs by itself: the others may have come further."""
        self._read_at_ports(program.context)
        self._start(program)

    def _read_at_ports(self, context: Context) -> None:
        name = context.operator.name
        for type_ in context.inputs:
            if type_ not in self.nodes:
                self._readers[self.port(type_)][name] = None

    def add_rule(self, context: Context) -> None:
        """One more rule, which reads what comes from now on. It joins those of its shape, if there are any."""
        assert isinstance(self.programs, Programs), "rules of a flow that takes more of them"
        name = context.operator.name
        self.programs.add(context)
        self._read_at_ports(context)
        rule = self.programs.shaped(name)
        if rule is not None and may_join(self.programs, name):
            self._join(name, family_key(context, rule, self._ports_of(context)), rule)
        else:
            self._start(self.programs[name])

    def remove_rule(self, name: str) -> None:
        """A rule is no longer wanted. Nothing that stays reads it."""
        assert isinstance(self.programs, Programs), "rules of a flow that takes more of them"
        for readers in self._readers.values():
            readers.pop(name, None)
        node = self.nodes.pop(name)
        if isinstance(node, FamilyNode):
            node.forget(name, self._filterers)
        else:
            node.leave(self._filterers)
        self._end_if_over(node)
        self.programs.remove(name)

    def port(self, event_type: str) -> Port:
        """Where events of a type come in; where none have come so far, a new port."""
        for port in self._pending:
            if port.type == event_type:
                return port
        port = Port(event_type, (), None)
        self._pending[port], self._readers[port] = Inbox(), {}
        return port

    def _lows(self, names: Iterable[str]) -> pa.Table:
        names = list(names)
        times = pa.array([self.nodes[name].low_watermark for name in names], pa.int64())
        return pa.table({"name": pa.array(names, pa.string()), "time": times})

    def _fitting(self, tables: Mapping[str, pa.Table], changed: Collection[str]) -> set[str]:
        """The operators that go on with their state."""
        fitting = set()
        for name in operators_in(tables) & {*self.nodes}:
            digests = self._program(name).digests()
            parts = {part: tables.get(f"operator/{name}/{part}") for part in digests}
            if all(parts[part] is not None and digest_of(parts[part]) == digest for part, digest in digests.items()):
                fitting.add(name)
            elif name not in changed:
                raise StateError(
                    f"the snapshot's state of {name} is of another program",
                    remedy=f"Restore with changed=['{name}'] to start it afresh, or use the query of the snapshot.",
                )
        return fitting

    def _program(self, name: str) -> RuleProgram:
        node = self.nodes[name]
        return node.program if isinstance(node, RuleNode) else self.programs[name]

    def _restore_port(self, table: pa.Table, fitting: set[str]) -> None:
        """What waited goes to those it waited for, and to no operator that is new."""
        type_, *readers = json.loads(table.schema.metadata[_PORT])
        for port, inbox in self._pending.items():
            if port.type == type_ and [*self._readers[port]] == readers and fitting >= {*readers}:
                types, tests = dict[str, pa.DataType](), set[Conditions]()  # none: what moves alone reads it
                if readers:
                    types = attribute_types(self.nodes[readers[0]].context(readers[0]), type_)
                    tests = {test for name in readers for test in self.nodes[name].tests(name, type_)}
                inbox.put(table, types, tests)
                return
        for name in readers:
            if name in fitting:
                self.nodes[name].put_waiting(name, type_, table)
