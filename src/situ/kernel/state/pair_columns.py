"""Columns of pairs of a rule and an event: those of the events, in which a value is looked up when it is read.

An event concerns many rules, and most pairs end in no match. So the columns of pairs are not written out: what is read
of them, for complex events and for the pairs that are kept, is taken from the columns of the events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.kernel.arrays import I64
from situ.kernel.batch import Batch, concat_arrays
from situ.kernel.program.shape import is_of_template


class PairColumns(Mapping[str, pa.Array]):
    """The columns of a store that has `kept` rows and then pairs. `attributes` has, by column, the attribute of events
    or the template's key that it is.

    >>> events = Batch(np.array([1, 2]), {"v": pa.array(["a", "b"])})
    >>> rows = np.array([1, 0, 1])
    >>> pairs = Batch(events.times[rows], {"_rule": pa.array([0, 0, 7])}, of=(events, rows))
    >>> columns = PairColumns({"E.v": "v", "group._rule": "_rule"}, pairs)
    >>> after_one = columns.after(1, {"E.v": pa.array(["z"]), "group._rule": pa.array([5])})
    >>> after_one.at("E.v", np.array([3, 0, 2])).to_pylist()
    ['b', 'z', 'a']
    """

    def __init__(
        self,
        attributes: Mapping[str, str],
        pairs: Batch,
        kept_rows: int = 0,
        kept: Mapping[str, pa.Array] | None = None,
    ) -> None:
        self._attributes, self._pairs, self._kept_rows, self._kept = attributes, pairs, kept_rows, kept or {}
        self._whole: dict[str, pa.Array] = {}
        self._of_events: dict[str, pa.Array] = {}

    def after(self, rows: int, kept: Mapping[str, pa.Array]) -> PairColumns:
        """The same after so many rows, which have these columns."""
        return PairColumns(self._attributes, self._pairs, rows, kept)

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)

    def __getitem__(self, name: str) -> pa.Array:
        """The whole column, written out."""
        if name not in self._whole:
            self._whole[name] = self._after_kept(name, self._pairs.column(self._attributes[name]))
        return self._whole[name]

    def at(self, name: str, rows: I64) -> pa.Array:
        """The values of some rows."""
        if is_of_template(self._attributes[name]):
            return self._at_pairs(name, rows)
        assert self._pairs.of is not None, "pairs know their events"
        events, event_of = self._pairs.of
        if name not in self._of_events:
            self._of_events[name] = self._after_kept(name, events.column(self._attributes[name]))
        if self._kept_rows == 0:
            return self._of_events[name].take(pa.array(event_of[rows]))
        places = event_of[np.maximum(rows - self._kept_rows, 0)] + self._kept_rows
        is_kept = np.flatnonzero(rows < self._kept_rows)
        places[is_kept] = rows[is_kept]
        return self._of_events[name].take(pa.array(places))

    def _at_pairs(self, name: str, rows: I64) -> pa.Array:
        """The values of a column that pairs have, and not events."""
        of_pairs = self._pairs.column(self._attributes[name])
        if self._kept_rows == 0:
            return of_pairs.take(pa.array(rows))
        is_kept = rows < self._kept_rows
        values = of_pairs.take(pa.array(np.maximum(rows - self._kept_rows, 0)))
        return pc.replace_with_mask(values, pa.array(is_kept), self._kept[name].take(pa.array(rows[is_kept])))

    def _after_kept(self, name: str, column: pa.Array) -> pa.Array:
        return concat_arrays([self._kept[name], column]) if self._kept_rows else column
