"""Events that an operator holds: candidates of the current batch and those that partial matches still need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.core.hops import hop
from situ.core.types import to_arrow
from situ.kernel.arrays import I64, U8, Silences
from situ.kernel.batch import EXTENT, ORIGINS, Batch, as_timestamps, concat_arrays
from situ.kernel.columns.evaluate import Rows
from situ.kernel.matching.matcher import Matches
from situ.kernel.matching.order import total_order
from situ.kernel.matching.policies import first_events
from situ.kernel.operator import ORIGIN_LIST, RULE, Context
from situ.kernel.state.groups import GroupIndex
from situ.kernel.state.pair_columns import PairColumns
from situ.kernel.state.rule_groups import RuleGroupIndex

#: The rank of what is no event.
SILENT = -1


@dataclass(slots=True)
class Store:
    """Rows of events of several types. Column `T.x` is attribute x of type T, null in rows of other types;
    `group.k` is the group's key; `_...` are columns that all types have."""

    type_rank: np.ndarray  # int8: the rank of the event's type among the inputs; SILENT: a silence that is over
    time: I64
    group: I64
    position: I64
    consumed: U8
    columns: Mapping[str, pa.Array]

    def __len__(self) -> int:
        return len(self.time)

    def values(self, name: str, rows: I64) -> pa.Array:
        """A column at some rows."""
        if isinstance(self.columns, PairColumns):
            return self.columns.at(name, rows)
        return self.columns[name].take(pa.array(rows))

    def take(self, rows: I64) -> Store:
        return Store(
            self.type_rank[rows],
            self.time[rows],
            self.group[rows],
            self.position[rows],
            self.consumed[rows],
            {name: self.values(name, rows) for name in self.columns},
        )


#: From so many on, pairs of rules and events are not gathered.
_MANY_PAIRS = 4096


def pair_columns(
    context: Context, stored: Mapping[str, tuple[str, ...]], type_: str, batch: Batch
) -> PairColumns | None:
    """What `gather` gives, for a single part of many pairs of rules and events, without going through all of them; None
    where that cannot be."""
    if batch.of is None or len(batch) < _MANY_PAIRS or any(stored[name] for name in stored if name != type_):
        return None
    attributes = {f"{type_}.{attribute}": attribute for attribute in stored[type_]}
    return PairColumns(
        attributes | {f"group.{key}": key for key in context.group_by} | {name: name for name in context.carried}, batch
    )


def gather(
    context: Context, stored: Mapping[str, tuple[str, ...]], parts: list[tuple[str, Batch]]
) -> dict[str, pa.Array]:
    """The columns of a store, of all parts in turn: the attributes `stored` by type, group keys, carried columns."""
    group_by = context.group_by
    located = {name: context.inputs[name].located for name, _ in parts}
    for name, batch in parts:
        batch.require([*stored[name], *group_by, *(c for c in context.carried if located[name] or c not in EXTENT)])
    columns: dict[str, pa.Array] = {}
    for name, attributes in stored.items():
        for attribute in attributes:
            type_ = to_arrow(context.schemas[name].type_of(attribute))
            columns[f"{name}.{attribute}"] = concat_arrays(
                [batch.column(attribute) if part == name else pa.nulls(len(batch), type_) for part, batch in parts]
            )
    for key in group_by:
        columns[f"group.{key}"] = concat_arrays([batch.column(key) for _, batch in parts])
    for carried in context.carried:
        columns[carried] = concat_arrays(
            [
                batch.column(carried) if located[name] or carried not in EXTENT else pa.nulls(len(batch), pa.float64())
                for name, batch in parts
            ]
        )
    return columns


def empty_store(context: Context, stored: Mapping[str, tuple[str, ...]]) -> Store:
    """No events, but all columns."""
    columns = {
        f"{name}.{attribute}": pa.array([], to_arrow(context.schemas[name].type_of(attribute)))
        for name, attributes in stored.items()
        for attribute in attributes
    }
    columns |= {f"group.{k}": pa.array([], context.key_type(k)) for k in context.group_by}
    columns |= {name: pa.array([], ORIGIN_LIST if name == ORIGINS else pa.float64()) for name in context.carried}
    empty = np.zeros(0, np.int64)
    return Store(np.zeros(0, np.int8), empty, empty, empty, np.zeros(0, np.uint8), columns)


def silence_rows(
    context: Context,
    stored: Mapping[str, tuple[str, ...]],
    silences: Silences,
    groups: GroupIndex | RuleGroupIndex,
    key_types: Sequence[pa.DataType],
) -> Store:
    """Silences that are over, as rows: they have a time, a group, and the position of the last event before."""
    count = len(silences)
    keys = dict(zip(context.group_by, groups.keys(silences["group"], key_types), strict=True))
    columns = {}
    for name, column in empty_store(context, stored).columns.items():
        if name == ORIGINS:
            columns[name] = pa.array([[]] * count, column.type)
        elif name.startswith("group."):
            columns[name] = keys[name.removeprefix("group.")]
        else:
            columns[name] = pa.nulls(count, column.type)
    time, group, position = (silences[name].copy() for name in ("time", "group", "position"))
    return Store(np.full(count, SILENT, np.int8), time, group, position, np.zeros(count, np.uint8), columns)


def order_parts(
    context: Context, parts: list[tuple[str, Batch]], ranks: np.ndarray, group: I64, groups: int, time: I64
) -> I64:
    """The rows of all parts in an order in which each group is in its total order."""
    if len(time) == 1:
        return np.zeros(1, np.int64)
    starts = np.concatenate([[0], np.cumsum([len(batch) for _, batch in parts])])
    by_rank = {context.inputs[name].rank: (name, batch, starts[i]) for i, (name, batch) in enumerate(parts)}

    def tie_keys(rank: int, rows: I64) -> list[pa.Array]:
        name, batch, start = by_rank[rank]
        attributes = context.inputs[name].tie_attributes if context.ordered else ()
        batch.require(attributes)
        indices = pa.array(rows - start)
        return [batch.column(attribute).take(indices) for attribute in attributes]

    shared = frozenset(context.inputs[name].rank for name in context.shared_order) if context.ordered else frozenset()
    major = parts[0][1].columns.get(RULE) if len(parts) == 1 else None  # rules that run as one come one by one
    numbers = None if major is None else major.to_numpy(zero_copy_only=False)
    with hop("sorting"):
        return total_order(group, groups, time, ranks, tie_keys, shared, numbers)


def concat_stores(first: Store, second: Store) -> Store:
    if len(first) == 0 or len(second) == 0:
        return second if len(first) == 0 else first
    return Store(
        np.concatenate([first.type_rank, second.type_rank]),
        np.concatenate([first.time, second.time]),
        np.concatenate([first.group, second.group]),
        np.concatenate([first.position, second.position]),
        np.concatenate([first.consumed, second.consumed]),
        joined_columns(first, second.columns),
    )


def joined_columns(first: Store, second: Mapping[str, pa.Array]) -> Mapping[str, pa.Array]:
    """The columns of a store, and after them those of others."""
    if len(first) == 0:
        return second
    if isinstance(second, PairColumns):
        return second.after(len(first), first.columns)
    return {name: concat_arrays([first.columns[name], column]) for name, column in second.items()}


@dataclass(frozen=True, slots=True)
class StoreRows:
    """Events of a store as rows, all under one alias of one type: those in `rows`, of which only the columns are
    gathered that are read; None: all events."""

    store: Store
    event_type: str
    attributes: tuple[str, ...] = ()
    rows: I64 | None = None

    @property
    def length(self) -> int:
        return len(self.store) if self.rows is None else len(self.rows)

    def _of_rows(self, name: str) -> pa.Array:
        return self.store.columns[name] if self.rows is None else self.store.values(name, self.rows)

    def attribute(self, alias: str, name: str) -> pa.Array:
        return self._of_rows(f"{self.event_type}.{name}")

    def time(self, alias: str) -> pa.Array:
        return as_timestamps(self.store.time if self.rows is None else self.store.time[self.rows])

    def group(self, name: str) -> pa.Array:
        return self._of_rows(f"group.{name}")

    def event(self, alias: str) -> pa.Array:
        return pa.StructArray.from_arrays([self.attribute(alias, name) for name in self.attributes], self.attributes)

    def repeated(self, alias: str) -> tuple[I64, Rows]:
        return np.arange(self.length + 1), self


class MatchRows:
    """Matches as rows for expressions: every alias has the events that it took."""

    def __init__(
        self,
        matches: Matches,
        store: Store,
        variables: tuple[str, ...],
        event_types: Mapping[str, str],
        attributes: Callable[[str], tuple[str, ...]],
        plain: bool = False,
    ) -> None:
        """`plain`: every match has one event for each variable, in the order of the variables."""
        self._plain = plain
        self._matches, self._store, self._variables = matches, store, variables
        self._types, self._attributes = event_types, attributes
        self._single: dict[str, I64] = {}
        self._repeated: dict[str, tuple[I64, Rows]] = {}

    @property
    def length(self) -> int:
        return len(self._matches)

    def events_of(self, alias: str) -> I64:
        """The event of a single alias in every match; -1 where it has none."""
        if alias not in self._single:
            variable = self._variables.index(alias)
            if self._plain:
                self._single[alias] = self._matches.path_event[variable :: len(self._variables)]
            else:
                self._single[alias] = first_events(self._matches, variable)
        return self._single[alias]

    def attribute(self, alias: str, name: str) -> pa.Array:
        events, column = self.events_of(alias), f"{self._types[alias]}.{name}"
        if self._plain or (events >= 0).all():
            return self._store.values(column, events)
        return _take(self._store.columns[column], events)

    def time(self, alias: str) -> pa.Array:
        events = self.events_of(alias)
        if self._plain or (events >= 0).all():
            return as_timestamps(self._store.time[events])
        return _take(as_timestamps(self._store.time), events)

    def group(self, name: str) -> pa.Array:
        return self._store.values(f"group.{name}", self._first())

    def event(self, alias: str) -> pa.Array:
        names = self._attributes(self._types[alias])
        return pa.StructArray.from_arrays([self.attribute(alias, name) for name in names], names)

    def repeated(self, alias: str) -> tuple[I64, Rows]:
        if alias not in self._repeated:
            mine = self._matches.path_variable == self._variables.index(alias)
            before = np.concatenate([[0], np.cumsum(mine)])
            type_, events = self._types[alias], self._matches.path_event[mine]
            rows = StoreRows(self._store, type_, self._attributes(type_), events)
            self._repeated[alias] = before[self._matches.offsets], rows
        return self._repeated[alias]

    def _first(self) -> I64:
        return self._matches.path_event[self._matches.offsets[:-1]]


def _take(column: pa.Array, rows: I64) -> pa.Array:
    """Values at rows; null where the row is -1."""
    missing = rows < 0
    if not missing.any():
        return column.take(pa.array(rows))
    return column.take(pa.array(rows, mask=missing))
