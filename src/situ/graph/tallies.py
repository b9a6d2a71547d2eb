"""Definitions whose matches are only counted, or summed: a tally of them is kept, and no match is made.

`count(M)` over windows of a `define M` of `then each` steps has as many matches as there are combinations of events.
Where each step asks something of its own event alone, how many combinations an event completes follows from how many
there were of the steps before it (GRETA: Poppe et al., VLDB 2017; COGRA: SIGMOD 2019). So the definition gives, for
each event that completes matches, one event with their number, and the aggregation sums these numbers:

    define M detect A as a then each B as b     ->  for each b: matches = count, `sum a.x`, `min a.x`, `max a.x`
    subscribe S aggr ... assign n = count(M)    ->  n = sum(M.matches)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from situ.core.types import INT, Type
from situ.graph.expressions import (
    Aggregate,
    AggregateName,
    Attribute,
    Expression,
    GroupKey,
    WholeEvent,
    aliases_of,
    conjuncts,
    replace_children,
    walk,
)
from situ.graph.operators import Operator, OperatorGraph, Schema
from situ.graph.patterns import Contiguity, Follow, Seq, Step, steps_of
from situ.graph.query import AfterMatch, Aggregation, Assignment, Case, From

#: More steps than this are not tallied: what is kept of an event grows with their number.
MOST_STEPS = 8
#: The attribute of a tallied definition that says how many matches there are; nobody can write it as a name.
MATCHES = "matches of"


def tallied(graph: OperatorGraph) -> OperatorGraph:
    """The graph in which definitions are tallied, wherever that gives the same complex events of all other rules."""
    readers: dict[str, list[Operator]] = {}
    for operator in graph.operators:
        for name in operator.inputs:
            readers.setdefault(name, []).append(operator)
    located = _located(graph)
    changed: dict[str, Operator] = {}
    for operator in graph.operators:
        of_definition = readers.get(operator.name, [])
        if len(of_definition) == 1 and operator.subscription is None and not located[operator.name]:
            pair = _tallied(operator, of_definition[0], graph.schemas)
            changed |= {} if pair is None else {rule.name: rule for rule in pair}
    if not changed:
        return graph
    return replace(graph, operators=tuple(changed.get(operator.name, operator) for operator in graph.operators))


def _located(graph: OperatorGraph) -> dict[str, bool]:
    """Which event types have places. A complex event's is that of all its events, which a tally does not keep."""
    located = {stream.name: stream.location is not None for stream in graph.streams}
    for operator in graph.operators:
        located[operator.name] = any(located[name] for name in operator.inputs)
    return located


def _tallied(definition: Operator, reader: Operator, schemas: Mapping[str, Schema]) -> tuple[Operator, Operator] | None:
    """Both rules, as they are where the definition is tallied; None where that is not possible."""
    only = definition.rule.cases[0]
    if not _counts_chains(definition) or not _reads_aggregates(reader, definition.name):
        return None
    values = {item.name: item.expression for item in only.assign}
    types = {step.alias: step.test.event_type for step in steps_of(only.detect)}
    rewriting = _Rewriting(values, {a: schemas[t] for a, t in types.items()}, definition.rule.group_by, [*types][-1])
    (case,) = reader.rule.cases
    detect = case.detect
    assert isinstance(detect, Step)
    read_singly = {*reader.rule.group_by}
    for condition in conjuncts(detect.test.condition):
        if any(isinstance(node, WholeEvent | Aggregate) for node in walk(condition)):
            return None
        read_singly |= {node.name for node in walk(condition) if isinstance(node, Attribute)}
    if not all(rewriting.is_kept(name) for name in read_singly):
        return None
    try:
        assign = tuple(replace(item, expression=rewriting.rewritten(item.expression)) for item in case.assign)
    except _NotTallied:
        return None
    kept = tuple(name for name in definition.schema.names if name in read_singly)
    own = tuple(Assignment(name, values[name]) for name in kept)
    attributes = tuple((name, definition.schema.type_of(name)) for name in kept)
    tallies = tuple(Assignment(name, expression) for name, (expression, _) in rewriting.tallies.items())
    schema = Schema((*attributes, *((name, type_) for name, (_, type_) in rewriting.tallies.items())))
    rule = replace(definition.rule, cases=(replace(only, assign=(*own, *tallies)),), tallied=True)
    reading = replace(reader.rule, cases=(replace(case, assign=assign),))
    return replace(definition, rule=rule, schema=schema), replace(reader, rule=reading)


def _counts_chains(definition: Operator) -> bool:
    """Whether matches are all chains of events that fit the steps, in order and within a window."""
    rule, only = definition.rule, definition.rule.cases[0]
    is_plain = len(rule.cases) == 1 and rule.kind is None and rule.after_match == AfterMatch() and not rule.timed_out
    return is_plain and not only.once and not only.consuming and _is_each_of_single_events(only)


def _is_each_of_single_events(case: Case) -> bool:
    if not isinstance(case.detect, Seq) or case.within is None or case.within.anchor is not From.FIRST:
        return False
    parts = case.detect.parts
    if len(parts) > MOST_STEPS:
        return False
    for number, part in enumerate(parts):
        if not isinstance(part, Follow) or not isinstance(part.pattern, Step):
            return False
        step = part.pattern
        conditions = conjuncts(step.test.condition)
        follows_each = number == 0 or part.contiguity is Contiguity.EACH
        is_plain = step.selector is None and not step.outer and step.silence_us is None
        is_single = all(aliases_of(c) <= {step.alias} and not _aggregates(c) for c in conditions)
        if not (follows_each and is_plain and is_single):
            return False
    return True


def _aggregates(expression: Expression) -> bool:
    return any(isinstance(node, Aggregate) for node in walk(expression))


def _reads_aggregates(reader: Operator, definition: str) -> bool:
    """Whether a rule aggregates the events of a definition, and nothing else, over windows of time."""
    rule = reader.rule
    if not isinstance(rule.kind, Aggregation) or rule.kind.window.unit != "time" or len(rule.cases) != 1:
        return False
    detect = rule.cases[0].detect
    return isinstance(detect, Step) and detect.test.event_type == definition and not detect.outer


class _NotTallied(Exception):
    """An expression needs the matches themselves."""


@dataclass
class _Rewriting:
    """`count(m)` -> `sum(m.matches)`, and so on; `tallies` has what the definition must give for that."""

    values: Mapping[str, Expression]  # of the definition's attributes
    schemas: Mapping[str, Schema]  # of its aliases
    group_by: tuple[str, ...]
    last: str  # the alias of the last step

    def __post_init__(self) -> None:
        self.tallies: dict[str, tuple[Expression, Type]] = {
            MATCHES: (Aggregate("count", WholeEvent(self.last)), INT),
        }

    def is_kept(self, name: str) -> bool:
        """Whether all matches that an event completes agree in an attribute: in a group key, and in its own."""
        match self.values[name]:
            case GroupKey():
                return True
            case Attribute(alias, attribute):
                return alias == self.last or attribute in self.group_by
            case _:
                return False

    def rewritten(self, expression: Expression) -> Expression:
        match expression:
            case Aggregate("count", WholeEvent(alias), distinct=False):
                return Aggregate("sum", Attribute(alias, MATCHES))
            case Aggregate("count" | "sum" | "min" | "max" as function, Attribute(str(alias), name), distinct=False):
                total: AggregateName = "sum" if function == "count" else function
                return Aggregate(total, Attribute(alias, self._tally(function, name)))
            case Aggregate() | WholeEvent():
                raise _NotTallied
            case _:
                return replace_children(expression, self.rewritten)

    def _tally(self, function: AggregateName, name: str) -> str:
        """The attribute with the aggregate over the matches that an event completes."""
        value = self.values[name]
        if not isinstance(value, Attribute) or value.alias is None:
            raise _NotTallied
        type_ = self.schemas[value.alias].type_of(value.name)
        if function == "sum" and type_ is not INT:
            raise _NotTallied  # sums of doubles depend on the order of the matches
        tally = f"{function} {name} of"
        self.tallies[tally] = Aggregate(function, value), (INT if function == "count" else type_)
        return tally
