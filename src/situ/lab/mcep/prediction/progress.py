"""When an operator graph has processed which event, if each takes a fixed time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.kernel.arrays import I64


@dataclass(frozen=True, slots=True)
class Progress:
    """A graph that begins at a time and takes events one after the other, by time: those from before at once, the
    others when they occur. `done_us`: when each has been processed."""

    times_us: I64
    begin_us: int
    done_us: I64

    @classmethod
    def of(cls, times_us: I64, begin_us: int, latency_us: int) -> Progress:
        """
        >>> Progress.of(np.array([1, 2, 30]), 20, 4).done_us.tolist()
        [24, 28, 34]
        """
        before = latency_us * np.arange(len(times_us))
        # done[k] = max(done[k - 1], arrives[k]) + latency, without a loop
        waited: I64 = np.maximum.accumulate(np.maximum(times_us, begin_us) - before)
        return cls(times_us, begin_us, waited + before + latency_us)

    def done_before(self, time_us: int) -> int:
        """When all events before a time have been processed.

        >>> Progress.of(np.array([1, 2, 30]), 20, 4).done_before(30)
        28
        """
        count = int(np.searchsorted(self.times_us, time_us, side="left"))
        return int(self.done_us[count - 1]) if count else self.begin_us

    def known_at(self, times_us: I64) -> I64:
        """When complex events of these times are known: all events up to then have been processed, and it is so late.

        >>> Progress.of(np.array([1, 2, 30]), 20, 4).known_at(np.array([0, 2, 29, 30])).tolist()
        [20, 28, 29, 34]
        """
        done = np.concatenate([[self.begin_us], self.done_us])
        return np.maximum(done[np.searchsorted(self.times_us, times_us, side="right")], times_us)

    def count_done(self, until_us: int) -> int:
        """How many events have been processed by a time."""
        return int(np.searchsorted(self.done_us, until_us, side="right"))
