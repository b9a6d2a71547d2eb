"""Random queries and streams for tests that compare an engine with the oracle.

`random_scenario(seed)` and the strategy `scenarios()` give a Query and events for it, small enough for brute force:
`answered(scenario)`. Times have many ties, values and groups are few, some values are null. With `duplicates`, some
streams are `unique` and have rows that were delivered again. `pen` writes the rules: the one of deep_patterns.py nests.
`arrivals` and `pieces` give the ways in which the same events can reach an engine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hypothesis import strategies as st

from oracle import OracleResult, TooLarge, detect
from situ.core.types import INT
from situ.graph.expressions import (
    Aggregate,
    AggregateName,
    Attribute,
    Binary,
    Duration,
    EventTime,
    Expression,
    GroupKey,
    In,
    IsNull,
    Literal,
    Unary,
    WholeEvent,
)
from situ.graph.operators import OperatorGraph
from situ.graph.patterns import (
    Absence,
    And,
    Contiguity,
    EventTest,
    Follow,
    Loop,
    Or,
    Pattern,
    Selector,
    Seq,
    Step,
    first_steps,
    reads_each,
)
from situ.graph.query import (
    AfterMatch,
    Aggregation,
    Assignment,
    AttributeDeclaration,
    Case,
    Definition,
    From,
    Join,
    Pause,
    Query,
    Rule,
    Skip,
    Stream,
    Subscription,
    Window,
    Within,
)
from situ.lang.resolve import resolve

SECOND = 1_000_000
Choice = TypeVar("Choice")
Pick = Callable[[Sequence[Any]], Any]  # one of the choices: by Hypothesis or by a random generator
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A query that resolves, and the events of its streams, in no particular order."""

    query: Query
    events: Rows


def stream(name: str, watermark_s: int = 0) -> Stream:
    """`k` is for grouping, `v` for conditions, `n` is unique and makes the order of events strict."""
    attributes = tuple(AttributeDeclaration(attribute, INT) for attribute in ("k", "v", "n", "ts"))
    return Stream(name, attributes, time="ts", time_unit="s", watermark_us=watermark_s * SECOND)


def make_rows(pick: Pick, names: tuple[str, ...] = ("A", "B"), most: int = 10) -> Rows:
    size = pick([0, 1, 2, *range(3, most + 1), *[*range(6, most + 1)] * 2])
    events: Rows = {name: [] for name in names}
    numbers = list(range(size))
    while numbers:
        n = numbers.pop(pick(range(len(numbers))))
        k, v, ts = pick([0, 0, 0, 0, 1, None]), pick([0, 1, 1, 2, 2, 3, None]), pick(range(7))
        events[pick(names)].append({"k": k, "v": v, "n": n, "ts": ts})
    return events


@dataclass
class Pen:
    """Writes one rule. It remembers which aliases stand before the place where it writes."""

    pick: Pick
    types: tuple[str, ...]
    bounded: bool = False  # no loop without an upper bound, for few words
    single: list[str] = field(default_factory=list)
    repeating: list[str] = field(default_factory=list)
    written: int = 0

    def one_of(self, *choices: Choice) -> Choice:
        return self.pick(choices)  # type: ignore[no-any-return]

    def contiguity(self) -> Contiguity:
        return self.one_of(Contiguity.NEXT, Contiguity.NEXT, Contiguity.EACH, Contiguity.EACH, Contiguity.IMMEDIATELY)

    def chance(self, percent: int) -> bool:
        return bool(self.pick(range(100)) >= 100 - percent)  # shrinks to no

    # ---- conditions

    def test(self, own: str | None = None) -> EventTest:
        """An event test; `own` is the alias of the step, where aggregates may go over its own events so far."""
        event_type = self.one_of(*self.types)
        return EventTest(event_type, self.condition(own) if self.chance(40) else None)

    def condition(self, own: str | None) -> Expression:
        forms: list[Callable[[], Expression]] = [
            lambda: Binary(self.comparison(), Attribute(None, "v"), Literal(self.one_of(0, 1, 2, 3))),
            lambda: In(Attribute(None, "v"), (Literal(0), Literal(self.one_of(1, 2, 3))), negated=self.chance(50)),
            lambda: IsNull(Attribute(None, "v"), negated=self.chance(50)),
            lambda: Unary("not", Binary(self.comparison(), Attribute(None, "v"), Literal(1))),
            lambda: Binary(self.one_of("and", "or"), self.condition(own), self.condition(own)),
        ]
        if self.single:
            forms += [self.with_another_event] * 5
        if self.repeating or own:
            forms += [lambda: self.with_aggregate(own)] * 5
        return self.one_of(*forms)()

    def comparison(self) -> Any:
        return self.one_of("=", "!=", "<", "<=", ">", ">=")

    def with_another_event(self) -> Expression:
        other = self.one_of(*self.single)
        if self.chance(20):
            passed = Binary("-", EventTime("this"), EventTime(other))
            return Binary(self.comparison(), passed, Literal(Duration(self.one_of(0, 1, 2) * SECOND)))
        if self.chance(20):
            return Binary("=", Attribute(None, "k"), Attribute(other, "k"))
        shifted = Binary(self.one_of("+", "-", "%", "/"), Attribute(other, "v"), Literal(self.one_of(0, 1, 2)))
        return Binary(self.comparison(), Attribute(None, "v"), shifted if self.chance(40) else Attribute(other, "v"))

    def with_aggregate(self, own: str | None) -> Expression:
        alias = self.one_of(*self.repeating, *([own] * 2 if own else []))
        if self.chance(30):
            return Binary(self.comparison(), Aggregate("count", WholeEvent(alias)), Literal(self.one_of(0, 1, 2)))
        return Binary(self.comparison(), Attribute(None, "v"), self.aggregate(alias))

    def aggregate(self, alias: str) -> Expression:
        function: AggregateName = self.one_of("count", "sum", "avg", "min", "max", "first", "last")
        if function in ("first", "last"):
            return Aggregate(function, Attribute(alias, "v"), offset=self.one_of(0, 0, 1, 2))
        return Aggregate(function, Attribute(alias, "v"), distinct=function == "count" and self.chance(50))

    # ---- patterns

    def step(self, *, repeats: bool = False, selector: Selector | None = None) -> Step:
        self.written += 1
        alias = f"e{self.written}"
        step = Step(self.test(alias if repeats else None), alias, selector)
        (self.repeating if repeats else self.single).append(alias)
        return step

    def loop(self, *, repeats: bool, nested: bool) -> Loop:
        """Without an upper bound only where no loop is around it: the number of words must stay small."""
        low = self.one_of(0, 1, 1, 2)
        high = self.one_of(max(low, 1), low + 1, *([] if nested or self.bounded else [None, None]))
        again = repeats or high != 1
        grouped = self.chance(25) and not nested
        body: Any = self.group(repeats=again) if grouped else self.step(repeats=again)
        until = self.test() if self.chance(20) else None
        return Loop(body, low, high, self.contiguity(), greedy=self.chance(25), until=until)

    def group(self, *, repeats: bool) -> Seq | Or:
        if self.chance(25):
            return Or((self.step(repeats=repeats), self.step(repeats=repeats)))
        head = self.loop(repeats=repeats, nested=True) if self.chance(20) else self.step(repeats=repeats)
        parts: list[Follow | Absence] = [Follow(head)]
        if self.chance(25):
            parts.append(Absence(self.test(), immediately=self.chance(40)))
        tail = self.loop(repeats=repeats, nested=True) if self.chance(30) else self.step(repeats=repeats)
        return Seq((*parts, Follow(tail, self.contiguity())))

    def conjunction(self, *, selectors: bool) -> And:
        size = 3 if self.chance(25) else 2
        return And(tuple(self.step(selector=self.selector() if selectors else None) for _ in range(size)))

    def selector(self) -> Selector | None:
        return self.one_of(*Selector) if self.chance(25) else None

    def part(self) -> Pattern:
        if self.chance(40):
            return self.loop(repeats=False, nested=False)
        if self.chance(20):
            return self.group(repeats=False)
        if self.chance(20):
            return self.conjunction(selectors=False)
        return self.step()

    def sequence(self, *, plain: bool) -> Seq:
        """Two or three parts. `plain` leaves out selectors: they judge matches, timed-out output has partial ones."""
        parts: list[Follow | Absence] = []
        size = self.one_of(2, 2, 3)
        selected = None if plain else self.pick([None, *range(size)])
        for i in range(size):
            if parts and self.chance(15):
                parts.append(Absence(self.test(), immediately=self.chance(40)))
            contiguity = self.contiguity() if i else Contiguity.NEXT
            if i == selected:
                contiguity = Contiguity.NEXT if contiguity is Contiguity.IMMEDIATELY else contiguity
                parts.append(Follow(self.step(selector=self.selector()), contiguity))
            elif selected is not None:  # a selector compares matches that have another event
                parts.append(Follow(self.step(), contiguity))
            else:
                parts.append(Follow(self.part(), contiguity))
        return Seq(tuple(parts))

    def pattern(self, *, plain: bool) -> Pattern:
        if self.chance(12):
            return self.conjunction(selectors=not plain)
        if self.chance(10):
            return Or((self.part(), self.sequence(plain=plain)))
        if self.chance(15):
            return self.loop(repeats=False, nested=False)
        return self.sequence(plain=plain)

    # ---- rules

    def within(self) -> Within | None:
        anchors: list[From | str] = [*[From.FIRST] * 5, *[From.PREVIOUS] * 3, *self.single, *self.repeating]
        return Within(self.one_of(0, 1, 3, 5, 8, 8, 8) * SECOND, self.one_of(*anchors))

    def pattern_case(self, *, plain: bool) -> Case:
        detect = self.pattern(plain=plain)
        within = self.within() if plain or self.chance(80) else None
        if within is not None and isinstance(detect, Seq) and self.chance(15):
            detect = Seq((*detect.parts, Absence(self.test())))
        return Case(detect, within)

    def pattern_rule(self, assign: Callable[[Rule], tuple[Assignment, ...]]) -> Rule:
        plain = self.bounded = self.chance(15)
        rule = Rule((self.pattern_case(plain=plain),), group_by=self.grouping(), timed_out=plain)
        (case,) = rule.cases
        aliases = (*self.single, *self.repeating)
        if self.chance(20):
            case = replace(case, consuming=(self.one_of(*aliases),))
        elif self.chance(25):
            rule = replace(rule, after_match=self.after_match(aliases))
        elif not plain and _may_be_once(case.detect) and self.chance(15):
            case = replace(case, once=True)
        return replace(rule, cases=(replace(case, assign=assign(rule)),))

    def after_match(self, aliases: tuple[str, ...]) -> AfterMatch | Pause:
        if self.chance(25):
            return Pause(self.one_of(1, 1, 2, 3) * SECOND)
        skip = self.one_of(*(skip for skip in Skip if skip is not Skip.NONE))
        to_alias = skip in (Skip.TO_FIRST, Skip.TO_LAST)
        return AfterMatch(skip, self.one_of(*aliases) if to_alias else None)

    def grouping(self) -> tuple[str, ...]:
        return ("k",) if self.chance(40) else ()

    def window(self, *, time_only: bool = False) -> Window:
        every, over = self.one_of(1, 2, 3), self.one_of(1, 2, 3, 4)
        if not time_only and self.chance(40):
            return Window(every, over, "events")
        return Window(every * SECOND, over * SECOND)

    def input_step(self) -> Step:
        """An input of an aggregation: its condition reads its own event only."""
        self.written += 1
        test = EventTest(
            self.one_of(*self.types), Pen(self.pick, self.types).condition(None) if self.chance(50) else None
        )
        alias = f"e{self.written}"
        self.repeating.append(alias)
        return Step(test, alias, outer=self.chance(40))

    def aggregation_rule(self, assign: Callable[[Rule], tuple[Assignment, ...]]) -> Rule:
        steps = tuple(self.input_step() for _ in range(self.one_of(1, 2)))
        detect: Pattern = And(steps) if len(steps) > 1 else replace(steps[0], outer=False)
        rule = Rule((Case(detect),), Aggregation(self.window()), self.grouping())
        assigned = assign(rule)
        if self.chance(30):
            assigned = tuple(item for item in assigned if not is_list(item.expression))
            post = tuple(
                Assignment(item.name, Aggregate(self.one_of("max", "min", "last"), Attribute(None, item.name)))
                for item in assigned
            )
            rule = replace(rule, kind=Aggregation(self.window(), post))
        return replace(rule, cases=(Case(detect, assign=assigned),))

    def join_rule(self, assign: Callable[[Rule], tuple[Assignment, ...]]) -> Rule:
        detect = And((self.step(), self.step()))
        rule = Rule((Case(detect),), Join(self.window(time_only=True), ("k",)), self.grouping())
        return replace(rule, cases=(Case(detect, assign=assign(rule)),))

    def rule(self, assign: Callable[[Rule], tuple[Assignment, ...]]) -> Rule:
        if self.chance(12):
            return self.aggregation_rule(assign)
        if self.chance(8):
            return self.join_rule(assign)
        return self.pattern_rule(assign)

    def one_event(self, rule: Rule) -> tuple[Assignment, ...]:
        """`k` and `v`, so that other rules can read the complex events like those of a stream."""
        integers: list[Expression] = [Attribute(alias, "v") for alias in self.single]
        integers += [Aggregate(self.one_of("min", "max", "sum", "first"), Attribute(a, "v")) for a in self.repeating]
        keys: list[Expression] = [Attribute(alias, "k") for alias in self.single]
        keys += [Aggregate(self.one_of("min", "last"), Attribute(alias, "k")) for alias in self.repeating]
        key = GroupKey("k") if rule.group_by else self.one_of(*keys)
        return Assignment("k", key), Assignment("v", self.one_of(*integers))

    def all_events(self, rule: Rule) -> tuple[Assignment, ...]:
        """Something of every alias, so that different matches look different."""
        assign = [Assignment(f"{alias}_v", Attribute(alias, "v")) for alias in self.single]
        for alias in self.repeating:
            assign.append(Assignment(f"{alias}_count", Aggregate("count", WholeEvent(alias))))
            assign.append(Assignment(f"{alias}_x", self.aggregate(alias)))
            assign.append(Assignment(f"{alias}_list", Aggregate("collect", Attribute(alias, "v"))))
        if rule.group_by:
            assign.append(Assignment("k", GroupKey("k")))
        return tuple(assign)


def _may_be_once(pattern: Pattern) -> bool:
    """Whether `once` may stand before a pattern."""
    return not reads_each(pattern) and all(step.selector is None for step in first_steps(pattern))


def is_list(expression: Expression) -> bool:
    return isinstance(expression, Aggregate) and expression.function == "collect"


def make_query(pick: Pick, definitions: int = 2, watermark_s: int = 0, new_pen: type[Pen] = Pen) -> Query:
    """Streams A and B, up to `definitions` definitions, each of which may read those before it, and subscription M."""
    types: tuple[str, ...] = ("A", "A", "B")
    made: list[Definition] = []
    for i in range(pick([0, 0, 0, *range(definitions + 1)])):
        pen = new_pen(pick, types)
        rule = replace(pen.rule(pen.one_event), timed_out=False)
        made.append(Definition(f"D{i}", ("k", "v"), rule))
        types = (*types, f"D{i}", f"D{i}")
    pen = new_pen(pick, types)
    subscription = Subscription("M", pen.rule(pen.all_events))
    streams = stream("A", watermark_s), stream("B", watermark_s)
    if pick([False, False, True]):
        streams = tuple(replace(one, order="n", shared=True) for one in streams)
    return Query(streams, tuple(made), (subscription,))


def with_duplicates(pick: Pick, scenario: Scenario) -> Scenario:
    """The scenario with `unique` on some streams, some of whose rows are delivered again."""
    streams: list[Stream] = []
    events: Rows = {}
    for given in scenario.query.streams:
        rows = [*scenario.events[given.name]]
        unique = pick([None, "v", "k"] if given.shared else [None, "n", "n", "v", "k"])
        if unique is not None:
            for n in range(100, 100 + pick(range(5)) if rows else 100):
                rows.insert(pick(range(len(rows) + 1)), delivered_again(pick, pick(rows), unique, n))
        # The order of events stays strict: either n is another in every row, or rows that are equal in n are one event.
        order = given.order or (pick([None, "n"]) if unique in ("v", "k") else None)
        streams.append(replace(given, unique=unique, order=order))
        events[given.name] = rows
    return Scenario(replace(scenario.query, streams=tuple(streams)), events)


def delivered_again(pick: Pick, row: dict[str, Any], unique: str, n: int) -> dict[str, Any]:
    """A row of the same `unique` attribute (or null instead of n), mostly of the same time, often of other values."""
    again = {**row, "n": pick([row["n"]] * 5 + [None]) if unique == "n" else n}
    if pick([False, True]):
        others = {"k": pick([0, 0, 1, None]), "v": pick([0, 1, 2, 3, None])}
        again |= {name: value for name, value in others.items() if name != unique}
    return again | ({"ts": pick(range(7))} if pick(range(6)) == 5 else {})


def make_scenario(
    pick: Pick, definitions: int, most: int, watermark_s: int, duplicates: bool, pen: type[Pen]
) -> Scenario:
    scenario = Scenario(make_query(pick, definitions, watermark_s, pen), make_rows(pick, most=most))
    return with_duplicates(pick, scenario) if duplicates else scenario


def random_scenario(
    seed: int,
    definitions: int = 2,
    most: int = 10,
    watermark_s: int = 0,
    duplicates: bool = False,
    pen: type[Pen] = Pen,
) -> Scenario:
    """A scenario by a plain random generator: more varied than Hypothesis' examples, for runs over many seeds."""
    return make_scenario(random.Random(seed).choice, definitions, most, watermark_s, duplicates, pen)


@st.composite
def scenarios(
    draw: st.DrawFn,
    definitions: int = 2,
    most: int = 10,
    watermark_s: int = 0,
    duplicates: bool = False,
    pen: type[Pen] = Pen,
) -> Scenario:
    """The same as a strategy, which shrinks what fails."""
    pick: Pick = lambda choices: draw(st.sampled_from(choices))  # noqa: E731
    return make_scenario(pick, definitions, most, watermark_s, duplicates, pen)


def answered(scenario: Scenario) -> tuple[OperatorGraph, OracleResult] | None:
    """The operator graph and what the oracle says; None for the few scenarios with too many complex events."""
    graph = resolve(scenario.query)
    try:
        return graph, detect(graph, scenario.events, limit=12)
    except TooLarge:
        return None


@st.composite
def arrivals(draw: st.DrawFn, events: Rows, watermark_s: int = 0) -> list[tuple[str, dict[str, Any]]]:
    """The rows in an order of arrival in which none is late: each is delayed by at most the watermark."""
    delayed = [
        (row["ts"] + draw(st.integers(0, watermark_s)), draw(st.integers(0, 99)), name, row)
        for name, rows_of_stream in events.items()
        for row in rows_of_stream
    ]
    return [(name, row) for _, _, name, row in sorted(delayed, key=lambda item: item[:2])]


@st.composite
def pieces(draw: st.DrawFn, arrived: list[tuple[str, dict[str, Any]]]) -> list[Rows]:
    """Arrivals cut anywhere into pieces to feed, some of them empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(arrived)), max_size=4)))
    fed: list[Rows] = []
    for start, end in zip([0, *cuts], [*cuts, len(arrived)], strict=True):
        piece: Rows = {}
        for name, row in arrived[start:end]:
            piece.setdefault(name, []).append(row)
        fed.append(piece)
    return fed
