"""Names in expressions: every reference gets its alias, every name is known, aggregates stand where they may."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from situ.core.errors import Place, QueryError, did_you_mean
from situ.core.functions import BUILT_INS
from situ.core.types import BOOLEAN, NULL, Decimal, List
from situ.graph.expressions import (
    Aggregate,
    Attribute,
    Binary,
    Call,
    Cast,
    EventTime,
    Expression,
    GroupKey,
    In,
    IsNull,
    Literal,
    Unary,
    WholeEvent,
    walk,
)
from situ.graph.typing import THIS, Scope, list_error, type_of


@dataclass(frozen=True, slots=True)
class Sight:
    """What an expression can see from where it stands.

    `under_test` is the alias of the event that a condition is about (None in assignments): bare attributes are
    its own. `hidden` are aliases of the same case that cannot be seen from here, `hidden_because` says why.
    """

    scope: Scope
    under_test: str | None = None
    hidden: frozenset[str] = frozenset()
    hidden_because: str = ""

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(alias for alias in self.scope.schemas if alias is not None)


def resolve_condition(condition: Expression, sight: Sight) -> Expression:
    """A condition with all names resolved; QueryError unless it is boolean."""
    resolved = resolve_names(condition, sight)
    type_ = type_of(resolved, sight.scope)
    if isinstance(type_, List):
        raise list_error(resolved, type_)
    if type_ not in (BOOLEAN, NULL):
        raise QueryError(
            f"a condition is true or false, and this one is {type_}",
            place=condition.place,
            remedy="Compare it with something: x = 1, x > 0, x is not null.",
        )
    return resolved


def resolve_names(expression: Expression, sight: Sight, aggregate: Aggregate | None = None) -> Expression:
    """The expression with an alias on every reference. `aggregate` is the one around it, if there is one."""
    match expression:
        case Literal():
            return expression
        case Attribute(alias, name):
            if alias is None:
                return _bare_name(expression, sight, aggregate)
            alias = _visible(alias, sight, aggregate, expression.place, name)
            check_attribute(name, sight, alias, expression.place)
            return replace(expression, alias=alias)
        case EventTime(alias) | WholeEvent(alias):
            return replace(expression, alias=_visible(alias, sight, aggregate, expression.place))
        case GroupKey(name):
            if name not in sight.scope.group:
                raise QueryError(
                    f"group.{name}: the rule is not grouped by {name!r}",
                    place=expression.place,
                    remedy=f"Add it to `group by`. {did_you_mean(name, sight.scope.group)}",
                )
            return expression
        case Aggregate():
            return _aggregate(expression, sight, aggregate)
        case Unary(operand=operand) | IsNull(operand) | In(operand):
            return replace(expression, operand=resolve_names(operand, sight, aggregate))
        case Cast(operand, type_):
            if isinstance(type_, Decimal):
                check_decimal(type_, expression.place)
            return replace(expression, operand=resolve_names(operand, sight, aggregate))
        case Binary(_, left, right):
            return replace(
                expression,
                left=resolve_names(left, sight, aggregate),
                right=resolve_names(right, sight, aggregate),
            )
        case Call(function, arguments):
            return replace(
                expression,
                function=_known_function(function, sight, expression.place),
                arguments=tuple(
                    _event_or(argument, sight, aggregate) or resolve_names(argument, sight, aggregate)
                    for argument in arguments
                ),
            )
        case _:
            assert_never(expression)


def check_attribute(name: str, sight: Sight, alias: str, place: Place | None) -> None:
    schema = sight.scope.schemas[alias]
    if alias in sight.scope.silences:
        raise QueryError(
            f"{alias!r} is a silence, and has no attribute {name!r}",
            place=place,
            remedy=f"Read when it was over, time({alias}), or count({alias}) in a loop.",
        )
    if name not in schema.names:
        raise QueryError(
            f"event type {sight.scope.event_types[alias]} has no attribute {name!r}",
            place=place,
            remedy=did_you_mean(name, schema.names),
        )


def check_decimal(type_: Decimal, place: Place | None) -> None:
    if not (1 <= type_.precision <= 38 and 0 <= type_.scale <= type_.precision):
        raise QueryError(
            f"there is no {type_}",
            place=place,
            remedy="decimal(p, s) has p digits in all, from 1 to 38, and s of them, at most p, after the point.",
        )


def _bare_name(attribute: Attribute, sight: Sight, aggregate: Aggregate | None) -> Expression:
    """`speed` alone: of the event under test; in `<post>`, a column of the records."""
    name, place = attribute.name, attribute.place
    if None in sight.scope.schemas:
        return _pre_name(attribute, sight, aggregate)
    if sight.under_test is not None and name in sight.scope.schemas[sight.under_test].names:
        return replace(attribute, alias=sight.under_test)
    if name in sight.aliases:
        readable = sight.scope.schemas[name].names
        raise QueryError(
            f"{name!r} is an event, not a value",
            place=place,
            remedy=f"Read one of its attributes: {_listed(f'{name}.{attribute}' for attribute in readable)}.",
        )
    if sight.under_test is not None:
        check_attribute(name, sight, sight.under_test, place)
    candidates = [f"{alias}.{name}" for alias in sight.aliases if name in sight.scope.schemas[alias].names]
    candidates += [f"group.{name}"] if name in sight.scope.group else []
    everything = (
        f"{alias}.{attribute_name}" for alias in sight.aliases for attribute_name in sight.scope.schemas[alias].names
    )
    raise QueryError(
        f"{name!r} does not say of which event",
        place=place,
        remedy=f"Write {' or '.join(candidates)}." if candidates else did_you_mean(name, everything),
    )


def _pre_name(attribute: Attribute, sight: Sight, aggregate: Aggregate | None) -> Attribute:
    names = sight.scope.schemas[None].names
    if attribute.name not in names:
        raise QueryError(
            f"<pre> assigns no {attribute.name!r}",
            place=attribute.place,
            remedy=did_you_mean(attribute.name, names),
        )
    if aggregate is None:
        raise QueryError(
            f"{attribute.name!r} has a value for each record of <pre>",
            place=attribute.place,
            remedy=f"Read it through an aggregate, such as last({attribute.name}) or sum({attribute.name}).",
        )
    return attribute


def _event_or(argument: Expression, sight: Sight, aggregate: Aggregate | None) -> WholeEvent | None:
    """`Video` in FaceDetect(Video) and count(Video): the whole event, unless an attribute in sight has this name."""
    match argument:
        case Attribute(None, name) if name in (THIS, *sight.aliases, *sight.hidden):
            # In an assignment there is no event under test; in <post> its place is taken by the nameless records.
            nearest = sight.scope.schemas.get(sight.under_test)
            if nearest is not None and name in nearest.names:
                return None
            return WholeEvent(_visible(name, sight, aggregate, argument.place), place=argument.place)
    return None


def _visible(alias: str, sight: Sight, aggregate: Aggregate | None, place: Place | None, attribute: str = "x") -> str:
    """The alias, where it can be read from here; `this` gives the alias of the event under test."""
    if alias == THIS and sight.under_test is not None:
        alias = sight.under_test
    if alias in sight.hidden:
        raise QueryError(f"alias {alias!r} cannot be read here", place=place, remedy=sight.hidden_because)
    if alias not in sight.scope.schemas:
        raise QueryError(f"no alias {alias!r}", place=place, remedy=did_you_mean(alias, sight.aliases))
    if alias in sight.scope.repeating and alias != sight.under_test and aggregate is None:
        raise QueryError(
            f"{alias!r} holds several events",
            place=place,
            remedy=f"Read it through an aggregate, such as last({alias}.{attribute}) or count({alias}).",
        )
    return alias


def _aggregate(expression: Aggregate, sight: Sight, outer: Aggregate | None) -> Aggregate:
    name, place = expression.function, expression.place
    if outer is not None:
        raise QueryError(
            f"{name}() stands inside {outer.function}()",
            place=place,
            remedy="An aggregate takes values of single events.",
        )
    event = _event_or(expression.argument, sight, expression)
    argument = event or resolve_names(expression.argument, sight, expression)
    if expression.distinct and (name != "count" or isinstance(argument, WholeEvent)):
        raise QueryError(
            f"{name}() takes no `distinct` here",
            place=place,
            remedy="Values can be distinct, events are: count(distinct alias.attribute).",
        )
    if expression.offset and (name not in ("first", "last") or expression.offset < 0):
        raise QueryError(
            f"{name}() cannot pass over {expression.offset} events",
            place=place,
            remedy="first(alias.attribute, n) and last(alias.attribute, n) pass over n events, from 0 on.",
        )
    if isinstance(argument, WholeEvent) and name != "count":
        raise QueryError(
            f"{name}() takes a value of each event, not the event",
            place=place,
            remedy=f"Name an attribute: {name}({argument.alias}.x).",
        )
    read = {node.alias for node in walk(argument) if isinstance(node, Attribute | EventTime | WholeEvent)}
    if len(read) != 1:
        reads = f"reads {_listed(sorted(map(str, read)))}" if read else "reads no event"
        raise QueryError(
            f"{name}() {reads}", place=place, remedy="An aggregate goes over the events of one repeating alias."
        )
    (alias,) = read
    if alias not in sight.scope.repeating:
        raise QueryError(_single(alias, name), place=place, remedy=_single_remedy(alias, argument))
    return replace(expression, argument=argument)


def _single(alias: str | None, aggregate: str) -> str:
    holder = "the event under test is one event" if alias == THIS else f"{alias!r} holds one event"
    return f"{aggregate}() goes over several events, and {holder}"


def _single_remedy(alias: str | None, argument: Expression) -> str:
    direct = f"{alias}.{argument.name}" if isinstance(argument, Attribute) else f"{alias}.x"
    return f"Read it directly: {direct}. Aggregates are for aliases under a loop, such as X+ as a."


def _known_function(name: str, sight: Sight, place: Place | None) -> str:
    if name.lower() in BUILT_INS:
        return name.lower()
    if sight.scope.functions.lookup(name) is None:
        suggestion = did_you_mean(name, BUILT_INS.union(sight.scope.functions.names))
        raise QueryError(
            f"no function {name!r}",
            place=place,
            remedy=f"{suggestion} Register your own with @situ.function(returns=...).",
        )
    return name


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
