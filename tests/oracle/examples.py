"""A short way to write examples: a pattern, events such as `a1 b2 b3:5`, and the matches as `a1 b2`."""

from __future__ import annotations

import re
from typing import Any

from oracle import Match, OracleResult, detect
from situ.lang.parse import parse
from situ.lang.resolve import resolve

NAMES = "ABCSTUX"
CLAUSES = {"U": " unique v"} | dict.fromkeys("ST", " order v shared")
STREAMS = "\n".join(f"stream {name}(v int, k int, ts int) time ts in s{CLAUSES.get(name, '')}" for name in NAMES)


def read(events: str) -> dict[str, list[dict[str, Any]]]:
    """`b3:5@1` is an event of B at 3 s with v = 5 and k = 1; both are 0 unless said, `_` is null."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in NAMES}
    for event in events.split():
        name, ts, v, k = re.fullmatch(r"([abcstux])(\d+)(?::(-?\d+|_))?(?:@(\d+|_))?", event).groups()  # type: ignore[union-attr]
        values = [None if value == "_" else int(value or 0) for value in (v, k)]
        rows[name.upper()].append({"v": values[0], "k": values[1], "ts": int(ts)})
    return rows


def run(query: str, events: str) -> OracleResult:
    """The results of a query text over the streams: U is `unique v`, S and T are `order v shared`."""
    return detect(resolve(parse(STREAMS + "\n" + query)), read(events))


def label(events: str, match: Match) -> str:
    """The events of a match as they were written, in order of time and type."""
    tokens = {name: [event for event in events.split() if event[0] == name.lower()] for name in NAMES}
    named = [tokens[event.type][index] for _, event in match.slots for _, index in event.atomic]
    return " ".join(named)


def matches(pattern: str, events: str) -> list[str]:
    """What `subscribe M detect <pattern>` finds, sorted."""
    return sorted(label(events, match) for match in run(f"subscribe M detect {pattern}", events).matches["M"])


def times(pattern: str, events: str) -> list[tuple[str, float]]:
    """The same with the time of each complex event, in seconds."""
    found = run(f"subscribe M detect {pattern}", events).matches["M"]
    return sorted((label(events, match), match.time / 1e6) for match in found)


def timed_out(pattern: str, events: str) -> list[tuple[str, float]]:
    found = run(f"subscribe M detect {pattern} report timed out", events).timed_out["M"]
    return sorted((label(events, match), match.time / 1e6) for match in found)


def values(query: str, events: str, name: str = "M") -> list[tuple[Any, ...]]:
    """The time in seconds and the attributes of each complex event, in their order."""
    return [(match.time / 1e6, *match.attributes.values()) for match in run(query, events).matches[name]]
