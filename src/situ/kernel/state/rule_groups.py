"""Groups of rules that run as one: a rule and the values of its own `group by` as numbers, and back.

Rules share keys, so the values of a key have one number for all rules, and a group is a pair of two numbers. Every rule
has a table of its own from the one to the other: its events come one after the other, and a small table stays in the
processor's cache meanwhile. Constants go with the rule, and need not be looked at to tell groups apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from situ.kernel.arrays import I32, I64
from situ.kernel.batch import Batch
from situ.kernel.matching.machine import jit
from situ.kernel.state.groups import GroupIndex

_MIX, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
#: The columns of tables: where the slots of a rule begin, how many it has (a power of two), and how many are in use.
_BEGIN, _SIZE, _USED = range(3)
#: Counters: one int64 array of these.
_NUMBERS, _FREE, _SLOTS = range(3)
_SMALLEST = 4
_NO_NUMBERS = np.zeros(0, np.int64)
#: So many keys may have a number beside four for each group.
_MANY_KEYS = 4096


class RuleGroupIndex:
    """Numbers groups like `GroupIndex`, which it stands for where the first key is the rule, then come `constants`.

    >>> groups = RuleGroupIndex(constants=1)
    >>> rule, constant, key = pa.array([0, 0, 7, 7]), pa.array([5, 5, 6, 6]), pa.array(["a", "b", "a", "a"])
    >>> groups.numbers([rule, constant, key], 4).tolist()
    [0, 1, 2, 2]
    >>> [c.to_pylist() for c in groups.keys(np.array([2, 1]), [pa.int64(), pa.int64(), pa.string()])]
    [[7, 0], [6, 5], ['a', 'b']]
    """

    def __init__(self, constants: int) -> None:
        self._own = GroupIndex()
        self._constants = constants
        self._values: dict[int, tuple[Any, ...]] = {}
        self._tables = np.zeros((8, 3), np.int64)
        #: Of a slot: the number of a key plus one (0: nothing), and that of the group.
        self._slots = np.zeros((64, 2), np.int32)
        #: By number: the rule (-1: no group has the number), and the number of the key.
        self._groups = np.full((32, 2), -1, np.int64)
        self._free = np.zeros(0, np.int64)
        self._counters = np.zeros(3, np.int64)

    def __len__(self) -> int:
        """All numbers that are or have been in use."""
        return int(self._counters[_NUMBERS])

    @property
    def used(self) -> npt.NDArray[np.bool_]:
        """By number, whether a group has it."""
        return self._groups[: len(self), 0] >= 0

    def numbers(self, columns: Sequence[pa.Array], length: int) -> I64:
        """The group of every row; new ones are added."""
        if length == 0:
            return np.zeros(0, np.int64)
        rules = columns[0].to_numpy(zero_copy_only=False)
        self._remember(rules, columns[1 : 1 + self._constants])
        return self._numbers(rules, self._own.numbers(columns[1 + self._constants :], length), _NO_NUMBERS)

    def numbers_of_pairs(self, pairs: Batch, group_by: Sequence[str], before: I64) -> I64:
        """The same for pairs of a rule and an event, after numbers that stand before them: where there are more pairs
        than events, keys of events are looked at, and not those of pairs."""
        template, own = group_by[: 1 + self._constants], group_by[1 + self._constants :]
        assert pairs.of is not None, "pairs know their events"
        events, event_of = pairs.of
        if not own or len(pairs) < len(events):
            return np.concatenate([before, self.numbers([pairs.column(name) for name in group_by], len(pairs))])
        if len(self._own) > _MANY_KEYS + 4 * len(self):
            self._forget_keys()
        rules, *constants = (pairs.column(name) for name in template)
        of_rules = rules.to_numpy(zero_copy_only=False)
        self._remember(of_rules, constants)
        keys = self._own.numbers([events.column(name) for name in own], len(events))
        return self._numbers(of_rules, keys[event_of], before)

    def _forget_keys(self) -> None:
        """Leave out keys that no group has: of events that concern no rule."""
        unused = np.ones(len(self._own), np.bool_)
        unused[self._groups[np.flatnonzero(self.used), 1]] = False
        self._own.release(unused)

    def _numbers(self, rules: I64, keys: I64, before: I64) -> I64:
        """The group of every pair of a rule and the number of a key, after numbers that stand before them."""
        length = len(rules)
        all_numbers = np.empty(len(before) + length, np.int64)
        all_numbers[: len(before)] = before
        numbers = all_numbers[len(before) :]
        self._make_tables(int(rules.max()))
        at = 0
        with np.errstate(over="ignore"):
            while True:
                at = _number(
                    at, rules, keys, numbers, self._tables, self._slots, self._groups, self._free, self._counters
                )
                if at == length:
                    return all_numbers
                self._grow(int(rules[at]))

    def _remember(self, rules: I64, constants: Sequence[pa.Array]) -> None:
        """The constants of rules that have no group yet."""
        heads = np.append(0, np.flatnonzero(rules[1:] != rules[:-1]) + 1)
        for row, rule in zip(heads.tolist(), rules[heads].tolist(), strict=True):
            if rule not in self._values:
                self._values[rule] = tuple(column[row].as_py() for column in constants)

    def _make_tables(self, rule: int) -> None:
        if rule >= len(self._tables):
            more = np.zeros((rule + 1, 3), np.int64)
            self._tables = np.concatenate([self._tables, more])

    def _grow(self, rule: int) -> None:
        """Room for one more group at least, in the table of a rule."""
        if self._counters[_SLOTS] + 2 * max(self._tables[rule, _SIZE], _SMALLEST) > len(self._slots):
            more = len(self._slots) + 2 * int(self._tables[rule, _SIZE])
            self._slots = np.concatenate([self._slots, np.zeros((more, 2), np.int32)])
        if len(self) == len(self._groups):
            self._groups = np.concatenate([self._groups, np.full_like(self._groups, -1)])

    def keys(self, numbers: I64, types: Sequence[pa.DataType]) -> list[pa.Array]:
        """The keys of some groups, in columns of these types."""
        rules, keys = self._groups[numbers].T
        distinct, place = np.unique(rules, return_inverse=True)
        values = [self._values[rule] for rule in distinct.tolist()]
        constants = [
            pa.array([of_rule[n] for of_rule in values], types[1 + n]).take(pa.array(place))
            for n in range(self._constants)
        ]
        return [pa.array(rules, types[0]), *constants, *self._own.keys(keys, types[1 + self._constants :])]

    def release(self, idle: npt.NDArray[np.bool_]) -> None:
        """Forget some groups, marked by number; their numbers are given to new ones."""
        kept = np.flatnonzero(self.used & ~idle)
        rules = self._groups[kept, 0]
        self._groups[:, 0] = -1
        self._groups[kept, 0] = rules
        self._free = np.flatnonzero(~self.used)
        self._tables[:] = 0
        self._counters[_FREE], self._counters[_SLOTS] = len(self._free), 0
        self._slots = np.zeros((64, 2), np.int32)
        self._forget_keys()
        at = 0
        with np.errstate(over="ignore"):
            while (at := _refill(at, kept, self._groups, self._tables, self._slots, self._counters)) < len(kept):
                self._grow(int(rules[at]))
        here = {*np.unique(rules).tolist()}
        self._values = {rule: values for rule, values in self._values.items() if rule in here}


@jit
def _slot_of(key: int, begin: int, size: int, slots: I32) -> int:
    """The slot of a key in a table, or the empty one in which it belongs."""
    mask = np.uint64(size - 1)
    at = np.int64(((np.uint64(key) * _MIX) >> _SHIFT) & mask)
    while slots[begin + at, 0] != 0 and slots[begin + at, 0] != key + 1:
        at = np.int64(np.uint64(at + 1) & mask)
    return int(begin + at)


@jit
def _room_for_one(rule: int, tables: I64, slots: I32, counters: I64) -> bool:
    """Let the table of a rule be half empty with one more key: in a larger place, if there is one."""
    begin, size, used = tables[rule, _BEGIN], tables[rule, _SIZE], tables[rule, _USED]
    if 2 * (used + 1) <= size:
        return True
    larger, first = max(2 * size, _SMALLEST), counters[_SLOTS]
    if first + larger > len(slots):
        return False
    counters[_SLOTS] += larger
    for at in range(begin, begin + size):
        if slots[at, 0] != 0:
            to = _slot_of(slots[at, 0] - 1, first, larger, slots)
            slots[to, 0], slots[to, 1] = slots[at, 0], slots[at, 1]
    tables[rule, _BEGIN], tables[rule, _SIZE] = first, larger
    return True


@jit
def _number(row: int, rules: I64, keys: I64, numbers: I64, tables: I64, slots: I32, groups: I64, free: I64,
            counters: I64) -> int:  # fmt: skip
    """Number the rows from `row` on. Returns the row before which there must be more room; if none, their count."""
    while row < len(numbers):
        rule, key = rules[row], keys[row]
        found = -1
        if tables[rule, _SIZE] > 0:
            found = _slot_of(key, tables[rule, _BEGIN], tables[rule, _SIZE], slots)
        if found >= 0 and slots[found, 0] != 0:
            numbers[row] = slots[found, 1]
            row += 1
            continue
        if counters[_FREE] == 0 and counters[_NUMBERS] == len(groups):
            return row
        if not _room_for_one(rule, tables, slots, counters):
            return row
        if counters[_FREE] > 0:
            counters[_FREE] -= 1
            number = free[counters[_FREE]]
        else:
            number = counters[_NUMBERS]
            counters[_NUMBERS] += 1
        groups[number, 0], groups[number, 1] = rule, key
        found = _slot_of(key, tables[rule, _BEGIN], tables[rule, _SIZE], slots)
        slots[found, 0], slots[found, 1] = key + 1, number
        tables[rule, _USED] += 1
        numbers[row] = number
        row += 1
    return row


@jit
def _refill(at: int, kept: I64, groups: I64, tables: I64, slots: I32, counters: I64) -> int:
    """Write groups into tables, from place `at` on. Returns the place before which there must be more room."""
    while at < len(kept):
        number = kept[at]
        rule, key = groups[number, 0], groups[number, 1]
        if not _room_for_one(rule, tables, slots, counters):
            return at
        found = _slot_of(key, tables[rule, _BEGIN], tables[rule, _SIZE], slots)
        slots[found, 0], slots[found, 1] = key + 1, number
        tables[rule, _USED] += 1
        at += 1
    return at
