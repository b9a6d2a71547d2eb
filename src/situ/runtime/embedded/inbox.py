"""Events that wait: for their turn in time, before an operator may read them."""

from __future__ import annotations

import numpy as np

from situ.kernel.batch import Batch, concat


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
            early = batch.times < time
            if early.all():
                ready.append(batch)
            elif not early.any():
                later.append(batch)
            else:
                ready.append(batch.take(early))
                later.append(batch.take(~early))
        self.waiting = later
        return concat(ready) if ready else None


def latest(times: np.ndarray, so_far: int) -> np.ndarray:
    """For every row, the largest time of the rows before it."""
    return np.maximum.accumulate(np.concatenate([[so_far], times]))[:-1]
