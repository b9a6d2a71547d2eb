"""Random queries with silences, for tests that compare an engine with the oracle: those of strategies.py, in which some
steps have become silences and some silences have been added."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count

from situ.core.errors import QueryError
from situ.graph.expressions import Attribute, Binary, Literal, aliases_of
from situ.graph.patterns import (
    NAMELESS,
    And,
    Contiguity,
    EventTest,
    Follow,
    Loop,
    Or,
    Pattern,
    Seq,
    Step,
    silences_of,
    steps_of,
    tests_of,
    with_steps,
)
from situ.graph.query import Case, Query, Rule
from situ.lang.resolve import resolve
from strategies import SECOND, Scenario, random_scenario


def quiet_scenario(seed: int, watermark_s: int = 0) -> Scenario:
    """The first scenario from a seed on, in steps of its own, that has a silence and resolves."""
    for attempt in count():
        rng = random.Random(f"quiet {seed} {attempt}")
        scenario = random_scenario(rng.randrange(10**9), watermark_s=watermark_s)
        query = _with_silences(scenario.query, rng)
        try:
            graph = resolve(query)
        except QueryError:
            continue
        rules = [operator.rule for operator in graph.operators]
        if any(True for rule in rules for case in rule.cases for _ in silences_of(case.detect)):
            return Scenario(query, scenario.events)
    raise AssertionError


def _with_silences(query: Query, rng: random.Random) -> Query:
    definitions = tuple(replace(d, rule=_in_rule(d.rule, rng)) for d in query.definitions)
    subscriptions = tuple(replace(s, rule=_in_rule(s.rule, rng)) for s in query.subscriptions)
    return replace(query, definitions=definitions, subscriptions=subscriptions)


def _in_rule(rule: Rule, rng: random.Random) -> Rule:
    if rule.kind is not None or rng.random() < 0.2:
        return rule
    return replace(rule, cases=tuple(_in_case(case, rng) for case in rule.cases))


def _in_case(case: Case, rng: random.Random) -> Case:
    read = {name for test in tests_of(case.detect) if test.condition for name in aliases_of(test.condition)}
    read |= {name for item in case.assign for name in aliases_of(item.expression)} | set(case.consuming)
    free = [step.alias for step in steps_of(case.detect) if step.alias not in read]
    chosen = {alias for alias in free if rng.random() < 0.3}
    types = sorted({test.event_type for test in tests_of(case.detect)})

    def changed(step: Step) -> Step:
        plain = replace(step, selector=None)
        return replace(plain, silence_us=_length(rng)) if step.alias in chosen else plain

    return replace(case, detect=_added(with_steps(case.detect, changed), types, rng))


def _added(pattern: Pattern, types: list[str], rng: random.Random) -> Pattern:
    """Silences before, after and beside what is there."""
    match pattern:
        case And(steps) if rng.random() < 0.4:
            return And((*steps, _silence(types, rng)))
        case Or(alternatives) if rng.random() < 0.5:
            return Or((*alternatives, _silence(types, rng)))
        case Seq(parts):
            inner = [replace(p, pattern=_added(p.pattern, types, rng)) if isinstance(p, Follow) else p for p in parts]
            place = rng.randrange(len(inner) + 1)
            if rng.random() < 0.5:
                inner.insert(place, Follow(_repeated(_silence(types, rng), rng), _contiguity(rng, place)))
            return Seq(tuple(inner))
        case Loop():
            return replace(pattern, greedy=False)
        case _ if rng.random() < 0.6:
            follow = Follow(_repeated(_silence(types, rng), rng), _contiguity(rng, 1))
            return Seq((Follow(pattern), follow)) if rng.random() < 0.7 else Seq((follow, Follow(pattern)))
        case _:
            return pattern


def _contiguity(rng: random.Random, place: int) -> Contiguity:
    return Contiguity.IMMEDIATELY if place and rng.random() < 0.2 else Contiguity.NEXT


def _repeated(step: Step, rng: random.Random) -> Step | Loop:
    return Loop(step, *rng.choice([(1, 2), (0, 1), (1, 3), (2, 2), (1, None)])) if rng.random() < 0.3 else step


def _silence(types: list[str], rng: random.Random) -> Step:
    rare = Binary(rng.choice(["=", ">"]), Attribute(None, "v"), Literal(rng.choice([0, 2, 3])))
    condition = rare if rng.random() < 0.7 else None
    return Step(EventTest(rng.choice(types), condition), NAMELESS, silence_us=_length(rng))


def _length(rng: random.Random) -> int:
    return rng.choice([1, 1, 2, 3, 4]) * SECOND // 2
