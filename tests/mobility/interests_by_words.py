"""What a moving subscription means, by words and brute force. Shares data classes with situ, and no code that decides.

A consumer's location updates become interests; for each the operator graph starts afresh, and reads the events located
in it from its initialisation point to the start of the next. Delivered is what has a time from its start less the
lifetime to the start of the next, interest by interest, by time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from oracle import detect
from situ.graph.operators import OperatorGraph
from situ.graph.query import Subscription

Row = dict[str, Any]
Leaves = Callable[[Row], bool]
Delivered = tuple[Any, int, float, tuple[tuple[str, Any], ...]]

#: Of each query here: how far back from a complex event's time its atomic events may lie, in seconds.
FOREVER = math.inf


def deliveries(
    graph: OperatorGraph, events: dict[str, list[Row]], history_s: dict[str, float], leaves: Leaves = lambda row: False
) -> list[Delivered]:
    """(consumer, number of the interest, time, attributes), in order; times of streams are whole seconds, in `ts`."""
    (subscription,) = (s for s in graph.query.subscriptions if s.around is not None)
    found: list[Delivered] = []
    for consumer, number, interest, until in interests_of(subscription, events, max(history_s.values()), leaves):
        found += of_one_interest(graph, subscription, events, history_s, consumer, number, interest, until)
    return found


def interests_of(
    subscription: Subscription, events: dict[str, list[Row]], history_s: float, leaves: Leaves
) -> list[tuple[Any, int, Row, float]]:
    """Whose it is, its number, the update that begins it, and when it ends."""
    stream, key = subscription.consumer or ("", "")
    interests = []
    for consumer in {row[key]: None for row in events[stream] if row[key] is not None}:
        for updates, left in visits(subscription, [row for row in events[stream] if row[key] == consumer], leaves):
            rows = heeded(subscription, placed(updates), events, history_s)
            for number, row in enumerate(rows):
                until = rows[number + 1]["ts"] if number + 1 < len(rows) else left
                interests.append((consumer, number + 1, row, until))
    return interests


def visits(subscription: Subscription, updates: list[Row], leaves: Leaves) -> list[tuple[list[Row], float]]:
    """A consumer leaves with an update that says so, which takes the others of its time along, or so long after the
    last update; who is heard of later comes anew. The updates of each visit, and when it ends."""
    after = subscription.leave_after_us
    silence = math.inf if after is None else after / 1e6
    result: list[tuple[list[Row], float]] = []
    visit: list[Row] = []
    for time in sorted({row["ts"] for row in updates}):
        now = [row for row in updates if row["ts"] == time]
        if visit and time - visit[-1]["ts"] > silence:
            result.append((visit, visit[-1]["ts"] + silence))
            visit = []
        if any(map(leaves, now)):
            result.append((visit, time))
            visit = []
        else:
            visit = [*visit, *now]
    return [*result, (visit, visit[-1]["ts"] + silence if visit else FOREVER)]


def placed(updates: list[Row]) -> list[Row]:
    return [row for row in updates if all(v is not None and math.isfinite(v) for v in (row["x"], row["y"]))]


def heeded(subscription: Subscription, updates: list[Row], events: dict[str, list[Row]], history_s: float) -> list[Row]:
    """The updates that begin an interest. Of several at one time, the one with the largest x, then y; then the one that
    asks for most."""
    by_place = sorted(updates, key=lambda row: (row["x"], row["y"], *asked_for(subscription, row)))
    at: dict[int, Row] = {row["ts"]: row for row in by_place}
    taken: list[Row] = []
    for time in sorted(at):
        row = at[time]
        if taken:
            last = taken[-1]
            far = math.hypot(row["x"] - last["x"], row["y"] - last["y"])
            update = subscription.update
            if far == 0:
                continue
            if update is not None and update.when == "every" and time - last["ts"] < (update.amount or 0) / 1e6:
                continue
            if update is not None and update.when == "moved" and far < (update.amount or 0):
                continue
            if update is not None and update.when == "quality" and good(subscription, last, row, events, history_s):
                continue
        taken.append(row)
    return taken


def asked_for(subscription: Subscription, update: Row) -> tuple[float, float]:
    """The precision and recall that an interest asks for which begins with an update: what it does not say is 1."""
    quality = subscription.quality
    if quality is None:
        return 0.0, 0.0
    asked = [update[share] if isinstance(share, str) else share or 0.0 for share in (quality.precision, quality.recall)]
    precision, recall = (share if share is not None and 0 <= share <= 1 else 1.0 for share in asked)
    return precision, recall


def good(
    subscription: Subscription, processed: Row, asked: Row, events: dict[str, list[Row]], history_s: float
) -> bool:
    """Whether what is processed is still good enough for what is asked, on recent events: those that the query looks
    back on, and those of the last ten seconds. Only events count that a step takes; here, all that are given do."""
    recent = max((subscription.lifetime_us or 0) / 1e6 + history_s, 10)
    some = [row for rows in events.values() for row in rows if asked["ts"] - recent <= row["ts"] <= asked["ts"]]
    wanted = [row for row in some if located(subscription, asked, row)]
    read = [row for row in some if located(subscription, processed, row)]
    both = len([row for row in wanted if located(subscription, processed, row)])
    quality = subscription.quality
    assert quality is not None
    precise = not read or both / len(read) >= (quality.precision or 0)
    return precise and (not wanted or both / len(wanted) >= (quality.recall or 0))


def of_one_interest(
    graph: OperatorGraph,
    subscription: Subscription,
    events: dict[str, list[Row]],
    history_s: dict[str, float],
    consumer: Any,
    number: int,
    interest: Row,
    until: float,
) -> list[Delivered]:
    lifetime = (subscription.lifetime_us or 0) / 1e6
    read = {
        stream: [
            row
            for row in rows
            if interest["ts"] - lifetime - history_s.get(stream, 0) <= row["ts"] <= until
            and located(subscription, interest, row)
        ]
        for stream, rows in events.items()
    }
    matches = detect(graph, read).matches[subscription.name]
    delivered = [
        (consumer, number, match.time / 1e6, tuple(sorted(match.attributes.items())))
        for match in matches
        if interest["ts"] - lifetime <= match.time / 1e6 <= until
    ]
    return sorted(delivered, key=lambda found: found[2])


def located(subscription: Subscription, interest: Row, row: Row) -> bool:
    around = subscription.around
    assert around is not None
    if row["x"] is None or row["y"] is None:
        return False
    dx, dy = abs(row["x"] - interest["x"]), abs(row["y"] - interest["y"])
    match around.shape:
        case "circle":
            return dx**2 + dy**2 <= around.sizes_m[0] ** 2
        case "square":
            return max(dx, dy) <= around.sizes_m[0] / 2
        case "rectangle":
            return dx <= around.sizes_m[0] / 2 and dy <= around.sizes_m[1] / 2
