"""Events that wait: for their turn in time, before an operator may read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from situ.graph.query import Stream
from situ.kernel.batch import EXTENT, ORIGINS, Batch, concat, one_chunk, without_duplicates
from situ.kernel.operator import ORIGIN_LIST, SLICE, Conditions, tie_attributes
from situ.kernel.state.checks import damaged, numbers, require_columns, require_event_times
from situ.kernel.state.groups import is_among
from situ.lang.unparse import unparse_expression

#: The column of the times of events that wait, in a snapshot.
INBOX_TIME = "_inbox time"
_TEST = "_inbox test "
#: Columns beside the attributes.
CARRIED = dict.fromkeys(EXTENT, pa.float64())
_NEVER_NULL: Mapping[str, pa.DataType] = {ORIGINS: ORIGIN_LIST, SLICE: pa.int64()}


class Inbox:
    """Batches of one event type, given out by time."""

    def __init__(self) -> None:
        self.waiting: list[Batch] = []

    def add(self, batch: Batch) -> None:
        if len(batch):
            self.waiting.append(batch)

    def before(self, time: int) -> Batch | None:
        """All events before `time`; the others stay."""
        if not self.waiting:
            return None
        ready: list[Batch] = []
        later: list[Batch] = []
        for batch in self.waiting:
            if batch.latest < time:
                ready.append(batch)
                continue
            early = batch.times < time
            if not early.any():
                later.append(batch)
            else:
                ready.append(batch.take(early))
                later.append(batch.take(~early))
        self.waiting = later
        return concat(ready) if ready else None

    def table(self) -> pa.Table:
        """What waits, for a snapshot; with what is known of tests, each under its own words."""
        joined = concat(self.waiting) if self.waiting else Batch(np.zeros(0, np.int64), {})
        test_columns = {_spelt(conditions): pa.array(mask) for conditions, mask in joined.masks.items()}
        return pa.table(joined.columns | test_columns | {INBOX_TIME: pa.array(joined.times)})

    def take_groups(self, names: Sequence[str], keys: Sequence[pa.Array]) -> Inbox:
        """Remove what waits of the groups whose keys, in columns of these names, are among `keys`; what it was."""
        taken, left = Inbox(), Inbox()
        for batch in self.waiting:
            mine = is_among([batch.column(name) for name in names], keys)
            taken.add(batch.take(mine))
            left.add(batch.take(~mine))
        self.waiting = left.waiting
        return taken

    def put(self, table: pa.Table, types: Mapping[str, pa.DataType], tests: Iterable[Conditions] = ()) -> None:
        """Add what waited elsewhere; `types` are those of the attributes. Of `tests`, those that were known need not be
        judged again."""
        columns = {name: one_chunk(table.column(name)) for name in table.column_names}
        times = numbers(columns.pop(INBOX_TIME), np.int64, "times of events")
        require_event_times(times)
        test_columns = {name: columns.pop(name) for name in table.column_names if name.startswith(_TEST)}
        present = {name: type_ for name, type_ in (CARRIED | dict(types)).items() if name in columns}
        require_columns(columns, present)
        require_columns(columns, {name: type_ for name, type_ in _NEVER_NULL.items() if name in columns}, whole=True)
        batch = Batch(times, columns, _lacking, is_whole=True)
        for conditions in tests:
            if (mask := test_columns.get(_spelt(conditions))) is not None:
                require_columns({"test": mask}, {"test": pa.bool_()}, whole=True)
                batch.masks[conditions] = mask.to_numpy(zero_copy_only=False)
        self.add(batch)


def distinct(batch: Batch, stream: Stream) -> tuple[Batch, int]:
    """The events of a stream that time has passed, each once, and how many copies there were: rows of one time that
    agree in the stream's `unique` attribute are one event. All rows of a time are in one batch.

    This is where `unique` is applied, whoever reads the stream.
    """
    if stream.unique is None:
        return batch, 0
    apart = (SLICE,) if SLICE in batch.columns else ()  # slices have copies of their own
    return without_duplicates(batch, stream.unique, tie_attributes(stream), apart)


def _lacking(names: Iterable[str]) -> Mapping[str, pa.Array]:
    raise damaged(f"it lacks {', '.join(names)} of events that wait")


def _spelt(conditions: Conditions) -> str:
    return _TEST + " and ".join(map(unparse_expression, conditions))


def latest(times: np.ndarray, so_far: int) -> np.ndarray:
    """For every row, the largest time of the rows before it."""
    return np.maximum.accumulate(np.concatenate([[so_far], times]))[:-1]
