"""What a flow runs: a rule by itself, or rules of one shape as one, each with the events that it has not read yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from situ.core.functions import Functions
from situ.core.time import BEGINNING
from situ.core.types import to_arrow
from situ.filter.filterer import Filterer, Hits
from situ.flow.family import RuleFamily
from situ.flow.inbox import Inbox, distinct
from situ.graph.query import Stream
from situ.kernel.batch import Batch, concat
from situ.kernel.compile import RuleProgram
from situ.kernel.operator import Conditions, Context, Produced, RunningOperator, no_events
from situ.kernel.program.shape import Shaped
from situ.kernel.state.snapshot import with_digest

#: From so many contents of a type on, the index tells rules by themselves which events concern them.
MANY_CONTENTS = 16


@dataclass(slots=True)
class NodeStep:
    """What a node is to do: read `inputs`, all of them before `limit`. `hits` are those of each input; a type that is
    missing there has not been looked up in the index."""

    limit: int
    inputs: dict[str, Batch]
    hits: dict[str, Hits]


def state_tables(name: str, program: RuleProgram, state: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables of a rule's state under its name, each with the digest that it fits."""
    digests = program.digests()
    return {f"operator/{name}/{part}": with_digest(table, digests[part]) for part, table in state.items()}


def attribute_types(context: Context, event_type: str) -> dict[str, pa.DataType]:
    """The attributes of a type that a rule reads."""
    return {name: to_arrow(type_) for name, type_ in context.schemas[event_type].attributes}


@dataclass(slots=True)
class RuleNode:
    """A rule by itself."""

    program: RuleProgram
    operator: RunningOperator
    inboxes: dict[str, Inbox]
    low_watermark: int = BEGINNING
    contents: dict[str, list[int]] = field(default_factory=dict)
    _nothing: Batch | None = None

    @property
    def name(self) -> str:
        return self.program.context.operator.name

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def depth(self) -> int:
        return self.program.context.operator.depth

    def context(self, name: str) -> Context:
        return self.program.context

    def tests(self, name: str, event_type: str) -> set[Conditions]:
        return {*self.program.tests().get(event_type, ())}

    @property
    def reads_all(self) -> bool:
        """Whether events concern it that no test of its accepts."""
        return self.program.counts_positions or self.program.begins_in_silence

    def index(self, filterers: Mapping[str, Filterer]) -> None:
        """Let the index know what it asks."""
        for type_, tests in self.program.tests().items():
            self.contents[type_] = filterers[type_].add(tests)

    def leave(self, filterers: Mapping[str, Filterer]) -> None:
        for type_, contents in self.contents.items():
            filterers[type_].remove(contents)

    def contents_of(self, event_type: str) -> Iterable[int]:
        """The numbers of what it asks of single events."""
        return self.contents[event_type]

    @property
    def functions(self) -> Functions:
        return self.program.context.functions

    def wants_hits(self, filterer: Filterer) -> bool:
        return len(filterer) >= MANY_CONTENTS

    def is_idle(self, step: NodeStep) -> bool:
        """Whether nothing comes of a step; then it is done."""
        if not self.reads_all:
            step.inputs = {t: batch for t, batch in step.inputs.items() if self._concerns(t, batch, step.hits.get(t))}
        return not step.inputs and self.operator.idle(step.limit)

    def _concerns(self, event_type: str, batch: Batch, hits: Hits | None) -> bool:
        """Whether some of the events are for it. What the index says of its tests is written down."""
        if hits is None:
            return True
        rows = [hits.rows_of(content) for content in self.contents[event_type]]
        if not any(map(len, rows)):
            return False
        for conditions, accepted in zip(self.program.tests()[event_type], rows, strict=True):
            batch.accepted[conditions] = accepted
        return True

    def nothing(self, limit: int) -> dict[str, Produced]:
        """What an idle step gives."""
        self.low_watermark = limit
        if self._nothing is None:
            self._nothing = no_events(self.program.context)
        return {self.name: Produced(self._nothing, self._nothing, limit)}

    def process(self, step: NodeStep) -> dict[str, Produced]:
        produced = self.operator.process(step.inputs, step.limit)
        self.low_watermark = produced.low_watermark
        return {self.name: produced}

    def snapshot(self, programs: Mapping[str, RuleProgram]) -> dict[str, pa.Table]:
        """Its state, and what it has not read yet."""
        tables = state_tables(self.name, self.program, self.operator.snapshot())
        return tables | {f"inbox/{self.name}/{t}": inbox.table() for t, inbox in self.inboxes.items() if inbox.waiting}

    def put(self, names: Sequence[str], tables: Mapping[str, pa.Table]) -> None:
        """The state of its rule, and what this has not read yet."""
        for name in names:
            self.operator.put({part: tables[f"operator/{name}/{part}"] for part in self.program.digests()})
        put_all_waiting(self, names, tables)

    def put_waiting(self, name: str, event_type: str, waiting: pa.Table) -> None:
        """Events that the rule has not read yet."""
        types = attribute_types(self.program.context, event_type)
        self.inboxes[event_type].put(waiting, types, self.tests(name, event_type))


@dataclass(slots=True)
class FamilyNode:
    """Rules of one shape as one. `own` has the events that one rule alone has not read yet: those that waited for it
    when a state was taken over."""

    family: RuleFamily
    inboxes: dict[str, Inbox]
    contexts: Mapping[str, Context]
    unique: Mapping[str, Stream]
    low_watermark: int = BEGINNING
    own: dict[str, dict[str, Inbox]] = field(default_factory=dict)

    @property
    def operator(self) -> RunningOperator:
        return self.family.operator

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.family.rules)

    @property
    def depth(self) -> int:
        return self.family.program.context.operator.depth

    def context(self, name: str) -> Context:
        return self.contexts[name]

    def tests(self, name: str, event_type: str) -> set[Conditions]:
        return {*self.family.contents_of(name).get(event_type, ())}

    def add(self, name: str, rule: Shaped, filterers: Mapping[str, Filterer]) -> None:
        numbers = {}
        for type_, contents in self.family.contents(rule).items():
            asked = iter(filterers[type_].add(conditions for conditions in contents if conditions))
            numbers[type_] = [next(asked) if conditions else -1 for conditions in contents]
        self.family.add(name, rule, numbers)

    def waiting(self, name: str) -> dict[str, Inbox]:
        """The events that a rule has not read yet."""
        waiting = inboxes_for(self.inboxes)
        for type_, inbox in waiting.items():
            own = self.own.get(name, {}).get(type_)
            inbox.waiting = [*(own.waiting if own else ()), *self.inboxes[type_].waiting]
        return waiting

    def remove(self, name: str, filterers: Mapping[str, Filterer]) -> dict[str, pa.Table]:
        """Remove a rule; its state."""
        for type_, contents in self.family.numbers_of_contents(name).items():
            filterers[type_].remove(number for number in contents if number >= 0)
        self.own.pop(name, None)
        return self.family.remove(name)

    def contents_of(self, event_type: str) -> Iterable[int]:
        return self.family.contents_asked(event_type)

    @property
    def functions(self) -> Functions:
        return self.family.program.context.functions

    def wants_hits(self, filterer: Filterer) -> bool:
        return True

    def is_idle(self, step: NodeStep) -> bool:
        if self.own:
            return False
        step.inputs = {t: b for t, b in step.inputs.items() if self.family.reads(t, b, step.hits[t])}
        return not step.inputs and self.operator.idle(step.limit)

    def nothing(self, limit: int) -> dict[str, Produced]:
        self.low_watermark = limit
        return {}

    def process(self, step: NodeStep) -> dict[str, Produced]:
        waiting = {
            name: {t: batch for t, inbox in inboxes.items() if (batch := inbox.before(step.limit)) is not None}
            for name, inboxes in self.own.items()
        }
        for of_types in waiting.values():
            for type_ in of_types.keys() & self.unique.keys():
                # Copies may have come since: the rule reads what waited and what is new as one, and nothing else.
                ready = [step.inputs[type_]] if type_ in step.inputs else []
                of_types[type_] = distinct(concat([of_types[type_], *ready]), self.unique[type_])[0]
        self.own = {n: inboxes for n, inboxes in self.own.items() if any(inbox.waiting for inbox in inboxes.values())}
        apart = {type_: [name for name, of_types in waiting.items() if type_ in of_types] for type_ in self.unique}
        produced, self.low_watermark = self.family.process(step.inputs, step.hits, waiting, apart, step.limit)
        return produced

    def snapshot(self, programs: Mapping[str, RuleProgram]) -> dict[str, pa.Table]:
        """The state of each rule, and what it has not read yet."""
        tables: dict[str, pa.Table] = {}
        for name, state in self.family.snapshot().items():
            tables |= state_tables(name, programs[name], state)
            tables |= {f"inbox/{name}/{t}": inbox.table() for t, inbox in self.waiting(name).items() if inbox.waiting}
        return tables

    def put(self, names: Sequence[str], tables: Mapping[str, pa.Table]) -> None:
        """The states of some of its rules, and what these have not read yet."""
        self.family.put({name: partial(_state_table, tables, name) for name in names})
        put_all_waiting(self, names, tables)

    def put_waiting(self, name: str, event_type: str, waiting: pa.Table) -> None:
        inbox = self.own.setdefault(name, {}).setdefault(event_type, Inbox())
        inbox.put(waiting, attribute_types(self.contexts[name], event_type), self.tests(name, event_type))


Node = RuleNode | FamilyNode


def _state_table(tables: Mapping[str, pa.Table], name: str, part: str) -> pa.Table:
    return tables[f"operator/{name}/{part}"]


def put_all_waiting(node: Node, names: Sequence[str], tables: Mapping[str, pa.Table]) -> None:
    """The events that rules have not read yet, as a snapshot has them."""
    for name in names:
        for type_ in node.inboxes:
            if (waiting := tables.get(f"inbox/{name}/{type_}")) is not None:
                node.put_waiting(name, type_, waiting)


def inboxes_for(event_types: Iterable[str]) -> dict[str, Inbox]:
    return {type_: Inbox() for type_ in event_types}
