"""The content filterer (EdgeCEP, section III-C): events in, for each content the events that it is interested in.

A **content** is what rules ask of single events: conditions that must hold together. Rules that ask the same share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from situ.core.types import Type
from situ.filter.content import Content, content_of
from situ.filter.index import EventKeys, Level, PointKeys, empty_stack, find, level_of, rows_by_part
from situ.filter.keys import has_names, keys_of, text_of
from situ.graph.expressions import Attribute, GroupKey, walk
from situ.kernel.arrays import I64, U8
from situ.kernel.batch import Batch, Calls
from situ.kernel.matching.machine import jit
from situ.kernel.matching.order import lexical_order
from situ.kernel.operator import Conditions

#: A level takes in those that came after it when they are together more than an eighth of it.
_GROWTH = 8
#: So few contents are evaluated one by one: a condition on a whole column is faster than a search for every event.
_FEW = 8
#: Contents that are gone leave the index together, when they are half of it and so many at least.
_MANY_GONE = 64


@dataclass(frozen=True, slots=True)
class Hits:
    """For each content that some event fulfils, the rows of these events in ascending order: content `contents[i]` has
    those from offsets[i] to offsets[i + 1]. By the number of any content, `places` has its i; -1: it has no rows."""

    contents: I64
    offsets: I64
    rows: I64
    places: I64

    @classmethod
    def of(cls, contents: I64, lengths: I64, rows: I64, size: int) -> Hits:
        """The hits of contents that have numbers below `size`, each of which stands there once."""
        places = np.full(size, -1)
        places[contents] = np.arange(len(contents))
        return cls(contents, np.append(0, np.cumsum(lengths)), rows, places)

    def rows_of(self, content: int) -> I64:
        place = self.places[content]
        return self.rows[:0] if place < 0 else self.rows[self.offsets[place] : self.offsets[place + 1]]

    def spans(self, contents: I64) -> tuple[I64, I64]:
        """Where the rows of contents begin and end; of a number below 0 there are none."""
        place = np.where(contents >= 0, self.places[contents], -1)
        offsets = np.append(self.offsets, 0)  # place -1 is here, and -1 + 1 at the beginning: both are 0
        return offsets[place], offsets[place + 1]

    def among(self, rows: I64) -> Hits:
        """The hits among some rows, in ascending order, which are numbered anew."""
        number = np.full(int(max(self.rows.max(initial=-1), rows.max(initial=-1))) + 1, -1)
        number[rows] = np.arange(len(rows))
        numbers = number[self.rows]
        before = np.concatenate([[0], np.cumsum(numbers >= 0)])
        return Hits(self.contents, before[self.offsets], numbers[numbers >= 0], self.places)


@dataclass(slots=True)
class _Indexed:
    """A level, and the numbers of the contents in it."""

    level: Level
    numbers: list[int]


@dataclass
class Filterer:
    """Finds which events of one type fulfil which contents; `types` are those of the attributes.

    Contents come and go while it is used: new ones are indexed among themselves, and join the older ones when they have
    become many, so that one more costs the logarithm of all on average. Each is added as often as somebody asks for it,
    and stays until it has been removed as often.

    >>> from situ.core.functions import default
    >>> from situ.core.types import INT
    >>> from situ.graph.expressions import Attribute, Binary, Literal
    >>> filterer = Filterer({"v": INT})
    >>> fives, many = filterer.add([(Binary(op, Attribute("this", "v"), Literal(5)),) for op in ("=", ">")])
    >>> events = Batch(np.arange(4), {"v": pa.array([5, 7, None, 5])})
    >>> hits = filterer.hits(events, {"functions": default, "errors": {}})
    >>> hits.rows_of(fives).tolist(), hits.rows_of(many).tolist()
    ([0, 3], [1])
    """

    types: Mapping[str, Type]
    _numbers: dict[Conditions, int] = field(default_factory=dict)
    _conditions: dict[int, Conditions] = field(default_factory=dict)
    _contents: dict[int, Content] = field(default_factory=dict)
    _uses: dict[int, int] = field(default_factory=dict)
    _scanned: dict[int, Conditions] = field(default_factory=dict)
    _rests: dict[Conditions, int] = field(default_factory=dict)
    _levels: list[_Indexed] = field(default_factory=list)
    _attributes: dict[str, int] = field(default_factory=dict)
    _points: PointKeys = field(default_factory=PointKeys)
    _alive: U8 = field(default_factory=lambda: np.zeros(64, np.uint8))
    _rest_of: I64 = field(default_factory=lambda: np.full(64, -1, np.int64))
    _free: list[int] = field(default_factory=list)
    _new: list[int] = field(default_factory=list)
    _gone: int = 0

    def __len__(self) -> int:
        """How many contents there are."""
        return len(self._conditions)

    @property
    def size(self) -> int:
        """Contents have numbers below this one."""
        return len(self._alive)

    def conditions(self, content: int) -> Conditions:
        return self._conditions[content]

    def contents(self) -> list[int]:
        """The numbers of all contents."""
        return [*self._conditions]

    def describe(self, content: int) -> str:
        """How the events of a content are found."""
        self.take_in_new()
        return str(self._contents[content])

    def attributes_read(self) -> frozenset[str]:
        """All attributes that contents ask for."""
        named = (node for c in self._conditions.values() for condition in c for node in walk(condition))
        return frozenset(node.name for node in named if isinstance(node, Attribute | GroupKey))

    # --- contents come and go

    def add(self, contents: Iterable[Conditions]) -> list[int]:
        """The numbers of contents; those that are new are indexed."""
        numbers, new = [], []
        for conditions in contents:
            number = self._numbers.get(conditions)
            if number is None:
                number = self._free.pop() if self._free else len(self._conditions) + self._gone
                self._numbers[conditions], self._conditions[number] = number, conditions
                self._uses[number] = 0
                self._make_room(number)
                new.append(number)
            self._uses[number] += 1
            numbers.append(number)
        self._new += new
        return numbers

    def remove(self, contents: Iterable[int]) -> None:
        """Whoever added these asks for them no longer."""
        self.take_in_new()
        for number in contents:
            self._uses[number] -= 1
            if self._uses[number] == 0:
                self._forget(number)
        if self._gone >= _MANY_GONE and 2 * self._gone >= sum(len(indexed.numbers) for indexed in self._levels):
            self._rebuild()

    def _forget(self, number: int) -> None:
        conditions = self._conditions.pop(number)
        del self._numbers[conditions], self._uses[number], self._contents[number]
        self._alive[number], self._rest_of[number] = 0, -1
        if self._scanned.pop(number, None) is None:
            self._gone += 1  # its number is not free for as long as it stands in the index
        else:
            self._free.append(number)

    def _make_room(self, number: int) -> None:
        if number >= len(self._alive):
            more = len(self._alive)
            self._alive = np.concatenate([self._alive, np.zeros(more, np.uint8)])
            self._rest_of = np.concatenate([self._rest_of, np.full(more, -1, np.int64)])

    def take_in_new(self) -> None:
        """Index what was added since events were last looked at, together; `hits` does so itself."""
        if self._new:
            new, self._new = self._new, []
            self._take_in(new)

    def _take_in(self, new: list[int]) -> None:
        indexed = []
        for number in new:
            conditions = self._conditions[number]
            content = self._contents[number] = content_of(conditions, self.types)
            if content.is_indexed or content.never:
                self._alive[number] = 1
                indexed.append(number)
                if content.rest:
                    self._rest_of[number] = self._rests.setdefault(content.rest, len(self._rests))
                for name in (*content.points, *content.intervals):
                    self._attributes.setdefault(name, len(self._attributes))
            else:
                self._scanned[number] = conditions
        while indexed and self._levels and len(self._levels[-1].numbers) <= _GROWTH * len(indexed):
            indexed = [*self._levels.pop().numbers, *indexed]
        if indexed:
            self._levels.append(self._level(indexed))

    def _level(self, numbers: list[int]) -> _Indexed:
        there = [n for n in numbers if n in self._contents]
        contents = [(n, self._contents[n]) for n in there if not self._contents[n].never]
        return _Indexed(level_of(contents, self._attributes, self._points), numbers)

    def _rebuild(self) -> None:
        """Leave out what is gone."""
        numbers = [number for indexed in self._levels for number in indexed.numbers]
        self._free += [number for number in numbers if number not in self._contents]
        self._gone = 0
        there = [number for number in numbers if number in self._contents]
        self._levels = [self._level(there)] if there else []

    # --- events

    def hits(self, batch: Batch, calls: Calls) -> Hits:
        """For each content, the events that fulfil it. Where contents are few, each is evaluated by itself."""
        if len(self) <= _FEW:
            return self.hits_one_by_one(self._conditions, batch, calls)
        self.take_in_new()
        found = self._found(batch, calls) if len(batch) else []
        scanned = [(number, batch.rows(conditions, calls)) for number, conditions in self._scanned.items()]
        found += [_Posted(np.array([number]), np.array([len(rows)]), rows) for number, rows in scanned if len(rows)]
        return _joined(found, self.size)

    def hits_one_by_one(self, contents: Iterable[int], batch: Batch, calls: Calls) -> Hits:
        """For each of some contents, the events that fulfil it, without the index: for events that come with what is
        known of conditions, and perhaps without the columns that these read."""
        found = [(number, batch.rows(self._conditions[number], calls)) for number in sorted({*contents})]
        found = [(number, rows) for number, rows in found if len(rows)]
        lengths = np.array([len(rows) for _, rows in found], np.int64)
        joined = np.concatenate([rows for _, rows in found]) if found else _NOTHING
        return Hits.of(np.array([number for number, _ in found], np.int64), lengths, joined, self.size)

    def _found(self, batch: Batch, calls: Calls) -> list[_Posted]:
        """What the index finds, table by table."""
        events = self._keys(batch)
        found = []
        for indexed in self._levels:
            level = indexed.level
            for table in range(len(level.table_range)):
                order = rows_by_part(table, events, level)
                of_parts = events if order is None else EventKeys(events.keys[:, order], events.valid[:, order])
                rows, places = self._pairs(table, of_parts, level)
                rows = rows if order is None else order[rows]
                if len(self._rests) and len(rows):
                    kept = self._with_rests(rows, level.entries[places, 0], batch, calls)
                    rows, places = rows[kept], places[kept]
                if len(rows):
                    found.append(_by_entry(rows, places, level.entries[:, 0], level.entry_offset[table : table + 2]))
        return found

    def _pairs(self, table: int, events: EventKeys, level: Level) -> tuple[I64, I64]:
        """Pairs of a row and an entry of a table, by row."""
        count = events.keys.shape[1]
        room, row = 2 * count + 1024, 0
        stack = empty_stack()
        found: list[tuple[I64, I64]] = []
        while row < count:
            rows, places, counts = np.empty(room, np.int64), np.empty(room, np.int64), np.zeros(2, np.int64)
            with np.errstate(over="ignore"):
                row = find(row, table, events, level, self._alive, rows, places, counts, stack)
            found.append((rows[: counts[0]], places[: counts[0]]))
            room = 2 * room
        if len(found) == 1:
            return found[0]
        parts = found or [(_NOTHING, _NOTHING)]
        return np.concatenate([rows for rows, _ in parts]), np.concatenate([places for _, places in parts])

    def _keys(self, batch: Batch) -> EventKeys:
        keys = np.zeros((len(self._attributes), len(batch)), np.int64)
        valid = np.ones(keys.shape, np.uint8)
        batch.require(self._attributes)
        for name, number in self._attributes.items():
            column, type_ = batch.column(name), self.types[name]
            keys[number], present = self._names(name, column) if has_names(type_) else keys_of(column, type_)
            if present is not None:
                valid[number] = present
        return EventKeys(keys, valid)

    def _names(self, attribute: str, column: pa.Array) -> tuple[I64, npt.NDArray[np.bool_]]:
        """Text and bytes as the numbers that contents know them by; what none of them names is as good as null."""
        encoded = text_of(column).dictionary_encode()
        known = self._points.numbers
        of_values = np.array([known.get((attribute, value), -1) for value in encoded.dictionary.to_pylist()], np.int64)
        indices = encoded.indices.fill_null(len(of_values)).to_numpy(zero_copy_only=False)
        keys = np.append(of_values, -1)[indices]
        return keys, keys >= 0

    def _with_rests(self, rows: I64, contents: I64, batch: Batch, calls: Calls) -> npt.NDArray[np.bool_]:
        """For which pairs the rest of the content holds, too; equal rests are evaluated once."""
        rests = self._rest_of[contents]
        kept = np.ones(len(rows), np.bool_)
        expressions = list(self._rests)
        for rest in np.unique(rests[rests >= 0]).tolist():
            pairs = np.flatnonzero(rests == rest)
            candidates, back = np.unique(rows[pairs], return_inverse=True)
            holds = batch.view(candidates).mask(expressions[rest], calls)
            assert holds is not None, "a rest has conditions"
            kept[pairs] = holds[back]
        return kept


_NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Posted:
    """Contents, how many rows each has, and these rows, those of one content in order. A content may stand here more
    than once, with other rows each time."""

    contents: I64
    lengths: I64
    rows: I64


def _by_entry(rows: I64, places: I64, content_of: I64, bounds: I64) -> _Posted:
    """Pairs of a row and an entry by entry; those of one entry are in order already, and neighbours are near each
    other, which the processor's cache likes better than the numbers of contents."""
    first, last = bounds.tolist()
    if last - first <= 4 * len(rows) + 1024:
        counts, ordered = np.zeros(last - first, np.int64), np.empty(len(rows), np.int64)
        _count(places, first, counts)
        _deal(rows, places, first, np.cumsum(counts) - counts, ordered)
        found = np.flatnonzero(counts)
        return _Posted(content_of[first + found], counts[found], ordered)
    order = np.argsort(places, kind="stable")
    sorted_ = places[order]
    heads = np.flatnonzero(np.append(True, sorted_[1:] != sorted_[:-1]))
    return _Posted(content_of[sorted_[heads]], np.diff(heads, append=len(rows)), rows[order])


def _joined(posted: list[_Posted], size: int) -> Hits:
    """The hits of all tables. A content that stands there more than once, for several values, gets its rows in
    order."""
    if len(posted) == 1:
        contents, lengths, rows = posted[0].contents, posted[0].lengths, posted[0].rows
    else:
        parts = posted or [_Posted(_NOTHING, _NOTHING, _NOTHING)]
        contents, lengths, rows = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("contents", "lengths", "rows")
        )
    hits = Hits.of(contents, lengths, rows, size)
    if (hits.places[contents] == np.arange(len(contents))).all():
        return hits
    of_rows = np.repeat(contents, lengths)
    order = lexical_order((rows, of_rows))
    found, counts = np.unique(of_rows, return_counts=True)
    return Hits.of(found, counts, rows[order], size)


@jit
def _count(places: I64, first: int, counts: I64) -> None:
    for pair in range(len(places)):
        counts[places[pair] - first] += 1


@jit
def _deal(rows: I64, places: I64, first: int, begin: I64, ordered: I64) -> None:
    for pair in range(len(rows)):
        place = places[pair] - first
        ordered[begin[place]] = rows[pair]
        begin[place] += 1
