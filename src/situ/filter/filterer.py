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
from situ.filter.index import EventKeys, Level, PointKeys, empty_stack, find, level_of
from situ.filter.keys import has_names, keys_of, text_of
from situ.graph.expressions import Attribute, GroupKey, walk
from situ.kernel.arrays import I64, U8
from situ.kernel.batch import Batch, Calls
from situ.kernel.matching.machine import jit
from situ.kernel.operator import Conditions

#: A level takes in those that came after it when they are together more than an eighth of it.
_GROWTH = 8
#: So few contents are evaluated one by one: a condition on a whole column is faster than a search for every event.
_FEW = 8
#: Contents that are gone leave the index together, when they are half of it and so many at least.
_MANY_GONE = 64


@dataclass(frozen=True, slots=True)
class Hits:
    """For each content that some event fulfils, by its number in ascending order, the rows of these events in
    ascending order: content i has those from offsets[i] to offsets[i + 1]."""

    contents: I64
    offsets: I64
    rows: I64

    def rows_of(self, content: int) -> I64:
        at = int(np.searchsorted(self.contents, content))
        if at == len(self.contents) or self.contents[at] != content:
            return self.rows[:0]
        return self.rows[self.offsets[at] : self.offsets[at + 1]]

    def among(self, rows: I64) -> Hits:
        """The hits among some rows, in ascending order, which are numbered anew."""
        number = np.full(int(max(self.rows.max(initial=-1), rows.max(initial=-1))) + 1, -1)
        number[rows] = np.arange(len(rows))
        numbers = number[self.rows]
        before = np.concatenate([[0], np.cumsum(numbers >= 0)])
        return Hits(self.contents, before[self.offsets], numbers[numbers >= 0])


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

    def attributes_of(self, content: int) -> frozenset[str]:
        """The attributes by which the index finds a content."""
        self.take_in_new()
        found = self._contents[content]
        return frozenset((*found.points, *found.intervals)) if found.is_indexed else frozenset()

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
        rows, contents = self._found(batch) if self._levels and len(batch) else (_NOTHING, _NOTHING)
        if len(self._rests) and len(rows):
            rows, contents = self._with_rests(rows, contents, batch, calls)
        pieces = [(number, batch.rows(conditions, calls)) for number, conditions in self._scanned.items()]
        if pieces:
            rows = np.concatenate([rows, *(accepted for _, accepted in pieces)])
            repeated = [np.full(len(accepted), number) for number, accepted in pieces]
            contents = np.concatenate([contents, *repeated])
        return _by_content(rows, contents, self.size)

    def hits_one_by_one(self, contents: Iterable[int], batch: Batch, calls: Calls) -> Hits:
        """For each of some contents, the events that fulfil it, without the index: for events that come with what is
        known of conditions, and perhaps without the columns that these read."""
        found = [(number, batch.rows(self._conditions[number], calls)) for number in sorted({*contents})]
        found = [(number, rows) for number, rows in found if len(rows)]
        lengths = [len(rows) for _, rows in found]
        joined = np.concatenate([rows for _, rows in found]) if found else _NOTHING
        return Hits(np.array([n for n, _ in found], np.int64), np.cumsum([0, *lengths]), joined)

    def _found(self, batch: Batch) -> tuple[I64, I64]:
        """Pairs of a row and a content that the index finds, by row for each level."""
        events = self._keys(batch)
        found: list[tuple[I64, I64]] = []
        room = len(batch) + 1024
        stack = empty_stack()
        for indexed in self._levels:
            row = 0
            while row < len(batch):
                rows, contents, counts = np.empty(room, np.int64), np.empty(room, np.int64), np.zeros(2, np.int64)
                with np.errstate(over="ignore"):
                    row = find(row, events, indexed.level, self._alive, rows, contents, counts, stack)
                found.append((rows[: counts[0]], contents[: counts[0]]))
                room = 2 * room if counts[0] < room // 2 and row < len(batch) else room
        if len(found) == 1:
            return found[0]
        return np.concatenate([rows for rows, _ in found]), np.concatenate([contents for _, contents in found])

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

    def _with_rests(self, rows: I64, contents: I64, batch: Batch, calls: Calls) -> tuple[I64, I64]:
        """The pairs for which the rest of the content holds, too; equal rests are evaluated once."""
        rests = self._rest_of[contents]
        kept = np.ones(len(rows), np.bool_)
        expressions = list(self._rests)
        for rest in np.unique(rests[rests >= 0]).tolist():
            pairs = np.flatnonzero(rests == rest)
            candidates, back = np.unique(rows[pairs], return_inverse=True)
            holds = batch.view(candidates).mask(expressions[rest], calls)
            assert holds is not None, "a rest has conditions"
            kept[pairs] = holds[back]
        return rows[kept], contents[kept]


_NOTHING = np.zeros(0, np.int64)


def _by_content(rows: I64, contents: I64, size: int) -> Hits:
    """Pairs by content, each with its rows in order: pairs of one content are in order already."""
    if size <= 4 * len(rows) + 1024:
        counts = np.bincount(contents, minlength=size)
        found = np.flatnonzero(counts)
        begin = np.cumsum(counts) - counts
        ordered = np.empty(len(rows), np.int64)
        _deal(rows, contents, begin, ordered)
        return Hits(found, np.append(0, np.cumsum(counts[found])), ordered)
    order = np.argsort(contents, kind="stable")
    sorted_ = contents[order]
    heads = np.flatnonzero(np.append(True, sorted_[1:] != sorted_[:-1])) if len(rows) else _NOTHING
    return Hits(sorted_[heads], np.append(heads, len(rows)), rows[order])


@jit
def _deal(rows: I64, contents: I64, begin: I64, ordered: I64) -> None:
    for pair in range(len(rows)):
        content = contents[pair]
        ordered[begin[content]] = rows[pair]
        begin[content] += 1
