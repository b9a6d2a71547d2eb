"""Random queries that the text language can say; what their names and types mean is left open.

Left out is what no text gives: `WholeEvent` (a bare name is an Attribute until it is resolved), a call named like an
aggregate, and `then` before a step with a selector (that is `then each`). Strategies are costly to make: each is made
once.
"""

from __future__ import annotations

import decimal
from dataclasses import replace
from functools import cache
from typing import Any, get_args

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from situ.core.time import LIMIT
from situ.core.types import TYPE_NAMES, Decimal, Type
from situ.graph.expressions import (
    Aggregate,
    AggregateName,
    Attribute,
    Binary,
    BinaryOperator,
    Call,
    Cast,
    Duration,
    EventTime,
    Expression,
    GroupKey,
    In,
    IsNull,
    Literal,
    Unary,
)
from situ.graph.patterns import Absence, And, Contiguity, EventTest, Follow, Loop, Or, Pattern, Selector, Seq, Step
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

#: Plain names, every kind of keyword, and names that need backquotes.
NAMES = (
    *("a", "b", "Vehicle", "speed", "straße", "_x", "x", "x1", "m", "s", "d", "e5"),
    *("count", "first", "last", "FIRST", "time", "order", "key", "group", "Group", "timestamp", "events", "square"),
    *(
        "null",
        "not",
        "true",
        "distinct",
        "and",
        "or",
        "in",
        "is",
        "between",
        "each",
        "outer",
        "previous",
        "immediately",
    ),
    *("then", "detect", "assign", "within", "unique", "pre", "post", "where", "next"),
    *("lane no", "1st", "tick`ed", "a.b", "--", "new\nline", "'"),
)

INTS = st.integers(-(2**63), 2**63 - 1)
MICROS = st.integers(0, LIMIT - 1)
LENGTHS = st.integers(1, 2**50) | st.sampled_from([1_000, 1_000_000, 90_000_000, 120_000_000, 3_600_000_000])
FRACTIONS = st.floats(0, 1)
METRES = st.floats(0, 1e300)


@cache
def names() -> SearchStrategy[str]:
    return st.sampled_from(NAMES)


@cache
def name_lists(smallest: int = 1) -> SearchStrategy[tuple[str, ...]]:
    return st.lists(names(), min_size=smallest, max_size=3).map(tuple)


@cache
def types() -> SearchStrategy[Type]:
    decimals = st.integers(1, 38).flatmap(lambda p: st.builds(Decimal, st.just(p), st.integers(0, p)))
    return st.sampled_from(sorted(set(TYPE_NAMES.values()), key=str)) | decimals


@cache
def literals() -> SearchStrategy[Literal]:
    decimals = st.builds(lambda digits, scale: decimal.Decimal(digits).scaleb(-scale), INTS, st.integers(0, 18))
    floats = st.floats(allow_nan=False, allow_infinity=False)
    durations = st.integers(1 - LIMIT, LIMIT - 1).map(Duration)
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(["it's", "--", "''"])
    return st.builds(Literal, st.none() | st.booleans() | INTS | floats | decimals | texts | durations)


@cache
def expressions() -> SearchStrategy[Expression]:
    aliases = st.none() | names()
    leaves = literals() | st.builds(Attribute, aliases, names()) | st.builds(EventTime, names())
    return st.recursive(leaves | st.builds(GroupKey, names()), _larger_expressions, max_leaves=8)


def _larger_expressions(smaller: SearchStrategy[Expression]) -> SearchStrategy[Expression]:
    aggregates = st.sampled_from(get_args(AggregateName))
    functions = st.sampled_from(["abs", "if", "coalesce", "FaceDetect", "then", "group"])
    arguments = st.lists(smaller, max_size=3).map(tuple)
    return (
        st.builds(Binary, st.sampled_from(get_args(BinaryOperator)), smaller, smaller)
        | st.builds(Unary, st.sampled_from(["-", "not"]), smaller)
        | st.builds(IsNull, smaller, st.booleans())
        | st.builds(In, smaller, st.lists(literals(), min_size=1, max_size=3).map(tuple), st.booleans())
        | st.builds(Cast, smaller, types())
        | st.builds(Call, functions, arguments)
        | st.builds(Aggregate, aggregates, smaller)
        | st.builds(Aggregate, st.just("count"), smaller, st.just(True))
        | st.builds(Aggregate, st.sampled_from(["first", "last"]), smaller, offset=st.integers(0, 3))
    )


@cache
def event_tests() -> SearchStrategy[EventTest]:
    return st.builds(EventTest, names(), st.none() | expressions())


@cache
def steps() -> SearchStrategy[Step]:
    return st.builds(Step, event_tests(), names(), st.none() | st.sampled_from(Selector), st.booleans())


@cache
def patterns() -> SearchStrategy[Pattern]:
    conjunctions = st.builds(And, st.lists(steps(), min_size=2, max_size=3).map(tuple))
    return st.recursive(steps() | _loops(steps()) | conjunctions, _larger_patterns, max_leaves=6)


def _larger_patterns(smaller: SearchStrategy[Pattern]) -> SearchStrategy[Pattern]:
    rest = st.lists(st.builds(_follow, smaller, st.sampled_from(Contiguity)) | _absences(), min_size=1, max_size=3)
    sequences = st.builds(lambda first, rest: Seq((Follow(first), *rest)), smaller, rest)
    choices = st.builds(Or, st.lists(smaller, min_size=2, max_size=3).map(tuple))
    return sequences | choices | _loops(sequences | choices)


def _follow(pattern: Pattern, contiguity: Contiguity) -> Follow:
    chosen = isinstance(pattern, Step) and pattern.selector is not None and contiguity is Contiguity.NEXT
    return Follow(pattern, Contiguity.EACH if chosen else contiguity)


@cache
def _absences() -> SearchStrategy[Absence]:
    return st.builds(Absence, event_tests(), st.booleans())


@st.composite
def _loops(draw: st.DrawFn, bodies: SearchStrategy[Step | Seq | Or]) -> Loop:
    low = draw(st.integers(0, 3))
    high = draw(st.none() | st.integers(max(1, low), 4))
    inner, until = draw(st.sampled_from(Contiguity)), draw(st.none() | event_tests())
    return Loop(draw(bodies), low, high, inner, draw(st.booleans()), until)


@cache
def assignments(smallest: int = 0) -> SearchStrategy[tuple[Assignment, ...]]:
    return st.lists(st.builds(Assignment, names(), expressions()), min_size=smallest, max_size=3).map(tuple)


@cache
def windows() -> SearchStrategy[Window]:
    return st.builds(Window, LENGTHS, LENGTHS, st.sampled_from(["time", "events"]))


@cache
def after_matches() -> SearchStrategy[AfterMatch | Pause]:
    plain = st.builds(AfterMatch, st.sampled_from([Skip.NONE, Skip.TO_NEXT, Skip.PAST_LAST]))
    to_alias = st.builds(AfterMatch, st.sampled_from([Skip.TO_FIRST, Skip.TO_LAST]), names())
    return plain | to_alias | st.builds(Pause, MICROS)


@cache
def _withins() -> SearchStrategy[Within | None]:
    return st.none() | st.builds(Within, MICROS, st.sampled_from(From) | names())


@st.composite
def cases(draw: st.DrawFn) -> tuple[Case, ...]:
    count = draw(st.integers(1, 2))
    numbers = draw(st.permutations([0, 1, 7])) if count > 1 or draw(st.booleans()) else [None]
    return tuple(
        Case(draw(patterns()), draw(_withins()), draw(assignments()), draw(name_lists(0)), number, draw(st.booleans()))
        for number in numbers[:count]
    )


@cache
def rules() -> SearchStrategy[Rule]:
    kinds = st.none() | st.builds(Aggregation, windows(), assignments()) | st.builds(Join, windows(), name_lists())
    return st.builds(Rule, cases(), kinds, name_lists(0), after_matches(), st.booleans())


@cache
def streams() -> SearchStrategy[Stream]:
    attributes = st.builds(AttributeDeclaration, names(), types(), name_lists(0))
    declarations = st.lists(attributes, min_size=1, max_size=4).map(tuple)
    units = st.sampled_from([None, "s", "ms", "us", "ns"])
    maybe = st.none() | names()
    locations = st.none() | st.tuples(names(), names())
    streams = st.builds(
        Stream, names(), declarations, names(), units, maybe, locations, maybe, MICROS, st.none() | MICROS, maybe
    )
    # Degrees say something of a location only, and an order is shared only where there is one.
    return st.builds(
        lambda s, degrees, shared, ahead_us: replace(
            s, degrees=degrees and s.location is not None, shared=shared and s.order is not None, ahead_us=ahead_us
        ),
        streams,
        st.booleans(),
        st.booleans(),
        st.none() | MICROS,
    )


@cache
def subscriptions() -> SearchStrategy[Subscription]:
    demands = st.lists(
        st.builds(Demand, st.sampled_from(["latency", "overhead", "hops"]), MICROS)
        | st.builds(Demand, st.sampled_from(["load", "bandwidth-delay"]), st.floats(0, 1e12)),
        max_size=2,
    ).map(tuple)
    interest = {
        "around": st.none() | _arounds(),
        "lifetime_us": st.none() | MICROS,
        "update": st.none() | _updates(),
        "deliver": st.sampled_from([None, "complete", "best effort"]),
        "quality": st.none() | _qualities(),
        "demands": demands,
    }
    consumers = st.none() | st.tuples(names(), names())
    ours = st.builds(Subscription, names(), rules(), consumers, **interest)
    numbered = st.builds(_numbered, rules(), st.integers(0, 99), names(), names(), st.fixed_dictionaries(interest))
    return ours | numbered


def _numbered(rule: Rule, number: int, subscriber: str, actor: str, interest: dict[str, Any]) -> Subscription:
    parties = {"sequence": number, "subscriber": subscriber, "actor": actor}
    return Subscription(f"{subscriber}_{number}", rule, **interest, **parties)


@cache
def _arounds() -> SearchStrategy[Around]:
    single = st.builds(Around, names(), st.sampled_from(["square", "circle"]), st.tuples(METRES))
    return single | st.builds(Around, names(), st.just("rectangle"), st.tuples(METRES, METRES))


@cache
def _updates() -> SearchStrategy[Update]:
    plain = st.builds(Update, st.sampled_from(["basic", "quality"]))
    return plain | st.builds(Update, st.just("every"), MICROS) | st.builds(Update, st.just("moved"), METRES)


@cache
def _qualities() -> SearchStrategy[Quality]:
    maybe = st.none() | FRACTIONS
    return st.builds(Quality, maybe, maybe, maybe).filter(lambda quality: quality != Quality())


@cache
def queries() -> SearchStrategy[Query]:
    definitions = st.builds(Definition, names(), name_lists(0), rules())
    return st.builds(
        Query,
        st.lists(streams(), max_size=2).map(tuple),
        st.lists(definitions, max_size=2).map(tuple),
        st.lists(subscriptions(), max_size=2).map(tuple),
    )
