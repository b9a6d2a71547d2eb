"""Where the time of a run goes: seconds by hop.

A hop is a part of the way from rows to complex events: `scan`, `tests`, `packing`, `sorting`, `kernel` and so on. Who
wants to know makes a `Stopwatch` and lets it run; code on the way says where it is (`with hop("sorting"):`), which
costs next to nothing while nobody wants to know. Time within an inner hop does not count for the outer one.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")

#: What is at no named hop.
REST = "the rest"

_of_thread = threading.local()


class Stopwatch:
    """Seconds by hop, of the thread in which it runs.

    >>> watch = Stopwatch()
    >>> with watch.running(), hop("sorting"):
    ...     _ = sorted([3, 1, 2])
    >>> sorted(watch.seconds)
    ['sorting', 'the rest']
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._hop, self._since = REST, 0.0

    @contextmanager
    def running(self, at: str = REST) -> Iterator[None]:
        """Counts while it lasts."""
        before = getattr(_of_thread, "watch", None)
        _of_thread.watch, self._hop, self._since = self, at, perf_counter()
        try:
            yield
        finally:
            self.move_to(REST)
            _of_thread.watch = before

    def move_to(self, name: str) -> str:
        """From now on the time counts for another hop; the one before."""
        now, before = perf_counter(), self._hop
        self.seconds[before] += now - self._since
        self._hop, self._since = name, now
        return before

    def around(self, given: Iterator[T], taking: str) -> Iterator[T]:
        """The same items; the time until each is there counts as `taking`."""
        while True:
            before = self.move_to(taking)
            try:
                item = next(given, None)
            finally:
                self.move_to(before)
            if item is None:
                return
            yield item

    def through(self, made: Iterator[T], handing_on: str) -> Iterator[T]:
        """The same items, made while the watch runs; the time until somebody asks for the next one counts as
        `handing_on`."""
        while True:
            with self.running():
                item = next(made, None)
            if item is None:
                return
            begin = perf_counter()
            yield item
            self.seconds[handing_on] += perf_counter() - begin


class hop:
    """`with hop("sorting"):` what the thread does counts for that hop, if a stopwatch runs."""

    __slots__ = ("_before", "_name", "_watch")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._watch: Stopwatch | None = getattr(_of_thread, "watch", None)
        if self._watch is not None:
            self._before = self._watch.move_to(self._name)

    def __exit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.move_to(self._before)


def in_order(seconds: Mapping[str, float]) -> list[tuple[str, str, float]]:
    """Of seconds by `place: hop`: place, hop and seconds, place by place, what took longest first and the rest last.

    >>> in_order({"stage 1: the rest": 3.0, "stage 1: kernel": 1.0, "stage 1: sorting": 2.0})
    [('stage 1', 'sorting', 2.0), ('stage 1', 'kernel', 1.0), ('stage 1', 'the rest', 3.0)]
    """
    rows = []
    for name, taken in seconds.items():
        place, _, at = name.partition(": ")
        rows.append((place, at, taken))
    return sorted(rows, key=lambda row: (row[0], row[1] == REST, -row[2]))
