"""Consumers who say where they are: their location updates end interests and begin others. Some leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.time import END
from situ.flow.active import Active, in_order_of_keys
from situ.graph.query import Update
from situ.kernel.arrays import I64
from situ.kernel.state.groups import GroupIndex
from situ.mobility.interests import Interests, Updates

#: Makes interests of updates, by the subscription's update condition. Consumers are numbers to it.
InterestsOf = Callable[[Updates], Interests]


@dataclass(frozen=True, slots=True)
class Changes:
    """What location updates do to the interests of all consumers: some that were there end, some begin and end at
    once, and some begin."""

    ended: Active
    passing: Active
    begun: Active


@dataclass(frozen=True, slots=True)
class _Visits:
    """Consumers come and go: `of_update` is the visit that an update belongs to (-1: it begins no interest), and by
    visit, when the consumer was heard of last, and when he leaves (END: not yet)."""

    of_before: I64
    of_update: I64
    heard_us: I64
    leaves_us: I64


class Consumers:
    """The last interest of every consumer who has been heard of and has not left. Only those whose interests may change
    are judged; the others cost a look-up.

    `heard_us`: when each of them was heard of last. Who is not heard of for longer than `leave_after_us` leaves.
    """

    def __init__(
        self, last: Active, next_key: int = 0, heard_us: I64 | None = None, leave_after_us: int | None = None
    ) -> None:
        self.last = last
        self.next_key = next_key
        self.heard_us = last.interests.start_us if heard_us is None else heard_us
        self._leave_after_us = leave_after_us
        self._numbers = GroupIndex()  # of consumers

    def changes(
        self, updates: Updates, leaves: npt.NDArray[np.bool_], condition: Update, interests_of: InterestsOf, passed: int
    ) -> Changes | None:
        """Heed location updates, none of which is earlier than those of the steps before; None, if all interests go on.

        With those that `leaves` marks, consumers leave. Time has come to `passed`.
        """
        may_leave = bool(leaves.any()) or self._leave_after_us is not None
        heard = updates.consumer.is_valid().to_numpy(zero_copy_only=False) if may_leave else updates.have_a_place()
        updates, leaves = updates.take(heard), leaves[heard]
        last = self.last.interests
        numbers = self._numbers.numbers([updates.consumer], len(updates))
        numbers_of_last = self._numbers.numbers([last.consumer], len(last))
        row = _rows_by_number(numbers_of_last, len(self._numbers))[numbers]
        if not may_leave and condition.when == "every":  # what comes sooner after the last interest begins none
            due = (row < 0) | (updates.times_us - np.append(last.start_us, 0)[row] >= int(condition.amount or 0))
            updates, leaves, numbers, row = updates.take(due), leaves[due], numbers[due], row[due]
        concerned = np.zeros(len(last), np.bool_)
        concerned[row[row >= 0]] = True
        if self._leave_after_us is not None:
            concerned |= _leaving_us(self.heard_us, self._leave_after_us, passed) != END
        if not len(updates) and not concerned.any():
            return None
        rows = np.flatnonzero(concerned)
        before, heard_us = self.last.take(rows), self.heard_us[rows]
        visits = self._visits(numbers_of_last[rows], heard_us, numbers, updates, leaves, passed) if may_leave else None
        return self._heeded(before, rows, updates, numbers_of_last[rows], numbers, visits, interests_of)

    def _visits(
        self, before: I64, heard_us: I64, numbers: I64, updates: Updates, leaves: npt.NDArray[np.bool_], passed: int
    ) -> _Visits:
        """Divide what has been heard of consumers into visits: a leave ends one, and so does a silence that is too
        long. What is heard later begins another one."""
        number, time_us = np.concatenate([before, numbers]), np.concatenate([heard_us, updates.times_us])
        marks = np.concatenate([np.zeros(len(before), np.bool_), leaves])
        order = np.lexsort((marks, time_us, number))
        number, time_us, marks = number[order], time_us[order], marks[order]
        same = np.append(False, number[1:] == number[:-1])
        silent = np.zeros(len(order), np.bool_)
        if self._leave_after_us is not None:
            silent[1:] = time_us[1:] - time_us[:-1] > self._leave_after_us
        begins = ~same | silent | np.append(False, marks[:-1])
        visit = np.cumsum(begins) - 1
        last = np.append(np.flatnonzero(begins)[1:], len(order)) - 1 if len(order) else np.zeros(0, np.int64)
        is_over = np.append(same[1:], False)[last]  # something is heard of the consumer later
        heard = time_us[last]
        leaves_us = np.full(len(last), END)
        if self._leave_after_us is not None:
            leaves_us = _leaving_us(heard, self._leave_after_us, passed)
            leaves_us = np.where(is_over, heard + self._leave_after_us, leaves_us)
        leaves_us = np.where(marks[last], heard, leaves_us)
        # An update at the time at which its consumer leaves begins nothing.
        of_row = np.where(marks | (time_us == leaves_us[visit]) & marks[last][visit], -1, visit)
        of_row = np.where(order < len(before), visit, of_row)
        by_row = np.empty(len(order), np.int64)
        by_row[order] = of_row
        return _Visits(by_row[: len(before)], by_row[len(before) :], heard, leaves_us)

    def _heeded(
        self, before: Active, rows: I64, updates: Updates, numbers_before: I64, numbers: I64, visits: _Visits | None,
        interests_of: InterestsOf,
    ) -> Changes:  # fmt: skip
        """Interests that go on or end keep their keys, and new ones get theirs by consumer and start.

        An open interest stands for the update that began it: what follows depends on nothing else. Those `before` are
        in the given rows of all last ones.
        """
        codes = np.concatenate([numbers_before, numbers])
        together = before.interests.updates().and_(updates)
        if visits is not None:
            codes = np.concatenate([visits.of_before, visits.of_update])
            counts = together.have_a_place() & (codes >= 0)
            together, codes = together.take(counts), codes[counts]
        names = together.consumer
        interests = interests_of(replace(together, consumer=pa.array(codes)))
        row = _rows_by_number(codes, int(codes.max(initial=-1)) + 1)[interests.consumer.to_numpy()]
        if visits is not None:
            leaves_us = visits.leaves_us[interests.consumer.to_numpy()]
            interests = replace(interests, end_us=np.minimum(interests.end_us, leaves_us))
        is_known = row < len(before)
        row_before = np.where(is_known, row, 0)
        has_begun = ~(is_known & (interests.number == 1))
        keys = np.zeros(len(interests), np.int64)
        count = interests.number
        if len(before):
            keys = before.keys[row_before]
            count = count + np.where(is_known, before.interests.number[row_before] - 1, 0)
        heard_us = interests.start_us if visits is None else visits.heard_us[interests.consumer.to_numpy()]
        interests = replace(interests, consumer=names.take(pa.array(row)), number=count)
        keys[has_begun] = self._new_keys(interests.take(has_begun))
        has_ended = interests.end_us != END
        ended, passing, begun, lasting = (
            in_order_of_keys(interests.take(chosen), keys[chosen])
            for chosen in (~has_begun & has_ended, has_begun & has_ended, has_begun & ~has_ended, ~has_ended)
        )
        others = np.ones(len(self.last), np.bool_)
        others[rows] = False
        heard_us = np.concatenate([self.heard_us[others], heard_us[~has_ended]])
        self.heard_us = heard_us[np.argsort(np.concatenate([self.last.keys[others], keys[~has_ended]]))]
        self.last = Active.concat(self.last.take(others), lasting)
        return Changes(ended, passing, begun)

    def _new_keys(self, new: Interests) -> I64:
        keys = np.empty(len(new), np.int64)
        names = pc.rank(new.consumer, tiebreaker="dense").to_numpy()
        keys[np.lexsort((new.start_us, names))] = self.next_key + np.arange(len(new))
        self.next_key += len(new)
        return keys


def _leaving_us(heard_us: I64, after_us: int, passed: int) -> I64:
    """When those leave who were heard of last at these times; END: not before `passed`."""
    leaves_us: I64 = np.where(heard_us + after_us < passed, heard_us + after_us, END)
    return leaves_us


def _rows_by_number(numbers: I64, count: int) -> I64:
    """By number, the first row that has it; -1 if none has."""
    rows = np.full(count, -1, np.int64)
    rows[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return rows
