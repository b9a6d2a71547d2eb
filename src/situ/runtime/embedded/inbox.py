"""Events that wait: for their turn in time, before an operator may read them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from situ.kernel.batch import Batch, concat, one_chunk

_TIME = "_inbox time"


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
        """What waits, for a snapshot."""
        joined = concat(self.waiting) if self.waiting else Batch(np.zeros(0, np.int64), {})
        return pa.table(joined.columns | {_TIME: pa.array(joined.times)})

    def restore(self, table: pa.Table) -> None:
        columns = {name: one_chunk(table.column(name)) for name in table.column_names}
        times = columns.pop(_TIME).to_numpy()
        self.waiting = [Batch(times, columns)] if len(times) else []


def latest(times: np.ndarray, so_far: int) -> np.ndarray:
    """For every row, the largest time of the rows before it."""
    return np.maximum.accumulate(np.concatenate([[so_far], times]))[:-1]
