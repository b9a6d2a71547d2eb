"""Which row groups need not be read, because no row of them can fulfil a condition: by their statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from situ.graph.expressions import Attribute, Binary, Expression, In, Literal
from situ.kernel.operator import Conditions

#: The smallest and the largest value of an attribute, whole numbers or texts; None where they are not known.
Bounds: TypeAlias = Callable[[str], tuple[int, int] | tuple[str, str] | None]

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def may_hold_somewhere(tests: Sequence[Conditions], bounds: Bounds) -> bool:
    """Whether some row may fulfil all conditions of one of the tests, on single events."""
    return any(all(may_hold(condition, bounds) for condition in test) for test in tests)


def may_hold(condition: Expression, bounds: Bounds) -> bool:
    """Whether a condition on a single event may hold for some row; True where bounds do not say.

    >>> small = Binary("<", Attribute("this", "n"), Literal(3))
    >>> may_hold(small, lambda name: (3, 9)), may_hold(small, lambda name: (2, 9)), may_hold(small, lambda name: None)
    (False, True, True)
    """
    match condition:
        case Binary("and", left, right):
            return may_hold(left, bounds) and may_hold(right, bounds)
        case Binary("or", left, right):
            return may_hold(left, bounds) or may_hold(right, bounds)
        case Binary(operator, Attribute(_, name), Literal(value)):
            return _may_compare(operator, value, bounds(name))
        case Binary(operator, Literal(value), Attribute(_, name)) if operator in _MIRRORED:
            return _may_compare(_MIRRORED[operator], value, bounds(name))
        case In(Attribute(_, name), items, negated=False):
            return any(_may_compare("=", item.value, bounds(name)) for item in items)
        case _:
            return True


def _may_compare(operator: str, value: object, bounds: tuple[int, int] | tuple[str, str] | None) -> bool:
    if bounds is None or type(value) is not type(bounds[0]):
        return True
    smallest, largest = bounds
    match operator:
        case "=":
            return smallest <= value <= largest  # type: ignore[operator]
        case "!=":
            return not smallest == value == largest
        case "<":
            return smallest < value  # type: ignore[operator]
        case "<=":
            return smallest <= value  # type: ignore[operator]
        case ">":
            return largest > value  # type: ignore[operator]
        case ">=":
            return largest >= value  # type: ignore[operator]
        case _:
            return True
