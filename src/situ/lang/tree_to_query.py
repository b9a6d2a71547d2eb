"""Statements: from the grammar's tree to frozen nodes."""

from __future__ import annotations

import decimal
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, cast

from lark import Token, v_args
from lark.tree import Meta

from situ.core.errors import Place, QuerySyntaxError
from situ.core.types import Type
from situ.graph.expressions import Expression
from situ.graph.patterns import Pattern
from situ.graph.query import (
    AfterMatch,
    Aggregation,
    Around,
    Assignment,
    AttributeDeclaration,
    Case,
    Definition,
    Demand,
    From,
    Join,
    Pause,
    Quality,
    Query,
    Rule,
    Skip,
    Stream,
    Subscription,
    Update,
    Window,
    Within,
)
from situ.lang.tree_to_expression import MAX_INT
from situ.lang.tree_to_pattern import TreeToPattern

RULE_CLAUSES = frozenset({"post", "group_by", "after_match", "timed_out"})
BYTES = {"b": 1, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of a statement: the field that it sets, and how the text calls it."""

    field: str
    value: Any
    words: str
    place: Place


@dataclass(frozen=True, slots=True)
class Body:
    """What follows the head of a definition or a subscription."""

    rule: Rule
    subscription_clauses: tuple[Clause, ...]


def fields_of(clauses: Iterable[Clause]) -> dict[str, Any]:
    """The clauses as keyword arguments; each may stand once, except `demand`."""
    fields: dict[str, Any] = {}
    for clause in clauses:
        if clause.field == "demands":
            fields["demands"] = fields.get("demands", ()) + clause.value
            continue
        if clause.field in fields:
            raise QuerySyntaxError(f"'{clause.words}' stands twice", place=clause.place, remedy="Keep one of them.")
        fields[clause.field] = clause.value
    return fields


def _unit(quantity: Token) -> str:
    """`km` of `1.5 km`, `kb` of `10 KB`; empty for a mere number."""
    letters = re.search(r"[^\W\d]+$", quantity)
    return letters.group().lower() if letters else ""


@v_args(inline=True, meta=True)
class TreeToQuery(TreeToPattern):
    def start(self, meta: Meta, *statements: Stream | Definition | Subscription) -> Query:
        return Query(
            tuple(s for s in statements if isinstance(s, Stream)),
            tuple(s for s in statements if isinstance(s, Definition)),
            tuple(s for s in statements if isinstance(s, Subscription)),
        )

    def names(self, meta: Meta, *names: Token) -> tuple[str, ...]:
        return tuple(map(str, names))

    def _clause(self, meta: Meta, field: str, value: object, words: str = "") -> Clause:
        return Clause(field, value, words or field.replace("_", " "), self._place(meta))

    # ---- streams

    def stream(self, meta: Meta, name: Token, *parts: Any) -> Stream:
        attributes = tuple(part for part in parts if isinstance(part, AttributeDeclaration))
        time, unit, *clauses = parts[len(attributes) :]
        time_unit = cast(Literal["s", "ms", "us", "ns"], unit.lower()) if unit else None
        fields = fields_of(clauses)
        if "location" in fields:
            *location, degrees = fields["location"]
            fields |= {"location": tuple(location), "degrees": degrees}
        if "order" in fields:
            fields["order"], fields["shared"] = fields["order"]
        return Stream(str(name), attributes, str(time), time_unit, **fields, place=self._place(meta))

    def declaration(self, meta: Meta, name: Token, type_: Type, source: tuple[str, ...] | None) -> AttributeDeclaration:
        return AttributeDeclaration(str(name), type_, source or ())

    def source(self, meta: Meta, *parts: Token) -> tuple[str, ...]:
        return tuple(map(str, parts))

    def order(self, meta: Meta, name: Token, shared: Token | None) -> Clause:
        return self._clause(meta, "order", (str(name), shared is not None))

    def at(self, meta: Meta, x: Token, y: Token, degrees: Token | None) -> Clause:
        return self._clause(meta, "location", (str(x), str(y), degrees is not None), "at")

    def key(self, meta: Meta, name: Token) -> Clause:
        return self._clause(meta, "key", str(name))

    def unique(self, meta: Meta, name: Token) -> Clause:
        return self._clause(meta, "unique", str(name))

    def watermark(self, meta: Meta, duration: Token) -> Clause:
        return self._clause(meta, "watermark_us", self._micros(duration), "watermark")

    def idle_after(self, meta: Meta, duration: Token) -> Clause:
        return self._clause(meta, "idle_after_us", self._micros(duration), "idle after")

    def ahead(self, meta: Meta, duration: Token) -> Clause:
        return self._clause(meta, "ahead_us", self._micros(duration), "ahead")

    # ---- definitions and subscriptions

    def definition(self, meta: Meta, name: Token, attributes: tuple[str, ...] | None, body: Body) -> Definition:
        for clause in body.subscription_clauses:
            cause = f"'{clause.words}' belongs to a subscription, and {name} is a definition"
            raise QuerySyntaxError(cause, place=clause.place, remedy=f"Write it where somebody subscribes to {name}.")
        return Definition(str(name), attributes or (), body.rule, place=self._place(meta))

    def subscription(
        self, meta: Meta, name: Token, consumer: Token | None, consumer_key: Token | None, body: Body
    ) -> Subscription:
        pair = (str(consumer), str(consumer_key)) if consumer is not None else None
        fields = fields_of(body.subscription_clauses)
        return Subscription(str(name), body.rule, pair, **fields, place=self._place(meta))

    def edgecep_subscription(
        self, meta: Meta, sequence: Token, subscriber: Token, actor: Token, body: Body
    ) -> Subscription:
        number = self._whole(sequence)
        return Subscription(
            f"{subscriber}_{number}",
            body.rule,
            **fields_of(body.subscription_clauses),
            sequence=number,
            subscriber=str(subscriber),
            actor=str(actor),
            place=self._place(meta),
        )

    def rule(self, meta: Meta, kind: Aggregation | Join | None, pre: Token | None, *parts: Case | Clause) -> Body:
        cases = tuple(part for part in parts if isinstance(part, Case))
        clauses = [part for part in parts if isinstance(part, Clause)]
        self._check_numbers(cases)
        fields = fields_of(clause for clause in clauses if clause.field in RULE_CLAUSES)
        if isinstance(kind, Aggregation):
            kind = Aggregation(kind.window, fields.pop("post", ()))
        elif pre is not None:
            raise self._error(pre, "'< pre >' belongs to an aggregation", "Write 'aggr every T' before it.")
        elif "post" in fields:
            place = next(clause.place for clause in clauses if clause.field == "post")
            remedy = "Write 'aggr every T' before detect, or put the condition in the parentheses of an event type."
            raise QuerySyntaxError("'where' belongs to an aggregation", place=place, remedy=remedy)
        return Body(Rule(cases, kind, **fields), tuple(c for c in clauses if c.field not in RULE_CLAUSES))

    def _check_numbers(self, cases: tuple[Case, ...]) -> None:
        for index, case in enumerate(cases):
            if len(cases) > 1 and case.number is None:
                remedy = "Write 'case 0:' before the first detect, 'case 1:' before the second, and so on."
                raise QuerySyntaxError("one of several cases has no number", place=case.place, remedy=remedy)
            if case.number in [earlier.number for earlier in cases[:index]]:
                cause = f"case {case.number} stands twice"
                raise QuerySyntaxError(cause, place=case.place, remedy="Give each case its own number.")

    def aggregation(self, meta: Meta, window: Window) -> Aggregation:
        return Aggregation(window)

    def join(self, meta: Meta, window: Window, on: tuple[str, ...]) -> Join:
        return Join(window, on)

    def time_window(self, meta: Meta, every: Token, over: Token | None) -> Window:
        window = Window(self._micros(every), self._micros(over or every))
        if not window.every or not window.over:
            raise self._error(meta, "a window of no length holds nothing", "Write a duration above zero.")
        return window

    def event_window(self, meta: Meta, every: Token, over: Token | None) -> Window:
        return Window(self._whole(every, at_least=1), self._whole(over or every, at_least=1), "events")

    def case(
        self,
        meta: Meta,
        number: Token | None,
        once: Token | None,
        detect: Pattern,
        within: Within | None,
        assign: tuple[Assignment, ...] | None,
        consuming: tuple[str, ...] | None,
    ) -> Case:
        case_number = None if number is None else self._whole(number)
        return Case(
            detect, within, assign or (), consuming or (), case_number, once is not None, place=self._place(meta)
        )

    def within(self, meta: Meta, duration: Token, anchor: Token | None) -> Within:
        micros, place = self._micros(duration), self._place(meta)
        if anchor is None:
            return Within(micros, place=place)
        return Within(micros, From.PREVIOUS if anchor.type == "PREVIOUS" else str(anchor), place=place)

    def assignments(self, meta: Meta, *assignments: Assignment) -> tuple[Assignment, ...]:
        return assignments

    def assignment(self, meta: Meta, name: Token, expression: Expression) -> Assignment:
        return Assignment(str(name), expression, place=self._place(meta))

    def post(self, meta: Meta, marker: Token | None, assignments: tuple[Assignment, ...]) -> Clause:
        return self._clause(meta, "post", assignments, "where")

    def group_by(self, meta: Meta, names: tuple[str, ...]) -> Clause:
        return self._clause(meta, "group_by", names)

    def after_match(self, meta: Meta, skip: Token, alias: Token | None = None) -> Clause:
        kinds = {"NEXT": Skip.TO_NEXT, "PAST": Skip.PAST_LAST, "FIRST": Skip.TO_FIRST, "LAST": Skip.TO_LAST}
        after = AfterMatch(kinds[skip.type], None if alias is None else str(alias))
        return self._clause(meta, "after_match", after)

    def pause(self, meta: Meta, duration: Token) -> Clause:
        return self._clause(meta, "after_match", Pause(self._micros(duration)), "after match")

    def timed_out(self, meta: Meta) -> Clause:
        return self._clause(meta, "timed_out", True, "report timed out")

    # ---- what only a subscription has

    def around(self, meta: Meta, focal: Token, shape: Token, *sizes: Token) -> Clause:
        kind = cast(Literal["square", "rectangle", "circle"], shape.type.lower())
        # `rectangle 2 x 3 km`: a size without a unit has that of the last one.
        in_km = _unit(sizes[-1]) == "km"
        metres = tuple(self._metres(size, _unit(size) == "km" if _unit(size) else in_km) for size in sizes)
        return self._clause(meta, "around", Around(str(focal), kind, metres))

    def _metres(self, token: Token, in_km: bool) -> float:
        number = token[: len(token) - len(_unit(token))]
        return self._float(Token.new_borrow_pos("FLOAT", number, token)) * (1000 if in_km else 1)

    def lifetime(self, meta: Meta, duration: Token) -> Clause:
        return self._clause(meta, "lifetime_us", self._micros(duration), "lifetime")

    def update(self, meta: Meta, when: Token, amount: Token | None = None) -> Clause:
        kind = cast(Literal["basic", "every", "moved", "quality"], when.type.lower())
        if amount is None:
            return self._clause(meta, "update", Update(kind))
        size = self._micros(amount) if kind == "every" else self._metres(amount, _unit(amount) == "km")
        return self._clause(meta, "update", Update(kind, size))

    def leave_when(self, meta: Meta, condition: Expression) -> Clause:
        return self._clause(meta, "leave_when", condition)

    def leave_after(self, meta: Meta, duration: Token) -> Clause:
        return self._clause(meta, "leave_after_us", self._micros(duration), "leave after")

    def deliver(self, meta: Meta, how: Token) -> Clause:
        return self._clause(meta, "deliver", "complete" if how.type == "COMPLETE" else "best effort")

    def quality(self, meta: Meta, *measures: Clause) -> Clause:
        return self._clause(meta, "quality", Quality(**fields_of(measures)))

    def measure(self, meta: Meta, name: Token, value: Token) -> Clause:
        threshold = self._float(value) if value.type in ("INT", "FLOAT") else str(value)
        return self._clause(meta, name.type.lower(), threshold)

    def demand(self, meta: Meta, *limits: Demand) -> Clause:
        return self._clause(meta, "demands", limits, "demand")

    def limit(self, meta: Meta, metric: Token, limit: Token) -> Demand:
        if metric.type == "LATENCY":
            return Demand("latency", self._micros(limit))
        if metric.type == "OVERHEAD":
            return Demand("overhead", self._bytes(limit))
        if metric.type == "HOPS":
            return Demand("hops", self._whole(limit))
        return Demand("load" if metric.type == "LOAD" else "bandwidth-delay", self._float(limit))

    def _bytes(self, token: Token) -> int:
        number = decimal.Decimal(token[: len(token) - len(_unit(token))].strip())
        size = int(number * BYTES[_unit(token)])
        if size > MAX_INT:
            raise self._error(token, f"{token[:20]}... is too large", "Write for example 10 KB or 2 MB.")
        return size
