"""Progress against a queue that is gone through event by event."""

from __future__ import annotations

import numpy as np
import pytest

from situ.lab.mcep.prediction.progress import Progress


@pytest.mark.parametrize("seed", range(10))
def test_events_are_processed_one_after_the_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, 200, rng.integers(0, 40)))
    begin, latency = int(rng.integers(0, 150)), int(rng.integers(1, 9))
    progress = Progress.of(times, begin, latency)
    free, done = begin, []
    for time in times.tolist():
        free = max(free, time) + latency
        done.append(free)
    assert progress.done_us.tolist() == done
    for at in range(0, 260, 7):
        earlier = [d for t, d in zip(times, done, strict=True) if t < at]
        assert progress.done_before(at) == (earlier[-1] if earlier else begin)
        upto = [d for t, d in zip(times, done, strict=True) if t <= at]
        assert progress.known_at(np.array([at])).tolist() == [max(at, upto[-1] if upto else begin)]
        assert progress.count_done(at) == sum(d <= at for d in done)
