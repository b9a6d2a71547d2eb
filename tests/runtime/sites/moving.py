"""Rules for transitions: for each row of the table of `situ.graph.cuts`, some that it is about; and queries of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from situ.graph.query import Query
from situ.lang.parse import parse

STREAMS = ("A", "B")

#: What the new instance needs of the time before the cut: nothing.
FROM_THE_CUT = {
    "plain": "detect {0} as a then {1} as b within {w} s",
    "each": "detect {0} as a then each {1} as b within {w} s",
    "immediately": "detect {0} as a then immediately {1} as b within {w} s",
    "not": "detect {0} as a then not {1}(v > 1) then {1} as b within {w} s",
    "not at the end": "detect {0} as a then {0} as b then not {1} within {w} s",
    "loop": "detect {0}{{1,3}} as a then {1} as b within {w} s assign k = b.k, v = sum(a.v), n = last(a.n) {group}",
    "previous": "detect {0} as a then {1} as b within {w} s from previous",
    "or": "detect ({0} as a or {1} as c) then {1} as b within {w} s assign k = b.k, v = b.v, n = b.n {group}",
    "and": "detect {0} as a and {1} as b within {w} s",
    "timed out": "detect {0} as a then {1}(v > 1) as b within {w} s {assign} {group} report timed out",
    "silence": "detect {0} as a then no {1} for {w} s as b",
    "to next": "detect {0} as a then each {1} as b within {w} s {assign} {group} after match skip to next",
    "last": "detect {0} as a then last {1} as b within {w} s",
    "last first": "detect last {0} as a then {1} as b within {w} s",
    "later first": "detect {0} as a then first {1} as b within {w} s",
    "consuming the first": "detect A as a then each B as b within {w} s {assign} consuming a {group}",
    "aggr": "aggr every 2 s over {w2} s detect {0} assign k = min({0}.k), v = sum({0}.v), n = max({0}.n) {group}",
    "join": "join every 2 s over {w2} s on k detect {0} as a and {1} as b",
}
#: A window more.
FROM_A_WINDOW_BEFORE = {
    "first": "detect first {0} as a then {1} as b within {w} s",
    "and timed out": "detect {0} as a and {1}(v > 1) as b within {w} s {assign} {group} report timed out",
}
#: All of it: the state has to be moved.
NEVER = {
    "past last": "detect {0} as a then each {1}(v > 1) as b within {w} s {assign} {group} after match skip past last",
    "to first": "detect {0} as a then {1}(v > 1) as b then {0} as c within {w} s {assign} {group} "
    "after match skip to first b",
    "to last": "detect {0} as a then each {1} as b within {w} s {assign} {group} after match skip to last b",
    "pause": "detect {0} as a then {1} as b within {w} s {assign} {group} after match pause 3 s",
    "consuming": "detect {0} as a then each {1} as b then each {0}(v > a.v) as c within {w} s {assign} "
    "consuming b {group}",
    "windows of events": "aggr every 2 events over 3 events detect {0} assign k = min({0}.k), v = sum({0}.v), "
    "n = max({0}.n) {group}",
    "silence first": "detect no {0} for 2 s as q then {1} as b within {w} s assign k = b.k, v = b.v, n = b.n {group}",
}
#: Of some of these, events that show it with a cut at 2 s: values by type and time.
SHOWN_BY = {
    "to first": {"A": {1: 0, 2: 0, 4: 0}, "B": {3: 2}},
    "consuming": {"A": {1: 0, 2: 2, 4: 1, 5: 3}, "B": {3: 2}},
}
CUT = FROM_THE_CUT | FROM_A_WINDOW_BEFORE
TABLE = CUT | NEVER


def rule_text(rng: random.Random, row: str, types: tuple[str, str]) -> str:
    """A rule of a row of the table over two types, with columns k, v and n."""
    within, text = rng.choice([2, 3, 4]), TABLE[row]
    has_b = row not in ("not at the end", "silence")
    assign = f"assign k = a.k, v = a.v, n = {'b' if has_b else 'a'}.n"
    group = rng.choice(["group by k", "", ""])
    if "{assign}" not in text and " assign " not in text:
        text += " {assign} {group}"
    return text.format(*types, w=within, w2=2 * within, assign=assign, group=group)


def moving_query(rng: random.Random, rows: Sequence[str] = (*CUT, *NEVER, *NEVER)) -> Query:
    """One to four operators over the streams and each other, of some rows of the table."""
    types, definitions, count = list(STREAMS), [], rng.choice([1, 2, 2, 3, 4])
    for number in range(count):
        is_last = number == count - 1
        inputs = rng.choice(types[-2:]), rng.choice(types)
        row = rng.choice(rows)
        if inputs[0] == inputs[1] and row in ("join", "and", "and timed out"):
            row = "plain"
        head = f"subscribe S{number}" if is_last or rng.random() < 0.3 else f"define D{number}(k, v, n)"
        definitions.append(f"{head} {rule_text(rng, row, inputs)}")
        if head.startswith("define"):
            types.append(f"D{number}")
    declared = "\n".join(f"stream {name}(k int, v int, n int, ts int) time ts in s" for name in STREAMS)
    return parse(declared + "\n" + "\n".join(definitions))


def moving_rows(rng: random.Random) -> dict[str, list[dict[str, int | None]]]:
    """Events of both streams, over a longer time than windows last."""
    rows: dict[str, list[dict[str, int | None]]] = {name: [] for name in STREAMS}
    for n in range(rng.choice([8, 12, 16, 24])):
        row = {"k": rng.choice([0, 0, 0, 1]), "v": rng.choice([0, 1, 2, 2, 3]), "n": n, "ts": rng.randrange(16)}
        rows[rng.choice(STREAMS)].append(row)
    return rows
