"""What all running operators have in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from situ.core.functions import Functions
from situ.core.identity_cache import IdentityCache
from situ.core.types import INT, TIMESTAMP, to_arrow
from situ.graph.expressions import Aggregate, Attribute, Expression, WholeEvent, children
from situ.graph.operators import Operator, OperatorGraph, Schema
from situ.graph.query import Stream
from situ.kernel.arrays import I64
from situ.kernel.batch import EXTENT, ORIGINS, Batch, as_timestamps


@dataclass(frozen=True, slots=True)
class InputType:
    """An event type as an operator reads it. `tie_attributes` decide between events of equal time; with `shared`, the
    first of them decides before the types do, between all types that share it."""

    name: str
    schema: Schema
    rank: int
    tie_attributes: tuple[str, ...]
    located: bool
    shared: bool = False


#: Conditions on a single event (alias `this`) that must hold together; none: every event is accepted.
Conditions: TypeAlias = tuple[Expression, ...]

#: The group key that a slice of time is: its first microsecond.
SLICE = "_slice"
#: The group key that a rule is, where rules of one shape run as one: its number among them.
RULE = "_rule"


@dataclass(frozen=True)
class Context:
    """An operator with all it needs to know of the graph around it.

    `slice_us`: the operator is one of several that each read a slice of time of this length and what follows it. They
    are groups of the key SLICE, and what begins outside of its slice is another one's.

    `own_us`: the operator reads a span of time and what follows it, and only what begins in the span, from the first
    time on and before the second, is its own.

    `ordered`: the order of events with equal times matters, and the attributes that decide it are there.

    `in_order`: complex events come out in order of time. Where nobody keeps their order, they need not be sorted.

    `provenance`: complex events name the atomic events that they are made of. `selections`: what could have been part
    of a complex event is told, too, and numbered. These can be as many as there are pairs of events within a window.

    `start_us`: when silences that come first begin, in a rule without groups.
    """

    operator: Operator
    inputs: Mapping[str, InputType]
    schemas: Mapping[str, Schema]
    functions: Functions
    provenance: bool = False
    selections: bool = False
    slice_us: int | None = None
    ordered: bool = True
    start_us: int | None = None
    own_us: tuple[int, int] | None = None
    in_order: bool = True

    @property
    def located(self) -> bool:
        return any(input_.located for input_ in self.inputs.values())

    @cached_property
    def empty_columns(self) -> dict[str, pa.Array]:
        """The columns of complex events, without any: an operator that finds nothing is what happens most."""
        columns = {name: pa.array([], to_arrow(type_)) for name, type_ in self.operator.schema.attributes}
        if self.located:
            columns |= {name: pa.array([], pa.float64()) for name in EXTENT}
        if self.provenance:
            columns[ORIGINS] = pa.array([], ORIGIN_LIST)
        if self.selections:
            columns["_selection"] = pa.array([], pa.int64())
        return columns

    @property
    def shared_order(self) -> tuple[str, ...]:
        """The input types among which a shared attribute decides ties before the types do; none, or several."""
        sharing = tuple(name for name, input_ in self.inputs.items() if input_.shared)
        return sharing if len(sharing) > 1 else ()

    @property
    def group_by(self) -> tuple[str, ...]:
        return self.operator.rule.group_by + (() if self.slice_us is None else (SLICE,))

    def key_type(self, name: str) -> pa.DataType:
        """The Arrow type of a group key, which all inputs have."""
        some_input = next(iter(self.inputs))
        return to_arrow(INT if name == SLICE else self.schemas[some_input].type_of(name))

    def begins_in_slice(self, begins: I64, slices: pa.Array) -> npt.NDArray[np.bool_]:
        """Whether what begins at a time belongs to the slice in which it was found."""
        assert self.slice_us is not None
        return begins - begins % self.slice_us == slices.to_numpy(zero_copy_only=False)

    def begins_in_span(self, begins: I64) -> npt.NDArray[np.bool_]:
        """Whether what begins at a time is the operator's own."""
        assert self.own_us is not None
        since_us, until_us = self.own_us
        return (begins >= since_us) & (begins < until_us)

    @property
    def carried(self) -> tuple[str, ...]:
        """Columns beside the attributes that events hand on to complex events."""
        return (EXTENT if self.located else ()) + ((ORIGINS,) if self.provenance else ())


#: The selections of an operator that are processed, by group key: the numbers of the chosen ones.
Chosen: TypeAlias = Mapping[tuple[object, ...], Collection[int]]


def contexts_of(
    graph: OperatorGraph, functions: Functions, provenance: bool, selections: bool = True
) -> dict[str, Context]:
    """The context of every operator, in the graph's order. Selections are told with provenance alone."""
    asked = functions, provenance, provenance and selections
    return dict(_CONTEXTS.get(graph, asked, lambda: _contexts_of(graph, *asked)))


#: The contexts of the last graphs: whoever compares two plans asks for those of both again.
_CONTEXTS: IdentityCache[OperatorGraph, tuple[Functions, bool, bool], dict[str, Context]] = IdentityCache(most=4)


def _contexts_of(graph: OperatorGraph, functions: Functions, provenance: bool, selections: bool) -> dict[str, Context]:
    order = {s.name: (0, s.name) for s in graph.streams} | {o.name: (o.depth, o.name) for o in graph.operators}
    ties = {s.name: tie_attributes(s) for s in graph.streams}
    ties |= {o.name: o.schema.names for o in graph.operators}
    located = {s.name: s.location is not None for s in graph.streams}
    shared = {s.name for s in graph.streams if s.shared}
    contexts = {}
    inputs_of: dict[tuple[str, ...], dict[str, InputType]] = {}  # of thousands of rules, most read the same
    for operator in graph.operators:
        if operator.inputs not in inputs_of:
            inputs_of[operator.inputs] = {
                name: InputType(name, graph.schemas[name], rank, ties[name], located[name], name in shared)
                for rank, name in enumerate(sorted(operator.inputs, key=order.__getitem__))
            }
        inputs = inputs_of[operator.inputs]
        located[operator.name] = any(input_.located for input_ in inputs.values())
        contexts[operator.name] = Context(
            operator, inputs, graph.schemas, functions, provenance, selections, start_us=graph.start_us
        )
    return contexts


def tie_attributes(stream: Stream) -> tuple[str, ...]:
    """The attributes that order events of equal time: without the time itself, unless it is finer than times are, or
    shared with other streams, which may count it in another unit."""
    if stream.shared and stream.order is not None:
        return (stream.order,)
    (type_,) = (a.type for a in stream.attributes if a.name == stream.time)
    is_same = type_ is TIMESTAMP or (type_ is INT and stream.time_unit != "ns")
    names = (stream.order,) if stream.order else tuple(a.name for a in stream.attributes)
    return tuple(name for name in names if name != stream.time or not is_same)


def attributes_read(
    expressions: Iterable[tuple[Expression, Mapping[str, str]]], schemas: Mapping[str, Schema]
) -> dict[str, set[str]]:
    """The attributes that expressions read, by event type; each comes with the types of its aliases.

    A whole event, as a user's function takes it, reads all of them; one that `count` counts reads none.
    """
    read: dict[str, set[str]] = defaultdict(set)

    def visit(node: Expression, types: Mapping[str, str]) -> None:
        match node:
            case Attribute(str(alias), name):
                read[types[alias]].add(name)
            case WholeEvent(alias):
                read[types[alias]].update(schemas[types[alias]].names)
            case Aggregate(_, WholeEvent()):
                pass
            case _:
                for child in children(node):
                    visit(child, types)

    for expression, types in expressions:
        visit(expression, types)
    return read


@dataclass(frozen=True, slots=True)
class Produced:
    """What a step of an operator gave. No complex event before `low_watermark` will follow.

    `selections` (on request): those that closed, with their atomic events.
    """

    events: Batch
    timed_out: Batch
    low_watermark: int
    selections: pa.Table | None = None


class RunningOperator(Protocol):
    """An operator with its state."""

    def process(self, inputs: Mapping[str, Batch], before: int) -> Produced:
        """Read events, all of them before `before` and none before the last call's; time has passed up to it."""

    def idle(self, before: int) -> bool:
        """Whether it gives nothing when time passes up to `before` without events for it; then time has passed."""

    def snapshot(self) -> Mapping[str, pa.Table]:
        """Its state as tables."""

    def take(self, keys: Sequence[pa.Array]) -> Mapping[str, pa.Table]:
        """Remove the groups whose first keys are among `keys`, a column for each key; their state, as tables."""

    def put(self, tables: Mapping[str, pa.Table]) -> None:
        """Add a state that fits, of groups that are not there: all of a snapshot, if it has none yet."""


def complex_events(context: Context, times: I64, columns: Mapping[str, pa.Array]) -> Batch:
    """Complex events with the columns of the operator's schema, in order of time."""
    schema = context.operator.schema
    typed = {
        name: column if column.type == to_arrow(type_) else column.cast(to_arrow(type_))
        for (name, type_), column in zip(schema.attributes, (columns[name] for name in schema.names), strict=True)
    }
    typed |= {name: column for name, column in columns.items() if name.startswith("_")}
    return Batch(times, typed)


def no_events(context: Context) -> Batch:
    return Batch(np.zeros(0, np.int64), context.empty_columns.copy())


#: Who an atomic event is: the number of a row among those of its source in a stream; and when it happened.
ORIGIN = pa.struct(
    [("stream", pa.string()), ("source", pa.string()), ("time", pa.timestamp("us", tz="UTC")), ("row", pa.int64())]
)
ORIGIN_LIST = pa.list_(ORIGIN)


def origins_of(stream: str, source: str, times_us: I64, numbers: I64) -> pa.Array:
    """The origins of atomic events: each of them has itself only."""
    names = [pa.repeat(pa.scalar(name), len(times_us)) for name in (stream, source)]
    atoms = pa.StructArray.from_arrays([*names, as_timestamps(times_us), pa.array(numbers)], fields=list(ORIGIN))
    return pa.ListArray.from_arrays(pa.array(np.arange(len(times_us) + 1, dtype=np.int32)), atoms).cast(ORIGIN_LIST)


def joined_extents(columns: Mapping[str, pa.Array], events: I64, offsets: I64) -> dict[str, pa.Array]:
    """The bounding box of the events of each row; rows have at least one event."""
    extents = {}
    for name in EXTENT:
        values = columns[name].to_numpy(zero_copy_only=False)[events]
        reduce = np.fmin if name.endswith("min") else np.fmax
        bounds = reduce.reduceat(values, offsets[:-1]) if len(offsets) > 1 else np.zeros(0)
        extents[name] = pa.array(bounds, pa.float64(), mask=np.isnan(bounds))
    return extents


def joined_origins(origins: pa.Array, events: I64, offsets: I64) -> pa.Array:
    """The atomic events behind the events of each row, each once, by time, stream, source and row."""
    taken = origins.take(pa.array(events))
    of_event = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    owner = np.repeat(of_event, taken.value_lengths().to_numpy(zero_copy_only=False))
    atoms = taken.flatten()
    stream, source = _ranks(atoms.field("stream")), _ranks(atoms.field("source"))
    row = atoms.field("row").to_numpy(zero_copy_only=False)
    time = atoms.field("time").cast(pa.int64()).to_numpy(zero_copy_only=False)
    order = np.lexsort((row, source, stream, time, owner))
    fresh = np.zeros(len(order), np.bool_)
    fresh[:1] = True
    for part in (owner, stream, source, row):
        fresh[1:] |= part[order][1:] != part[order][:-1]
    counts = np.bincount(owner[order][fresh], minlength=len(offsets) - 1)
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(bounds), atoms.take(pa.array(order[fresh]))).cast(ORIGIN_LIST)


def _ranks(names: pa.Array) -> I64:
    """For each name, its place among the distinct names in alphabetical order."""
    encoded = names.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    ranks = np.array([sorted(distinct).index(name) for name in distinct], np.int64)
    return ranks[encoded.indices.to_numpy(zero_copy_only=False)] if distinct else np.zeros(0, np.int64)
