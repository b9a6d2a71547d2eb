"""FlinkCEP's own test cases as situ queries (flink_cep.jsonl, Apache-2.0, from Flink's NFA tests).

Every case has one stream `E(i int, ...)`. Flink's conditions are given by what they say of each event, so they
become `i in (...)`. Flink's windows are exclusive, situ's are inclusive.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from situ.core.types import DOUBLE, INT, STRING
from situ.graph.expressions import Attribute, In, Literal
from situ.graph.patterns import Absence, Contiguity, EventTest, Follow, Loop, Pattern, Seq, Step
from situ.graph.query import (
    AfterMatch,
    Assignment,
    AttributeDeclaration,
    Case,
    From,
    Query,
    Rule,
    Skip,
    Stream,
    Subscription,
    Within,
)

CONTIGUITY = {
    "STRICT": Contiguity.IMMEDIATELY,
    "SKIP_TILL_NEXT": Contiguity.NEXT,
    "SKIP_TILL_ANY": Contiguity.EACH,
}
SKIP = {
    "NoSkipStrategy": Skip.NONE,
    "SkipToNextStrategy": Skip.TO_NEXT,
    "SkipPastLastStrategy": Skip.PAST_LAST,
    "SkipToFirstStrategy": Skip.TO_FIRST,
    "SkipToLastStrategy": Skip.TO_LAST,
}
E_STREAM = Stream(
    "E",
    tuple(
        AttributeDeclaration(name, type_)
        for name, type_ in [("i", INT), ("name", STRING), ("price", DOUBLE), ("id", INT), ("ts", INT)]
    ),
    time="ts",
    time_unit="ms",
    order="i",
)

E_NAMES = [attribute.name for attribute in E_STREAM.attributes]


@dataclass(frozen=True, slots=True)
class FlinkCase:
    """`query` has one subscription M; `events` are those of stream E; `expected` are matches as event indices."""

    name: str
    query: Query
    events: list[dict[str, Any]]
    expected: list[list[int]]

    def by_values(self, matches: list[list[int]]) -> Counter[tuple[tuple[Any, ...], ...]]:
        """Matches as multisets of the events' values: some cases hold equal events."""
        values = [(e["name"], e["price"], e["id"]) for e in self.events]
        return Counter(tuple(sorted(values[i] for i in match)) for match in matches)


def load() -> list[FlinkCase]:
    path = Path(__file__).parent / "flink_cep.jsonl"
    return [to_case(json.loads(line)) for line in path.read_text().splitlines()]


def to_case(record: dict[str, Any]) -> FlinkCase:
    within = to_within(record["pattern"])
    events = [event | {"ts": event["ts"] if within else event["i"]} for event in record["events"]]
    detect = to_sequence(record["pattern"])
    rule = Rule(
        cases=(Case(detect, within, (Assignment("matched", Literal(True)),)),),
        after_match=to_after_match(record["skip"]),
    )
    query = Query(streams=(E_STREAM,), subscriptions=(Subscription("M", rule),))
    name = record["test"].replace("ITCase.", ".") + (f"-{record['seq']}" if record["seq"] else "")
    return FlinkCase(name, query, [{k: e[k] for k in E_NAMES} for e in events], record["expected"])


def to_within(steps: list[dict[str, Any]]) -> Within | None:
    for step in steps:
        if "within_first_and_last_ms" in step:
            return Within((step["within_first_and_last_ms"] - 1) * 1000)
        if "within_previous_and_current_ms" in step:
            return Within((step["within_previous_and_current_ms"] - 1) * 1000, From.PREVIOUS)
    return None


def to_after_match(text: str) -> AfterMatch:
    strategy, alias = re.fullmatch(r"(\w+)\{(?:patternName='(.*)')?\}", text).groups()  # type: ignore[union-attr]
    return AfterMatch(SKIP[strategy], None if alias is None else to_alias(alias))


def to_alias(name: str) -> str:
    return re.sub(r"\W", "_", name)


def to_test(where: list[int] | None, alias: str) -> EventTest:
    if where is None:
        return EventTest("E")
    indices = tuple(Literal(i) for i, holds in enumerate(where) if holds) or (Literal(-1),)
    return EventTest("E", In(Attribute(alias, "i"), indices))


def to_sequence(steps: list[dict[str, Any]]) -> Pattern:
    """A pattern of one step is that step; the contiguity of the first part says nothing."""
    parts: list[Follow | Absence] = []
    for step in steps:
        if step["contiguity"].startswith("NOT_"):
            parts.append(Absence(to_test(step["where"], "this"), immediately=step["contiguity"] == "NOT_NEXT"))
        else:
            contiguity = CONTIGUITY[step["contiguity"]] if parts else Contiguity.NEXT
            parts.append(Follow(to_part(step), contiguity))
    return parts[0].pattern if len(parts) == 1 and isinstance(parts[0], Follow) else Seq(tuple(parts))


def to_part(step: dict[str, Any]) -> Pattern:
    alias = to_alias(step["name"])
    body = to_sequence(step["group"]) if "group" in step else Step(to_test(step["where"], alias), alias)
    until = to_test(step["until"], "this") if step["until"] is not None else None
    props = step["props"]
    options: dict[str, Any] = {
        "inner": CONTIGUITY[step["inner"]],
        "greedy": "GREEDY" in props,
        "until": until,
    }
    low, high = step.get("times", (1, 1))
    if "LOOPING" in props:
        high = None
    optional = "OPTIONAL" in props
    if (low, high) == (1, 1) and not optional:
        return body
    if optional and low <= 1:
        return loop(body, 0, high, **options)
    repeated = loop(body, low, high, **options)
    return loop(repeated, 0, 1) if optional else repeated


def loop(body: Pattern, low: int, high: int | None, **options: Any) -> Loop:
    """A loop in a loop is a group of its own."""
    if isinstance(body, Loop):
        body = Seq((Follow(body),))
    return Loop(body, low, high, **options)  # type: ignore[arg-type]
