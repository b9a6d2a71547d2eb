"""Consumers who say where they are: their location updates end interests and begin others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.time import END
from situ.flow.active import Active, in_order_of_keys
from situ.graph.query import Update
from situ.kernel.arrays import I64
from situ.kernel.state.groups import GroupIndex
from situ.mobility.interests import Interests, Updates


@dataclass(frozen=True, slots=True)
class Changes:
    """What location updates do to the interests of all consumers: some that were there end, some begin and end at
    once, and some begin."""

    ended: Active
    passing: Active
    begun: Active


class Consumers:
    """The last interest of every consumer who has been heard of. Only those whose interests may change are judged; the
    others cost a look-up."""

    def __init__(self, last: Active, next_key: int = 0) -> None:
        self.last = last
        self.next_key = next_key
        self._numbers = GroupIndex()  # of consumers

    def changes(
        self, updates: Updates, condition: Update, interests_of: Callable[[Updates], Interests]
    ) -> Changes | None:
        """Heed location updates, none of which is earlier than those of the steps before; None, if all interests go on.

        `interests_of` makes interests of updates, by the subscription's update `condition`. It is given the numbers of
        consumers instead of their names.
        """
        updates = updates.take(updates.have_a_place())
        last = self.last.interests
        numbers = self._numbers.numbers([updates.consumer], len(updates))
        numbers_of_last = self._numbers.numbers([last.consumer], len(last))
        row_of_last = _rows_by_number(numbers_of_last, len(self._numbers))
        row = row_of_last[numbers]
        if condition.when == "every":  # what comes sooner after the last interest begins none
            due = (row < 0) | (updates.times_us - np.append(last.start_us, 0)[row] >= int(condition.amount or 0))
            updates, numbers, row = updates.take(due), numbers[due], row[due]
        if not len(updates):
            return None
        concerned = np.unique(row[row >= 0])
        # An open interest stands for the update that began it: what follows depends on nothing else.
        before = self.last.take(concerned)
        together = before.interests.updates().and_(updates)
        numbers = np.concatenate([numbers_of_last[concerned], numbers])
        interests = interests_of(replace(together, consumer=pa.array(numbers)))
        return self._heeded(before, concerned, together.consumer, numbers, interests)

    def _heeded(self, before: Active, concerned: I64, names: pa.Array, numbers: I64, interests: Interests) -> Changes:
        """Interests that go on or end keep their keys, and new ones get theirs by consumer and start.

        `names` and `numbers` are those of consumers, first of the interests `before`, which are in the rows `concerned`
        of all last ones.
        """
        row_of_number = _rows_by_number(numbers, len(self._numbers))
        row = row_of_number[interests.consumer.to_numpy()]
        is_known = row < len(before)
        row_before = np.where(is_known, row, 0)
        has_begun = ~(is_known & (interests.number == 1))
        keys = np.zeros(len(interests), np.int64)
        count = interests.number
        if len(before):
            keys = before.keys[row_before]
            count = count + np.where(is_known, before.interests.number[row_before] - 1, 0)
        interests = replace(interests, consumer=names.take(pa.array(row)), number=count)
        keys[has_begun] = self._new_keys(interests.take(has_begun))
        has_ended = interests.end_us != END
        ended, passing, begun, lasting = (
            in_order_of_keys(interests.take(rows), keys[rows])
            for rows in (~has_begun & has_ended, has_begun & has_ended, has_begun & ~has_ended, ~has_ended)
        )
        others = np.ones(len(self.last), np.bool_)
        others[concerned] = False
        self.last = Active.concat(self.last.take(others), lasting)
        return Changes(ended, passing, begun)

    def _new_keys(self, new: Interests) -> I64:
        keys = np.empty(len(new), np.int64)
        names = pc.rank(new.consumer, tiebreaker="dense").to_numpy()
        keys[np.lexsort((new.start_us, names))] = self.next_key + np.arange(len(new))
        self.next_key += len(new)
        return keys


def _rows_by_number(numbers: I64, count: int) -> I64:
    """By number, the first row that has it; -1 if none has."""
    rows = np.full(count, -1, np.int64)
    rows[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return rows
