"""An index over contents: which of them an event fulfils, without asking all of them.

A content that names values stands in a hash table over the attributes that it names, under each combination of values.
Contents under the same values that have an interval of the same attribute lie in an interval tree: sorted by their
beginnings, each with the largest end in its part of the tree. What remains of a conjunction is looked at last, for the
few contents that are left. Hash tables are of open addressing: a minimal perfect hash would save a quarter of their
memory, and would have to be made anew for every rule that comes.

A table that is larger than the processor's cache is looked at part by part: entries lie in the order of their slots,
and events are dealt out to the parts before they are looked up. So each line of the table comes from memory once for
all events, and not once for each of them.
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
#: A part of a table has so many slots: with their entries they lie in the processor's second cache.
_PART_SLOTS = 1 << 12
#: So many parts at most: events are dealt out to all of them at once.
_MOST_PARTS = 1 << 10
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
    entry_offset: I64  # by table: where its entries begin
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
    slots, slot_offset, entry_offset = [np.zeros((0, _KEY + widest), np.int64)], [0], [0]
    for (named, _), of_table in tables.items():
        table_attribute += named
        table_offset.append(len(table_attribute))
        keys = {entry.key for entry in of_table}
        hashed = np.zeros((max(2, 1 << (2 * len(keys) - 1).bit_length()), _KEY + widest), np.int64)
        place = _places(list(keys), hashed)
        of_table.sort(key=lambda entry: (place[entry.key], entry.interval))
        buckets = list[list[int]]()
        before: tuple[int, ...] | None = None
        for entry in of_table:
            if entry.key != before:
                before = entry.key
                buckets.append([len(entries) + 1, 0, *entry.key])
            end = len(checks) + len(entry.checks)
            entries.append((entry.content, *entry.interval, entry.interval[1], len(checks), end))
            checks += entry.checks
            buckets[-1][_END] = len(entries)
        hashed[[place[tuple(bucket[_KEY:])] for bucket in buckets], : _KEY + len(named)] = buckets
        slots.append(hashed)
        slot_offset.append(slot_offset[-1] + len(hashed))
        entry_offset.append(len(entries))
    level = Level(
        table_offset=np.array(table_offset, np.int32),
        table_attribute=np.array(table_attribute, np.int32),
        table_range=np.array([ranged for _, ranged in tables], np.int32),
        slot_offset=np.array(slot_offset, np.int64),
        entry_offset=np.array(entry_offset, np.int64),
        slots=np.concatenate(slots),
        entries=np.array(entries, np.int64).reshape(len(entries), _CHECKS_END + 1),
        check_attribute=np.array([attribute for attribute, _, _ in checks], np.int32),
        check_first=np.array([first for _, first, _ in checks], np.int64),
        check_last=np.array([last for _, _, last in checks], np.int64),
    )
    _grow_trees(level.slots, level.entries, empty_stack())
    return level


def _places(keys: list[tuple[int, ...]], slots: I64) -> dict[tuple[int, ...], int]:
    """The slot of each key in an empty table of so many slots."""
    places = np.empty(len(keys), np.int64)
    words = np.array(keys, np.int64).reshape(len(keys), -1)
    with np.errstate(over="ignore"):
        _find_places(words, np.zeros(len(slots), np.uint8), places)
    return dict(zip(keys, places.tolist(), strict=True))


def empty_stack() -> I64:
    """Room for the parts of a tree that kernels have still to look at."""
    return np.empty((_DEPTH, 3), np.int64)


@inlined
def _mixed(value: np.uint64, key: np.int64) -> np.uint64:
    value = (value ^ np.uint64(key)) * _MIX
    return value ^ (value >> _SHIFT)


@jit
def _find_places(keys: I64, taken: U8, places: I64) -> None:
    mask = np.uint64(len(taken) - 1)
    for key in range(keys.shape[0]):
        value = np.uint64(0)
        for i in range(keys.shape[1]):
            value = _mixed(value, keys[key, i])
        at = np.int64(value & mask)
        while taken[at] != 0:
            at = np.int64(np.uint64(at + 1) & mask)
        taken[at], places[key] = 1, at


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
def _touch(row: int, end: int, table: int, events: EventKeys, level: Level) -> int:
    """Read what some events will look at, without waiting for one before the next: so that it comes from memory for all
    of them together. The sum keeps the compiler from leaving it out."""
    total = 0
    for at in range(row, end):
        total += level.slots[_home(at, table, events, level), _BEGIN]
    for at in range(row, end):
        begin = level.slots[_home(at, table, events, level), _BEGIN]
        total += level.entries[max(begin - 1, 0), _CONTENT]
    return total


def rows_by_part(table: int, events: EventKeys, level: Level) -> I64 | None:
    """The events that may be in a table, in the order of its parts, those of one part in their own order; None: in
    their own order, because the table has one part only."""
    slots = int(level.slot_offset[table + 1] - level.slot_offset[table])
    parts = min(slots // _PART_SLOTS, _MOST_PARTS)
    if parts < 2 or events.keys.shape[1] < slots // _PART_SLOTS:
        return None
    shift = slots.bit_length() - parts.bit_length()
    part, offsets = np.empty(events.keys.shape[1], np.int32), np.zeros(parts + 1, np.int64)
    with np.errstate(over="ignore"):
        count = _find_parts(table, events, level, shift, part, offsets)
    order = np.empty(count, np.int64)
    _deal_to_parts(part, np.cumsum(offsets), order)
    return order


@jit
def _find_parts(table: int, events: EventKeys, level: Level, shift: int, part: I32, offsets: I64) -> int:
    """Write the part of the table that each event falls into (-1: none), and how many there are before each part.
    Returns how many events there are in all."""
    count = 0
    for row in range(len(part)):
        is_known = True
        for i in range(level.table_offset[table], level.table_offset[table + 1]):
            is_known &= events.valid[level.table_attribute[i], row] != 0
        part[row] = -1
        if is_known:
            part[row] = (_home(row, table, events, level) - level.slot_offset[table]) >> shift
            offsets[part[row] + 1] += 1
            count += 1
    return count


@jit
def _deal_to_parts(part: I32, begin: I64, order: I64) -> None:
    for row in range(len(part)):
        if part[row] >= 0:
            order[begin[part[row]]] = row
            begin[part[row]] += 1


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
    row: int, table: int, events: EventKeys, level: Level, alive: U8, rows: I64, places: I64, counts: I64, stack: I64
) -> int:
    """Write down the entries of a table that events fulfil, from event `row` on. Returns the event before which there
    must be more room; if none, how many events there are. counts[0] is how many pairs have been written."""
    touched = row
    attribute = level.table_range[table]
    while row < events.keys.shape[1]:
        if row == touched:
            touched = min(row + _AHEAD, events.keys.shape[1])
            counts[1] += _touch(row, touched, table, events, level)
        written = counts[0]
        slot = _slot_of(row, table, events, level)
        if slot >= 0 and (attribute < 0 or events.valid[attribute, row] != 0):
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
                    rows[written], places[written] = row, begin
                    written += 1
                begin += 1
        counts[0] = written
        row += 1
    return row
