"""How late results are: from the moment at which the events that made them were there. Nothing is measured of single
events: sources remember when they first came to an event time."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from situ.core.time import BEGINNING

#: So many steps of a source are remembered, and so many results of a subscription.
_STEPS, RESULTS = 4_096, 64


@dataclass(frozen=True, slots=True)
class ResultSeen:
    """Results of a subscription up to an event time were there at a moment, in microseconds of this clock."""

    time_us: int
    at_us: int


class TimesReached:
    """When sources first came to which event times, by one clock."""

    def __init__(self) -> None:
        self._steps: defaultdict[tuple[str, str], deque[tuple[int, int]]] = defaultdict(lambda: deque(maxlen=_STEPS))

    def arrived(self, stream: str, source: str, latest_us: int, at_us: int) -> None:
        """A source has handed on rows, and has come to an event time with them.

        >>> reached = TimesReached()
        >>> for latest_us, at_us in ((10, 100), (10, 200), (15, 300)):
        ...     reached.arrived("A", "s", latest_us, at_us)
        >>> reached.at([9, 11, 16])
        {9: [100], 11: [300], 16: []}
        """
        steps = self._steps[stream, source]
        if latest_us > (steps[-1][0] if steps else BEGINNING):
            steps.append((latest_us, at_us))

    def at(self, times: Collection[int]) -> dict[int, list[int]]:
        """By event time, when each source had come to it first; those that have not are left out."""
        found: dict[int, list[int]] = {time_us: [] for time_us in times}
        for steps in self._steps.values():
            latest = [step[0] for step in steps]
            for time_us in found:
                place = bisect_left(latest, time_us)
                if place < len(latest) and (place or len(latest) < _STEPS):  # else it may have been reached before
                    found[time_us].append(steps[place][1])
        return found


class LatencyMonitor:
    """The latencies of the last results of subscriptions, where sources and results are in one process."""

    def __init__(self) -> None:
        self.reached = TimesReached()
        self.results: defaultdict[str, deque[ResultSeen]] = defaultdict(lambda: deque(maxlen=RESULTS))

    def latencies_us(self) -> dict[str, list[int]]:
        """By subscription, how late its last results were.

        >>> monitor = LatencyMonitor()
        >>> monitor.reached.arrived("A", "s", 10, 100)
        >>> monitor.results["Alarm"].append(ResultSeen(7, 350))
        >>> monitor.latencies_us()
        {'Alarm': [250]}
        """
        found = {}
        for subscription, results in self.results.items():
            reached = self.reached.at({result.time_us for result in results})
            found[subscription] = [late for r in results if (late := latency_us(r, reached[r.time_us])) is not None]
        return found


def latency_us(result: ResultSeen, reached_us: Iterable[int]) -> int | None:
    """How long after its last event a result was there; None where nobody knows when that came.

    `reached_us` is when sources had come to the time of the result, by one clock. The last of them before the result
    counts: what it had to wait for before that, no placement could have made sooner. A source that came to that time
    after the result cannot have been waited for.

    >>> latency_us(ResultSeen(7, 1_500), [900, 1_200, 2_000])
    300
    """
    before = [at_us for at_us in reached_us if at_us <= result.at_us]
    return result.at_us - max(before) if before else None
