"""Selections of a pattern: which events the window holds that a first event opens (docs/language.md, "Selections").

Kept only on request: candidates must stay for as long as a selection that may hold them is open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.core.errors import QueryError
from situ.core.time import END
from situ.graph.query import From, Within
from situ.kernel.arrays import I64, U8
from situ.kernel.batch import as_timestamps, concat_arrays
from situ.kernel.matching.machine import jit
from situ.kernel.operator import Chosen, joined_origins
from situ.kernel.state.groups import GroupIndex
from situ.kernel.state.rule_groups import RuleGroupIndex


def chosen_numbers(
    chosen: Chosen | None, groups: GroupIndex | RuleGroupIndex, types: Sequence[pa.DataType]
) -> tuple[I64, I64]:
    """The numbers to process as arrays: those of group g stand from offset g to g + 1, sorted. No offsets: all."""
    if chosen is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    keys = list(chosen)
    group = groups.numbers(key_columns(keys, types), len(keys))
    owner = np.repeat(group, [len(chosen[key]) for key in keys])
    numbers = np.array([number for key in keys for number in chosen[key]], np.int64)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(groups)))]).astype(np.int64)
    return offsets, numbers[np.lexsort((numbers, owner))]


def key_columns(keys: Sequence[tuple[object, ...]], types: Sequence[pa.DataType]) -> list[pa.Array]:
    """Group keys that a user chose, in columns.

    >>> [column.to_pylist() for column in key_columns([(1, "a"), (None, "b")], [pa.int64(), pa.string()])]
    [[1, None], ['a', 'b']]
    """
    try:
        columns = list(zip(*keys, strict=True)) if keys else [()] * len(types)
        return [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError) as error:
        raise QueryError(
            f"the chosen selections have a group key that does not fit `group by`: {error}",
            remedy="A key is a tuple with a value for each attribute of `group by`, in its order and of its type.",
        ) from error


@dataclass(slots=True)
class SelectionLog:
    """Candidates by group and position, with the selection that each opened (-1: none), until selections close."""

    within: Within | None
    group: I64
    time: I64
    opened: I64
    reported: U8
    columns: dict[str, pa.Array]

    @classmethod
    def empty(cls, within: Within | None, columns: Mapping[str, pa.Array]) -> SelectionLog:
        none = np.zeros(0, np.int64)
        return cls(within, none, none, none, np.zeros(0, np.uint8), dict(columns))

    def add(self, group: I64, time: I64, opened: I64, columns: Mapping[str, pa.Array]) -> None:
        """New candidates, in order of group and position."""
        joined = np.concatenate([self.group, group])
        order = np.argsort(joined, kind="stable")
        indices = pa.array(order)
        self.columns = {
            name: pa.concat_arrays([self.columns[name], columns[name]]).take(indices) for name in self.columns
        }
        self.group = joined[order]
        self.time = np.concatenate([self.time, time])[order]
        self.opened = np.concatenate([self.opened, opened])[order]
        self.reported = np.concatenate([self.reported, np.zeros(len(group), np.uint8)])[order]

    def take(self, rows: I64) -> SelectionLog:
        columns = {name: column.take(pa.array(rows)) for name, column in self.columns.items()}
        return SelectionLog(
            self.within, self.group[rows], self.time[rows], self.opened[rows], self.reported[rows], columns
        )

    def joined(self, other: SelectionLog) -> SelectionLog:
        """The candidates of both, which are of different groups."""
        both = SelectionLog(
            self.within,
            np.concatenate([self.group, other.group]),
            np.concatenate([self.time, other.time]),
            np.concatenate([self.opened, other.opened]),
            np.concatenate([self.reported, other.reported]),
            {name: concat_arrays([self.columns[name], other.columns[name]]) for name in self.columns},
        )
        return both.take(np.argsort(both.group, kind="stable"))

    def close(self, before: int, origins: str, keys: Mapping[str, str]) -> pa.Table:
        """The selections that no further event can join: group key, number, time, and atomic events.

        `keys` names the columns of the group key.
        """
        length = self.within.micros if self.within is not None else END
        by_gaps = self.within is not None and self.within.anchor is From.PREVIOUS
        end, closes = np.zeros(len(self.group), np.int64), np.zeros(len(self.group), np.int64)
        selection_ends(self.group, self.time, length, by_gaps, end, closes)
        done = (self.opened >= 0) & (self.reported == 0) & ((closes < before) | (before == END))
        rows = np.flatnonzero(done)
        counts = end[rows] - rows
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        events = np.arange(offsets[-1]) + np.repeat(rows - offsets[:-1], counts)
        indices = pa.array(rows)
        table = pa.table(
            {name: self.columns[column].take(indices) for name, column in keys.items()}
            | {
                "_selection": pa.array(self.opened[rows]),
                "_time": as_timestamps(self.time[rows]),
                "_origins": joined_origins(self.columns[origins], events, offsets),
            }
        )
        self.reported[rows] = 1
        self._forget(end)
        return table

    def _forget(self, end: I64) -> None:
        """Keep what an open selection holds, or an event to come may be joined to."""
        open_ = np.flatnonzero((self.opened >= 0) & (self.reported == 0))
        needed = np.zeros(len(self.group) + 1, np.int64)
        np.add.at(needed, open_, 1)
        np.add.at(needed, end[open_], -1)
        kept = np.flatnonzero(np.cumsum(needed)[:-1] > 0)
        indices = pa.array(kept)
        self.columns = {name: column.take(indices) for name, column in self.columns.items()}
        self.group, self.time = self.group[kept], self.time[kept]
        self.opened, self.reported = self.opened[kept], self.reported[kept]


@jit
def selection_ends(group: I64, time: I64, length: int, by_gaps: bool, end: I64, closes: I64) -> None:
    """For the window that each row would open: the row after its last one, and the time at which it closes."""
    for row in range(len(group)):
        limit = END if length == END else time[row] + length
        at = row + 1
        while at < len(group) and group[at] == group[row] and time[at] <= limit:
            if by_gaps:
                limit = time[at] + length
            at += 1
        end[row], closes[row] = at, limit
