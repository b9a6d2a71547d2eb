"""A moving subscription -> a plain query in which an interest is a key.

The operator graph starts afresh for every interest, and no operator sees events of two of them (spatial consistency;
MCEP, section 3.1). That is what grouping says: every stream gets an attribute with the number of the interest that its
event was read for, every rule passes it on and groups by it. So a moving query runs wherever a plain one runs.
"""

from __future__ import annotations

from dataclasses import replace

from situ.core.types import INT
from situ.graph.expressions import Attribute, Expression, GroupKey
from situ.graph.operators import OperatorGraph
from situ.graph.patterns import steps_of
from situ.graph.query import (
    Aggregation,
    Assignment,
    AttributeDeclaration,
    Definition,
    Join,
    Query,
    Rule,
    Subscription,
)

#: The attribute that names the interest of an event.
INTEREST = "situ_interest"


def keyed_by_interest(graph: OperatorGraph, output: str) -> Query:
    """The part of a query that an output depends on, by interest.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> from situ.lang.unparse import unparse
    >>> graph = resolve(parse("stream A(v int, ts int) time ts in s subscribe Big detect A(v > 9) as a assign v = a.v"))
    >>> print(unparse(keyed_by_interest(graph, "Big")))
    stream A(v int, ts int, situ_interest int)
      time ts in s
    <BLANKLINE>
    subscribe Big
      detect   A(a.v > 9) as a
      assign   v = a.v, situ_interest = group.situ_interest
      group by situ_interest
    <BLANKLINE>
    """
    needed = graph.needed(output)
    streams = tuple(
        replace(
            stream, attributes=(*(replace(a, path=()) for a in stream.attributes), AttributeDeclaration(INTEREST, INT))
        )
        for stream in graph.streams
        if stream.name in needed
    )
    operators = [operator for operator in graph.operators if operator.name in needed]
    definitions = tuple(
        Definition(operator.name, (*operator.schema.names, INTEREST), _keyed(operator.rule))
        for operator in operators
        if operator.name != output
    )
    rule = next(operator.rule for operator in operators if operator.name == output)
    return Query(streams, definitions, (Subscription(output, _keyed(rule)),))


def _keyed(rule: Rule) -> Rule:
    """A rule that passes the interest on and groups by it; a join joins on it."""
    if isinstance(rule.kind, Join):
        cases = tuple(
            replace(case, assign=(*case.assign, _interest(Attribute(next(steps_of(case.detect)).alias, INTEREST))))
            for case in rule.cases
        )
        return replace(rule, cases=cases, kind=replace(rule.kind, on=(*rule.kind.on, INTEREST)))
    group_by = (*rule.group_by, INTEREST)
    if isinstance(rule.kind, Aggregation) and rule.kind.post:
        kind = replace(rule.kind, post=(*rule.kind.post, _interest(GroupKey(INTEREST))))
        return replace(rule, kind=kind, group_by=group_by)
    cases = tuple(replace(case, assign=(*case.assign, _interest(GroupKey(INTEREST)))) for case in rule.cases)
    return replace(rule, cases=cases, group_by=group_by)


def _interest(expression: Expression) -> Assignment:
    return Assignment(INTEREST, expression)
