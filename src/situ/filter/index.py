"""An index over contents: which of them an event fulfils, without asking all of them.

A content that names values stands in a hash table over the attributes that it names, under each combination of values.
Contents under the same values that have an interval of the same attribute lie in an interval tree: sorted by their
beginnings, each with the largest end in its part of the tree. What remains of a conjunction is looked at last, for the
few contents that are left. Hash tables are of open addressing: a minimal perfect hash would save a quarter of their
memory, and would have to be made anew for every rule that comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from situ.filter.content import Content
from situ.filter.keys import LARGEST, LEAST
from situ.kernel.arrays import I32, I64, U8
from situ.kernel.matching.machine import inlined, jit

#: An event looks into every table of a level. From so many on, contents share tables by one attribute alone.
MOST_TABLES = 32
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
#: So many events are looked up side by side.
_AHEAD = 128
#: So few entries are looked at one after the other.
_FEW = 8
#: An interval tree over all 64-bit positions is no deeper, twice: both children may wait.
_DEPTH = 128


class Level(NamedTuple):
    """Contents that were indexed together. Table t looks at the attributes from table_offset t on, and in its buckets
    at the attribute table_range t (-1: none). Slots and entries are records, so that one of them is one line of the
    processor's cache."""

    table_offset: I32
    table_attribute: I32
    table_range: I32
    slot_offset: I64  # by table: where its slots begin; their number is a power of two
    slots: I64  # of a bucket: where its entries begin (plus one; 0: no bucket), where they end, and its key
    entries: I64  # content, first, last, the largest `last` in its part of the tree, where its checks begin and end
    check_attribute: I32
    check_first: I64
    check_last: I64


#: The columns of slots and entries.
_BEGIN, _END, _KEY = range(3)
_CONTENT, _FIRST, _LAST, _LATEST, _CHECKS, _CHECKS_END = range(6)


class EventKeys(NamedTuple):
    """The events: by attribute and row, the key of its value, and whether there is one."""

    keys: I64
    valid: U8


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A content under one combination of its values."""

    content: int
    table: tuple[tuple[int, ...], int]
    key: tuple[int, ...]
    interval: tuple[int, int]
    checks: tuple[tuple[int, int, int], ...]


def level_of(contents: Sequence[tuple[int, Content]], attributes: Mapping[str, int], points: PointKeys) -> Level:
    """A level of numbered contents; `attributes` numbers the attributes."""
    tables: dict[tuple[tuple[int, ...], int], list[IndexEntry]] = {}
    for number, content in contents:
        for entry in _entries(number, content, attributes, points, tables):
            tables.setdefault(entry.table, []).append(entry)
    return _level(tables)


class PointKeys:
    """The keys of values that are named: a number is its own key, and text gets a number."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, str | bytes], int] = {}

    def key(self, attribute: str, point: int | str | bytes) -> int:
        if isinstance(point, int):
            return point
        return self.numbers.setdefault((attribute, point), len(self.numbers))


def _entries(
    number: int,
    content: Content,
    attributes: Mapping[str, int],
    points: PointKeys,
    tables: Mapping[tuple[tuple[int, ...], int], list[IndexEntry]],
) -> list[IndexEntry]:
    keys = {attributes[n]: [points.key(n, p) for p in values] for n, values in content.points.items()}
    intervals = {attributes[name]: between for name, between in content.intervals.items()}
    by_range = min(intervals, key=lambda a: _width(intervals[a]), default=-1)
    table = tuple(sorted(keys)), by_range
    if table not in tables and len(tables) >= MOST_TABLES:
        alone = sorted(keys, key=lambda a: len(keys[a]))[:1]
        table = (tuple(alone), -1 if alone else by_range)
    named, ranged = table
    checks = tuple((a, *between) for a, between in intervals.items() if a != ranged)
    others = [a for a in keys if a not in named]
    result = []
    for combination in product(*(keys[a] for a in (*named, *others))):
        key, rest = combination[: len(named)], combination[len(named) :]
        more = tuple((a, value, value) for a, value in zip(others, rest, strict=True))
        result.append(IndexEntry(number, table, key, intervals.get(ranged, (LEAST, LARGEST)), checks + more))
    return result


def _width(between: tuple[int, int]) -> float:
    """How wide an interval is, to compare with others; one that is open on a side is wider than all others."""
    first, last = between
    return float("inf") if first == LEAST or last == LARGEST else float(last - first)


def _level(tables: Mapping[tuple[tuple[int, ...], int], list[IndexEntry]]) -> Level:
    widest = max((len(named) for named, _ in tables), default=0)
    table_offset, table_attribute = [0], list[int]()
    entries, checks = list[tuple[int, ...]](), list[tuple[int, int, int]]()
    slots, slot_offset = [np.zeros((0, _KEY + widest), np.int64)], [0]
    for (named, _), of_table in tables.items():
        table_attribute += named
        table_offset.append(len(table_attribute))
        of_table.sort(key=lambda entry: (entry.key, entry.interval))
        buckets = list[list[int]]()
        for entry in of_table:
            if not buckets or buckets[-1][_KEY:] != [*entry.key]:
                buckets.append([len(entries) + 1, 0, *entry.key])
            end = len(checks) + len(entry.checks)
            entries.append((entry.content, *entry.interval, entry.interval[1], len(checks), end))
            checks += entry.checks
            buckets[-1][_END] = len(entries)
        records = np.zeros((len(buckets), _KEY + widest), np.int64)
        records[:, : _KEY + len(named)] = buckets
        hashed = np.zeros((max(2, 1 << (2 * len(buckets) - 1).bit_length()), _KEY + widest), np.int64)
        with np.errstate(over="ignore"):
            _fill_slots(records, len(named), hashed)
        slots.append(hashed)
        slot_offset.append(slot_offset[-1] + len(hashed))
    level = Level(
        table_offset=np.array(table_offset, np.int32),
        table_attribute=np.array(table_attribute, np.int32),
        table_range=np.array([ranged for _, ranged in tables], np.int32),
        slot_offset=np.array(slot_offset, np.int64),
        slots=np.concatenate(slots),
        entries=np.array(entries, np.int64).reshape(len(entries), _CHECKS_END + 1),
        check_attribute=np.array([attribute for attribute, _, _ in checks], np.int32),
        check_first=np.array([first for _, first, _ in checks], np.int64),
        check_last=np.array([last for _, _, last in checks], np.int64),
    )
    _grow_trees(level.slots, level.entries, empty_stack())
    return level


def empty_stack() -> I64:
    """Room for the parts of a tree that kernels have still to look at."""
    return np.empty((_DEPTH, 3), np.int64)


@inlined
def _mixed(value: np.uint64, key: np.int64) -> np.uint64:
    value = (value ^ np.uint64(key)) * _MIX
    return value ^ (value >> _SHIFT)


@jit
def _fill_slots(buckets: I64, width: int, slots: I64) -> None:
    mask = np.uint64(len(slots) - 1)
    for bucket in range(len(buckets)):
        value = np.uint64(0)
        for i in range(width):
            value = _mixed(value, buckets[bucket, _KEY + i])
        at = np.int64(value & mask)
        while slots[at, _BEGIN] > 0:
            at = np.int64(np.uint64(at + 1) & mask)
        for i in range(slots.shape[1]):
            slots[at, i] = buckets[bucket, i]


@jit
def _grow_trees(slots: I64, entries: I64, stack: I64) -> None:
    """The tree of entries from b to e has the one in the middle as its root, and the trees of those before and of those
    after it below."""
    for slot in range(len(slots)):
        stack[0, 0], stack[0, 1], stack[0, 2] = slots[slot, _BEGIN] - 1, slots[slot, _END], 0
        top = 0 if slots[slot, _BEGIN] > 0 else -1
        while top >= 0:
            begin, end, is_ready = stack[top, 0], stack[top, 1], stack[top, 2]
            middle = (begin + end) // 2
            if end - begin <= 1:
                top -= 1
            elif is_ready == 0:
                stack[top, 2] = 1
                stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = begin, middle, 0
                stack[top + 2, 0], stack[top + 2, 1], stack[top + 2, 2] = middle + 1, end, 0
                top += 2
            else:
                latest = max(entries[middle, _LATEST], entries[(begin + middle) // 2, _LATEST])
                if middle + 1 < end:
                    latest = max(latest, entries[(middle + 1 + end) // 2, _LATEST])
                entries[middle, _LATEST] = latest
                top -= 1


@inlined
def _home(row: int, table: int, events: EventKeys, level: Level) -> int:
    """Where the search for an event's bucket in a table begins."""
    value = np.uint64(0)
    for i in range(level.table_offset[table], level.table_offset[table + 1]):
        value = _mixed(value, events.keys[level.table_attribute[i], row])
    first = level.slot_offset[table]
    home: int = first + np.int64(value & np.uint64(level.slot_offset[table + 1] - first - 1))
    return home


@jit
def _touch(row: int, end: int, events: EventKeys, level: Level) -> int:
    """Read what some events will look at, without waiting for one before the next: so that it comes from memory for all
    of them together. The sum keeps the compiler from leaving it out."""
    total = 0
    for table in range(len(level.table_range)):
        for at in range(row, end):
            total += level.slots[_home(at, table, events, level), _BEGIN]
        for at in range(row, end):
            begin = level.slots[_home(at, table, events, level), _BEGIN]
            total += level.entries[max(begin - 1, 0), _CONTENT]
    return total


@inlined
def _slot_of(row: int, table: int, events: EventKeys, level: Level) -> int:
    """The slot of the bucket of a table that an event falls into; -1 if there is none."""
    begin, end = level.table_offset[table], level.table_offset[table + 1]
    slot, is_known = -1, True
    for i in range(begin, end):
        is_known &= events.valid[level.table_attribute[i], row] != 0
    if is_known:
        at = _home(row, table, events, level)
        while level.slots[at, _BEGIN] > 0:
            is_equal = True
            for i in range(begin, end):
                is_equal &= level.slots[at, _KEY + i - begin] == events.keys[level.table_attribute[i], row]
            if is_equal:
                slot = at
                break
            at += 1
            if at == level.slot_offset[table + 1]:
                at = level.slot_offset[table]
    return slot


@inlined
def _passes(row: int, entry: int, events: EventKeys, level: Level) -> bool:
    """Whether an event lies in all other intervals of an entry."""
    passes = True
    for i in range(level.entries[entry, _CHECKS], level.entries[entry, _CHECKS_END]):
        attribute = level.check_attribute[i]
        key = events.keys[attribute, row]
        if events.valid[attribute, row] == 0 or key < level.check_first[i] or key > level.check_last[i]:
            passes = False
            break
    return passes


@jit
def find(
    row: int, events: EventKeys, level: Level, alive: U8, rows: I64, contents: I64, counts: I64, stack: I64
) -> int:
    """Write down the contents of the events from `row` on. Returns the row before which there must be more room; if
    none, how many events there are. counts[0] is how many pairs have been written."""
    touched = row
    while row < events.keys.shape[1]:
        if row == touched:
            touched = min(row + _AHEAD, events.keys.shape[1])
            counts[1] += _touch(row, touched, events, level)
        written = counts[0]
        for table in range(len(level.table_range)):
            slot, attribute = _slot_of(row, table, events, level), level.table_range[table]
            if slot < 0 or (attribute >= 0 and events.valid[attribute, row] == 0):
                continue
            begin, end = level.slots[slot, _BEGIN] - 1, level.slots[slot, _END]
            if written + end - begin > len(rows):
                return row
            key = events.keys[max(attribute, 0), row] if attribute >= 0 else np.int64(0)
            top = -1
            if end - begin > _FEW:
                stack[0, 0], stack[0, 1], top, end = begin, end, 0, begin
            while begin < end or top >= 0:
                if begin == end:  # the next part of the tree
                    begin, end = stack[top, 0], stack[top, 1]
                    top -= 1
                    middle = (begin + end) // 2
                    if begin == end or level.entries[middle, _LATEST] < key:
                        end = begin
                        continue
                    if end - begin > _FEW:
                        stack[top + 1, 0], stack[top + 1, 1] = begin, middle
                        top += 1
                        if level.entries[middle, _FIRST] <= key:
                            stack[top + 1, 0], stack[top + 1, 1] = middle + 1, end
                            top += 1
                            begin, end = middle, middle + 1
                        else:
                            end = begin
                            continue
                if level.entries[begin, _FIRST] > key:
                    end = begin
                    continue
                content = level.entries[begin, _CONTENT]
                last = level.entries[begin, _LAST]
                if key <= last and alive[content] != 0 and _passes(row, begin, events, level):
                    rows[written], contents[written] = row, content
                    written += 1
                begin += 1
        counts[0] = written
        row += 1
    return row
