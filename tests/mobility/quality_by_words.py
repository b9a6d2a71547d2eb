"""What `quality` means, by words and brute force: who is served by whose region, and how well, span by span.

Written from docs/language.md ("quality: interests that share"). It shares data classes with situ, and no code that
decides. Times are whole seconds, in `ts`; nothing rests, so there are few interests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mobility.interests_by_words import FOREVER, Leaves, Row, asked_for, interests_of, located
from oracle import Match, detect
from situ.graph.operators import OperatorGraph
from situ.graph.query import Subscription

#: (consumer, interest, time, attributes, precision, recall, whose region, of which interest of theirs)
Shared = tuple[Any, int, float, tuple[tuple[str, Any], ...], float, float, Any, int]
Judge = Callable[[str, Row], bool]


@dataclass(frozen=True)
class SpanWords:
    """What a span is, in seconds: windows of `over` that end at multiples of `every`; or [t, t + `within`] from each
    event on that `opens` says of. `taken`: which events some step takes by itself."""

    within: float = 0
    every: float | None = None
    over: float = 0
    opens: Judge = lambda stream, row: True
    taken: Judge = lambda stream, row: True

    @property
    def back(self) -> float:
        """How far before its time a complex event may have begun."""
        return self.within if self.every is None else self.over


@dataclass
class Wish:
    """An interest."""

    consumer: Any
    number: int
    row: Row
    start: float
    end: float
    precision: float
    recall: float
    services: list[Service] = field(default_factory=list)


@dataclass
class Region:
    """It is processed from `since` on, for those whom it serves."""

    owner: Wish
    since: float
    serves: int = 0


@dataclass
class Service:
    """A region serves the spans of an interest that begin from `since` on and before `until`."""

    region: Region
    since: float
    until: float = math.inf


@dataclass
class Judging:
    """Decides, moment by moment."""

    subscription: Subscription
    words: SpanWords
    events: dict[str, list[Row]]
    wishes: list[Wish]
    regions: list[Region] = field(default_factory=list)
    judged: list[tuple[Wish, Region, float, float, float]] = field(default_factory=list)

    def decide(self) -> None:
        for now in self._moments():
            for wish in self._by_consumer([w for w in self.wishes if w.services and w.start < now <= w.end]):
                region = wish.services[-1].region
                if region.owner is wish:
                    continue
                for begin in self._spans(wish, region, wish.services[-1].since):
                    if self._closes(wish, begin) == now:
                        precision, recall = self.quality(wish, region, begin)
                        if precision < wish.precision or recall < wish.recall:
                            wish.services[-1].until = begin
                            self._leave(region)
                            self._serve(wish, begin, now)
                            break
            for wish in self._by_consumer([wish for wish in self.wishes if wish.start == now]):
                self._serve(wish, wish.start - self.lifetime - self.words.back, now)
            for wish in self._by_consumer([wish for wish in self.wishes if wish.end == now]):
                self._leave(wish.services[-1].region)

    @property
    def lifetime(self) -> float:
        return (self.subscription.lifetime_us or 0) / 1e6

    def _moments(self) -> list[float]:
        times = {row["ts"] for rows in self.events.values() for row in rows}
        every = {wish.start for wish in self.wishes} | {wish.end for wish in self.wishes if wish.end < FOREVER}
        if self.words.every is None:
            return sorted(every | {time + self.words.within for time in times})
        last = max(times, default=0) + self.words.over
        windows, end = set(), min(times, default=0) // self.words.every * self.words.every
        while end <= last + self.words.every:
            windows.add(end - 1e-6)
            end += self.words.every
        return sorted(every | windows)

    def _by_consumer(self, wishes: list[Wish]) -> list[Wish]:
        return sorted(wishes, key=lambda wish: wish.consumer)

    def _inside(self, place: Wish, since: float, until: float) -> set[tuple[str, int]]:
        return {
            (stream, number)
            for stream, rows in self.events.items()
            for number, row in enumerate(rows)
            if since <= row["ts"] <= until
            and self.words.taken(stream, row)
            and located(self.subscription, place.row, row)
        }

    def _closes(self, wish: Wish, begin: float) -> float:
        if self.words.every is not None:
            return begin + self.words.over - 1e-6
        return min(begin + self.words.within, wish.end)

    def _spans(self, wish: Wish, region: Region, since: float) -> list[float]:
        """The begins of the spans of an interest, from a time on, in order."""
        if self.words.every is None:
            both = self._inside(wish, since, wish.end) | self._inside(region.owner, since, wish.end)
            opening = [self.events[s][n] for s, n in both if self.words.opens(s, self.events[s][n])]
            return sorted({row["ts"] for row in opening})
        times = [row["ts"] for rows in self.events.values() for row in rows]
        end, ends = min(times, default=0) // self.words.every * self.words.every, []
        while end <= max(times, default=0) + self.words.over + self.words.every:
            ends.append(end)
            end += self.words.every
        return [end - self.words.over for end in ends if end - self.words.over >= since and end <= wish.end]

    def quality(self, wish: Wish, region: Region, begin: float) -> tuple[float, float]:
        until = self._closes(wish, begin)
        asked, processed = self._inside(wish, begin, until), self._inside(region.owner, begin, until)
        return _share(asked & processed, processed), _share(asked & processed, asked)

    def _serve(self, wish: Wish, since: float, now: float) -> None:
        """Find a region for an interest: one of the eight nearest, or its own."""
        near = [region for region in self.regions if region.serves and self._may_serve(region, wish, since)]
        near.sort(key=lambda region: (_apart(region.owner.row, wish.row), self.regions.index(region)))
        for region in near[:8]:
            asked, processed = self._inside(wish, since, now), self._inside(region.owner, since, now)
            together = _share(asked & processed, processed), _share(asked & processed, asked)
            closed = [begin for begin in self._spans(wish, region, since) if self._closes(wish, begin) <= now]
            qualities = [together, *(self.quality(wish, region, begin) for begin in closed)]
            if all(precision >= wish.precision and recall >= wish.recall for precision, recall in qualities):
                break
        else:
            reads_from = since if wish.end == now else min(since, now - self.lifetime - self.words.back)
            region = Region(wish, reads_from)
            self.regions.append(region)
        region.serves += 1
        wish.services.append(Service(region, since))

    def _leave(self, region: Region) -> None:
        region.serves -= 1

    def _may_serve(self, region: Region, wish: Wish, since: float) -> bool:
        around = self.subscription.around
        assert around is not None
        east, north = (abs(region.owner.row[name] - wish.row[name]) for name in ("x", "y"))
        if around.shape == "circle":
            part = min(math.hypot(east, north) / (2 * around.sizes_m[0]), 1)
            area = 2 / math.pi * (math.acos(part) - part * math.sqrt(1 - part * part))
        else:
            area = max(1 - east / around.sizes_m[0], 0) * max(1 - north / around.sizes_m[-1], 0)
        tile = 4 * max(around.sizes_m) * (2 if around.shape == "circle" else 1)
        tiles = [tuple(place.row[name] // tile for name in ("x", "y")) for place in (region.owner, wish)]
        return region.since <= since and tiles[0] == tiles[1] and area >= 0.6 * max(wish.precision, wish.recall)


def _share(part: set[tuple[str, int]], whole: set[tuple[str, int]]) -> float:
    return len(part) / len(whole) if whole else 1.0


def _apart(one: Row, other: Row) -> float:
    return math.hypot(one["x"] - other["x"], one["y"] - other["y"])


def wishes_of(subscription: Subscription, events: dict[str, list[Row]], history_s: float, leaves: Leaves) -> list[Wish]:
    return [
        Wish(consumer, number, row, row["ts"], end, *asked_for(subscription, row))
        for consumer, number, row, end in interests_of(subscription, events, history_s, leaves)
    ]


def shared_deliveries(
    graph: OperatorGraph, events: dict[str, list[Row]], words: SpanWords, leaves: Leaves = lambda row: False
) -> tuple[list[Shared], Judging]:
    """What every consumer gets, by consumer, interest and time; and how that was decided."""
    (subscription,) = (s for s in graph.query.subscriptions if s.around is not None)
    judging = Judging(subscription, words, events, wishes_of(subscription, events, words.back, leaves))
    judging.decide()
    found = [_found(graph, subscription, region, events, words) for region in judging.regions]
    delivered: list[Shared] = []
    for wish in judging.wishes:
        for service in wish.services:
            region = service.region
            for match, time, begin in found[judging.regions.index(region)]:
                if not (wish.start - judging.lifetime <= time <= wish.end and service.since <= begin < service.until):
                    continue
                figures = (1.0, 1.0) if region.owner is wish else judging.quality(wish, region, begin)
                attributes = tuple(sorted(match.attributes.items()))
                found_in = region.owner.consumer, region.owner.number
                delivered.append((wish.consumer, wish.number, time, attributes, *figures, *found_in))
    return sorted(delivered, key=repr), judging


def _found(
    graph: OperatorGraph, subscription: Subscription, region: Region, events: dict[str, list[Row]], words: SpanWords
) -> list[tuple[Match, float, float]]:
    """What is found in a region, with the time of each match and the begin of its span. No match depends on what comes
    after it, so it does not matter when the region is closed."""
    read = {
        stream: [row for row in rows if region.since <= row["ts"] and located(subscription, region.owner.row, row)]
        for stream, rows in events.items()
    }
    matches = []
    for match in detect(graph, read).matches[subscription.name]:
        begin = match.time / 1e6 - words.over
        if words.every is None:
            begin = min(read[stream][number]["ts"] for stream, number in match.atomic)
        matches.append((match, match.time / 1e6, begin))
    return matches
