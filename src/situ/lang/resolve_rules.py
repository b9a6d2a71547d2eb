"""Rules: what a definition and a subscription have in common, checked and made complete."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from situ.core.errors import Place, QueryError, did_you_mean
from situ.core.functions import Functions
from situ.core.types import List, Type
from situ.graph.expressions import Aggregate, Attribute, EventTime, GroupKey, WholeEvent
from situ.graph.operators import Schema
from situ.graph.patterns import (
    NAMELESS,
    Absence,
    And,
    EventTest,
    Seq,
    Step,
    first_steps,
    reads_each,
    steps_of,
    tests_of,
)
from situ.graph.query import AfterMatch, Aggregation, Assignment, Case, From, Join, Pause, Rule, Window
from situ.graph.typing import Scope, inputs_of, post_scope, pre_schema, scope_of, type_of
from situ.lang.resolve_expressions import Sight, resolve_names
from situ.lang.resolve_patterns import (
    aliases_in,
    check_aliases,
    check_silences,
    check_structure,
    name_silences,
    place_of,
    resolve_pattern,
)


def resolve_rule(
    rule: Rule,
    attributes: tuple[str, ...] | None,
    schemas: dict[str, Schema],
    functions: Functions,
    place: Place | None,
) -> tuple[Rule, Schema]:
    """The rule with every name resolved and `assign` complete, and the schema of its complex events.

    `attributes` are those that a definition declares; a subscription (None) has those that it assigns.
    """
    rule = replace(rule, cases=tuple(replace(case, detect=name_silences(case.detect)) for case in rule.cases))
    _check_shared_attributes(rule.group_by, "group by", rule, schemas, place)
    for case in rule.cases:
        check_aliases(case.detect)
    _check_kind(rule, schemas, place)
    post = rule.kind.post if isinstance(rule.kind, Aggregation) else ()
    cases = tuple(_resolve_case(rule, case, None if post else attributes, schemas, functions) for case in rule.cases)
    names = attributes if attributes is not None and not post else tuple(item.name for item in cases[0].assign)
    rule = replace(rule, cases=tuple(_in_order(case, names, place) for case in cases))
    schema = pre_schema(rule, schemas, functions)
    if post:
        _check_no_lists(rule.cases[0].assign, schema, "<pre> makes records for <post>", "Collect in <post> instead")
    elif attributes is not None:
        _check_no_lists(rule.cases[0].assign, schema, _READ_BY_OTHERS, _COLLECT_IN_SUBSCRIPTION)
    if isinstance(rule.kind, Aggregation) and post:
        resolved, schema = _resolve_post(rule, post, attributes, schema, schemas, functions, place)
        rule = replace(rule, kind=replace(rule.kind, post=resolved))
        if attributes is not None:
            _check_no_lists(resolved, schema, _READ_BY_OTHERS, _COLLECT_IN_SUBSCRIPTION)
    return rule, schema


_READ_BY_OTHERS = "a definition makes events for others"
_COLLECT_IN_SUBSCRIPTION = "Collect in a subscription instead, of this pattern or of the definition's events"


def _check_no_lists(assign: tuple[Assignment, ...], schema: Schema, because: str, instead: str) -> None:
    """Lists are results: what others read has no lists, because these are neither compared nor ordered."""
    for item in assign:
        type_ = schema.type_of(item.name)
        if isinstance(type_, List):
            raise QueryError(
                f"{item.name!r} is a {type_}; {because}, and lists are for results: they have no order",
                place=item.place or item.expression.place,
                remedy=f"{instead}, or assign single elements: first(..., 0), first(..., 1).",
            )


def _resolve_case(
    rule: Rule, case: Case, attributes: tuple[str, ...] | None, schemas: dict[str, Schema], functions: Functions
) -> Case:
    scope = scope_of(rule, case, schemas, functions)
    assign = case.assign or tuple(_default_assign(rule, case, attributes, scope))
    return replace(
        case,
        detect=resolve_pattern(rule, case, scope, schemas),
        assign=tuple(replace(item, expression=resolve_names(item.expression, Sight(scope))) for item in assign),
    )


def _resolve_post(
    rule: Rule,
    post: tuple[Assignment, ...],
    attributes: tuple[str, ...] | None,
    pre: Schema,
    schemas: dict[str, Schema],
    functions: Functions,
    place: Place | None,
) -> tuple[tuple[Assignment, ...], Schema]:
    scope = post_scope(rule, pre, schemas, functions)
    sight = Sight(
        scope,
        hidden=frozenset[str]().union(*(aliases_in(case.detect) for case in rule.cases)),
        hidden_because=f"<post> reads what <pre> assigned: {', '.join(pre.names)}.",
    )
    names = tuple(item.name for item in post) if attributes is None else attributes
    ordered = _ordered(post, names, "<post>", place)
    resolved = tuple(replace(item, expression=resolve_names(item.expression, sight)) for item in ordered)
    return resolved, Schema(tuple((item.name, type_of(item.expression, scope)) for item in resolved))


def _default_assign(rule: Rule, case: Case, attributes: tuple[str, ...] | None, scope: Scope) -> Iterator[Assignment]:
    """What `assign` says where the text leaves it out."""
    single = isinstance(case.detect, Step) and case.detect.silence_us is None and rule.kind is None
    step = case.detect if isinstance(case.detect, Step) and single else None
    if attributes is None and step is None:
        yield from _attributes_of_all(rule, scope)
        return
    available = scope.schemas[step.alias].names if step else ()
    names = available if attributes is None else attributes
    for name in names:
        if step is None or name not in available:
            raise QueryError(
                f"nothing says what {name!r} is",
                place=case.place or place_of(case.detect),
                remedy="Add `assign`. It can be left out where `detect` is one step that has all the attributes.",
            )
        yield Assignment(name, Attribute(step.alias, name))


def _attributes_of_all(rule: Rule, scope: Scope) -> Iterator[Assignment]:
    """The default attributes of a subscription: `{alias}_{attribute}`, and `{alias}_count` of a repeating alias."""
    if isinstance(rule.kind, Aggregation) or scope.schemas.keys() == scope.silences:
        for name in rule.group_by:
            yield Assignment(name, GroupKey(name))
    for alias, schema in scope.schemas.items():
        assert alias is not None, "only <post> has nameless records"
        if alias.startswith(NAMELESS):
            continue
        if alias in scope.silences and alias not in scope.repeating:
            yield Assignment(f"{alias}_time", EventTime(alias))
        elif alias in scope.repeating:
            yield Assignment(f"{alias}_count", Aggregate("count", WholeEvent(alias)))
        else:
            for name in schema.names:
                yield Assignment(f"{alias}_{name}", Attribute(alias, name))


def _in_order(case: Case, names: tuple[str, ...], place: Place | None) -> Case:
    return replace(case, assign=_ordered(case.assign, names, "assign", case.place or place))


def _ordered(
    assign: tuple[Assignment, ...], names: tuple[str, ...], clause: str, place: Place | None
) -> tuple[Assignment, ...]:
    """The assignments in the order of `names`: each of them once, and no other."""
    by_name: dict[str, Assignment] = {}
    for item in assign:
        where = item.place or place
        if item.name in by_name:
            raise QueryError(f"{clause} gives {item.name!r} twice", place=where, remedy="Leave one of them out.")
        check_own_name(item.name, where)
        if item.name not in names:
            raise QueryError(
                f"{clause} gives {item.name!r}, which is none of the attributes",
                place=where,
                remedy=did_you_mean(item.name, names),
            )
        by_name[item.name] = item
    missing = [name for name in names if name not in by_name]
    if missing:
        raise QueryError(
            f"{clause} gives no {', '.join(map(repr, missing))}",
            place=place,
            remedy="Every attribute is assigned, in every case; where there is no value, write null.",
        )
    return tuple(by_name[name] for name in names)


def check_own_name(name: str, place: Place | None) -> None:
    """An attribute is not called like situ's own columns: `_time`, `_x_min`, and those still to come."""
    if name.startswith("_"):
        raise QueryError(
            f"an attribute cannot be called {name!r}",
            place=place,
            remedy="Names that begin with `_` are for situ's own columns, such as `_time`: choose another.",
        )


def _check_kind(rule: Rule, schemas: dict[str, Schema], place: Place | None) -> None:
    match rule.kind:
        case None:
            for case in rule.cases:
                _check_pattern_case(rule, case, place)
            _check_after_match(rule, place)
        case Aggregation(window):
            _check_window(rule, window, "aggr", place)
            for case in rule.cases:
                if not isinstance(case.detect, Step | And):
                    raise QueryError(
                        "an aggregation reads sets of events, without order",
                        place=place_of(case.detect),
                        remedy="Write `detect A and B`; define a pattern of its own and aggregate that.",
                    )
        case Join(window, on):
            _check_window(rule, window, "join", place)
            _check_join(rule, window, on, schemas, place)
        case _:
            assert_never(rule.kind)


def _check_pattern_case(rule: Rule, case: Case, place: Place | None) -> None:
    check_structure(case.detect)
    where, aliases = case.place or place, aliases_in(case.detect)
    if case.within is None:
        match case.detect:
            case Seq((*_, Absence(test))):
                raise QueryError(
                    f"`not {test.event_type}` at the end needs `within`",
                    place=test.place or where,
                    remedy="An absence at the end is known only when time has passed: add `within T`.",
                )
        if rule.timed_out:
            raise QueryError(
                "`report timed out` needs `within`", place=where, remedy="Without a window nothing times out."
            )
    elif not isinstance(case.within.anchor, From):
        check_known_alias(case.within.anchor, aliases, "within ... from", case.within.place or where)
    for alias in case.consuming:
        check_known_alias(alias, aliases, "consuming", where)
    check_silences(rule, case)
    if case.once:
        _check_once(rule, case, where)


def _check_once(rule: Rule, case: Case, place: Place | None) -> None:
    """Nothing asks for more matches than one, and nothing else says which of them stay."""
    if reads_each(case.detect):
        raise QueryError(
            "`once` and `each` stand together",
            place=place,
            remedy="`each` asks for every match, `once` for one: write `then`, or leave `once` out.",
        )
    for step in first_steps(case.detect):
        if step.selector is not None:
            raise QueryError(
                f"`once` and `{step.selector.value}` both choose the event with which the match begins",
                place=step.test.place or place,
                remedy=f"`once` keeps the first one that gets past its step: leave `{step.selector.value}` out.",
            )
    clauses = {
        "consuming": bool(case.consuming),
        "after match": rule.after_match != AfterMatch(),
        "report timed out": rule.timed_out,
    }
    for clause, present in clauses.items():
        if present:
            raise QueryError(
                f"`once` and `{clause}` stand together",
                place=place,
                remedy=f"After one match there is no other, and nothing else is looked at: leave `{clause}` out.",
            )


def _check_after_match(rule: Rule, place: Place | None) -> None:
    after = rule.after_match
    if after == AfterMatch():
        return
    if isinstance(after, Pause) and after.micros < 1:
        raise QueryError(
            "a pause of no length leaves nothing out",
            place=place,
            remedy="Write a duration above zero, or `after match skip past last`.",
        )
    for case in rule.cases:
        if case.consuming:
            raise QueryError(
                "`consuming` and `after match` stand together",
                place=case.place or place,
                remedy="A rule has one of them: leave the other out, or make two definitions.",
            )
        if isinstance(after, AfterMatch) and after.alias is not None:
            check_known_alias(after.alias, aliases_in(case.detect), "after match", case.place or place)


def check_known_alias(alias: str, aliases: frozenset[str], clause: str, place: Place | None) -> None:
    if alias not in aliases:
        raise QueryError(f"`{clause}` names no alias {alias!r}", place=place, remedy=did_you_mean(alias, aliases))


def _check_window(rule: Rule, window: Window, kind: str, place: Place | None) -> None:
    """The window is one, and the clauses that only patterns have are absent."""
    if window.every < 1 or window.over < 1:
        raise QueryError(f"the window of `{kind}` is empty", place=place, remedy="Write a length above 0.")
    clauses = {
        "within": any(case.within is not None for case in rule.cases),
        "consuming": any(case.consuming for case in rule.cases),
        "after match": rule.after_match != AfterMatch(),
        "report timed out": rule.timed_out,
        "once": any(case.once for case in rule.cases),
    }
    for clause, present in clauses.items():
        if present:
            raise QueryError(f"`{kind}` takes no `{clause}`", place=place, remedy="Its window says how far it reads.")
    for step in (step for case in rule.cases for step in steps_of(case.detect)):
        if step.selector is not None:
            raise QueryError(
                f"`{kind}` takes no `{step.selector.value} {step.test.event_type}`",
                place=step.test.place,
                remedy="Selectors choose between the matches of a pattern; a window takes all its events.",
            )
        if step.silence_us is not None:
            raise QueryError(
                f"`{kind}` takes no silence",
                place=step.test.place,
                remedy="Windows hold events: detect the silence in a definition, and read that.",
            )


def _check_join(
    rule: Rule, window: Window, on: tuple[str, ...], schemas: dict[str, Schema], place: Place | None
) -> None:
    if window.unit != "time":
        raise QueryError("a join's window is a time", place=place, remedy="Write `join every 1 min on k`.")
    if not on:
        raise QueryError("a join needs `on`", place=place, remedy="Name the attributes that its events agree in.")
    for case in rule.cases:
        if not isinstance(case.detect, And):
            raise QueryError(
                "a join puts events of two or more steps together",
                place=place_of(case.detect),
                remedy="Write `detect A as a and B as b`.",
            )
        check_structure(case.detect)
    _check_shared_attributes(on, "on", rule, schemas, place)


def _check_shared_attributes(
    names: tuple[str, ...], clause: str, rule: Rule, schemas: dict[str, Schema], place: Place | None
) -> None:
    """`group by` and `on` name attributes that every input has, with one type."""
    for name in names:
        if names.count(name) > 1:
            raise QueryError(f"`{clause}` names {name!r} twice", place=place, remedy="Leave one of them out.")
        types: dict[str, Type] = {}
        for test in _first_tests(rule):
            schema = schemas[test.event_type]
            if name not in schema.names:
                raise QueryError(
                    f"`{clause} {name}`: event type {test.event_type} has no attribute {name!r}",
                    place=place or test.place,
                    remedy=f"Every input has it, those of `not` and `until` too. {did_you_mean(name, schema.names)}",
                )
            types[test.event_type] = schema.type_of(name)
        if len(set(types.values())) > 1:
            listed = ", ".join(f"{type_} in {event_type}" for event_type, type_ in types.items())
            raise QueryError(
                f"`{clause} {name}`: {name!r} is {listed}",
                place=place,
                remedy="Every input has it with the same type; a definition in between can cast it.",
            )


def _first_tests(rule: Rule) -> Iterator[EventTest]:
    """One test of each input."""
    by_type = {test.event_type: test for case in reversed(rule.cases) for test in tests_of(case.detect)}
    for event_type in inputs_of(rule):
        yield by_type[event_type]
