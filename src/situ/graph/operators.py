"""The operator graph: a query in which every name is known and every expression has a type.

`lang.resolve` makes it; the kernel compiles it; placement, reuse and mobility work on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from situ.core.types import Type
from situ.graph.query import Query, Rule, Stream, Subscription


@dataclass(frozen=True, slots=True)
class Schema:
    """The attributes of an event type, in declared order.

    >>> from situ.core.types import INT
    >>> Schema((("id", INT),)).type_of("id")
    <Simple.INT: 'int'>
    """

    attributes: tuple[tuple[str, Type], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.attributes)

    def type_of(self, name: str) -> Type:
        return dict(self.attributes)[name]


@dataclass(frozen=True, slots=True)
class Operator:
    """One definition or subscription, normalised.

    In `rule`: every reference has its alias; `assign` is complete and in the order of `schema`
    (for an aggregation with a post part, `post` is, and `assign` keeps the pre-assigned names);
    constants keep their form. `inputs` are event types in textual order without repetition.
    `depth` is 0 for streams, else 1 + the largest depth of the inputs.
    """

    name: str
    rule: Rule
    schema: Schema
    inputs: tuple[str, ...]
    depth: int
    subscription: Subscription | None = None


@dataclass(frozen=True, repr=False)
class OperatorGraph:
    """Streams, and operators in an order in which inputs come first.

    `start_us`: silences that come first, in rules without groups, begin then; if not given, with the first event.
    """

    query: Query
    streams: tuple[Stream, ...]
    operators: tuple[Operator, ...]
    start_us: int | None = None

    def __repr__(self) -> str:
        """The names alone: `situ.graph.describe.describe` gives the whole as a text."""
        return f"OperatorGraph({self.query.contents})"

    def _repr_html_(self) -> str:
        from situ.graph.html import svg_to_image
        from situ.graph.picture import to_svg

        return svg_to_image(to_svg(self), repr(self))

    @cached_property
    def schemas(self) -> dict[str, Schema]:
        """The schema of every event type."""
        streams = {s.name: Schema(tuple((a.name, a.type) for a in s.attributes)) for s in self.streams}
        return streams | {operator.name: operator.schema for operator in self.operators}

    @property
    def subscriptions(self) -> tuple[Operator, ...]:
        return tuple(operator for operator in self.operators if operator.subscription is not None)

    def active(self) -> OperatorGraph:
        """The graph without definitions that nobody needs: neither a subscription, nor a rule that reports what timed
        out. Without any of these it stays as it is."""
        wanted = [o.name for o in self.operators if o.subscription is not None or o.rule.timed_out]
        needed = frozenset().union(*map(self.needed, wanted)) if wanted else frozenset(self.schemas)
        operators = tuple(operator for operator in self.operators if operator.name in needed)
        return self if len(operators) == len(self.operators) else replace(self, operators=operators)

    def needed(self, name: str) -> frozenset[str]:
        """An event type and all that it is made of, directly or not."""
        inputs = {operator.name: operator.inputs for operator in self.operators}
        needed, open_ = set[str](), [name]
        while open_:
            event = open_.pop()
            if event not in needed:
                needed.add(event)
                open_ += inputs.get(event, ())
        return frozenset(needed)
