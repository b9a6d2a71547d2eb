"""Event tables -> the statistics that the planner needs, measured by Spark.

Two runs over the events: one counts them by type and site, one runs the query and counts what its operators put out.
A filter on single events is counted as a definition of its own, in the same run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from situ.core.errors import InputError
from situ.core.functions import Functions
from situ.core.functions import default as default_functions
from situ.core.types import STRING
from situ.graph.expressions import Aggregate, Binary, GroupKey, Literal, aliases_of, conjuncts, walk
from situ.graph.operators import OperatorGraph
from situ.graph.patterns import EventTest, Step, steps_of
from situ.graph.query import Assignment, AttributeDeclaration, Case, Definition, Rule, Stream
from situ.lang.resolve import resolve
from situ.network.statistics import Statistics
from situ.placement.selectivities import selectivities
from situ.runtime.spark.detect import detect_inputs
from situ.runtime.spark.inputs.tables import StreamInput
from situ.runtime.spark.plan.crossing import column
from situ.runtime.spark.stages.output import COMPLEX_EVENT, KINDS


@dataclass(frozen=True, slots=True)
class Observed:
    """Events of one type at one site: how many, the first and the last in microseconds."""

    stream: str
    site: str
    events: int
    first_us: int
    last_us: int


def with_site(stream: Stream, site: str) -> Stream:
    """A stream that has the column which names the site, as text unless it is declared."""
    if any(attribute.name == site for attribute in stream.attributes):
        return stream
    return replace(stream, attributes=(*stream.attributes, AttributeDeclaration(site, STRING)))


def measure_statistics(
    graph: OperatorGraph, inputs: Mapping[str, StreamInput], site: str, functions: Functions = default_functions
) -> Statistics:
    """Rates are events / the time from the first event of all to the last. The selectivity of an operator is what it
    puts out, over what the cost model `coverage` expects of inputs that come at the rates measured."""
    observed = observe(graph, inputs, site)
    duration_s = _duration_s(observed)
    rates: dict[str, dict[str, float]] = {stream.name: {} for stream in graph.streams}
    for seen in observed:
        rates[seen.stream][seen.site] = seen.events / duration_s
    outputs = count_outputs(graph, inputs, functions)
    rates_per_s = {stream: sum(by_site.values()) for stream, by_site in rates.items()}
    rates_per_s |= {operator.name: outputs.get(operator.name, 0) / duration_s for operator in graph.operators}
    shares = {
        filter_.name: min(1.0, outputs.get(filter_.name, 0) / duration_s / rates_per_s[_read(filter_)])
        for filter_ in filters_of(graph)
        if rates_per_s[_read(filter_)] > 0
    }
    return Statistics(rates, selectivities(graph, rates_per_s, shares) | shares, _inter_arrival_s(observed))


def observe(graph: OperatorGraph, inputs: Mapping[str, StreamInput], site: str) -> list[Observed]:
    """One aggregation over all streams. InputError where an event has no site."""
    counted = [
        _events(stream, inputs[stream.name])
        .groupBy(F.lit(stream.name).alias("stream"), column(site).cast("string").alias("site"))
        .agg(F.count(F.lit(1)).alias("events"), F.min("_time").alias("first_us"), F.max("_time").alias("last_us"))
        for stream in graph.streams
    ]
    rows = reduce(DataFrame.union, counted).collect()
    for row in rows:
        if row.site is None:
            raise InputError(
                f"{site} is null in {row.events:,} events of {row.stream}",
                remedy="Say of each event where it occurred.",
            )
    return sorted((Observed(*row) for row in rows), key=lambda seen: (seen.stream, seen.site))


def _events(stream: Stream, given: StreamInput) -> DataFrame:
    """Rows of one time that agree in the `unique` attribute are one event."""
    return given.events if stream.unique is None else given.events.dropDuplicates(["_time", stream.unique])


def _duration_s(observed: list[Observed]) -> float:
    first = min((seen.first_us for seen in observed), default=0)
    last = max((seen.last_us for seen in observed), default=0)
    if last <= first:
        raise InputError(
            "there are no two events of different times, so there is no rate", remedy="Give a longer recording."
        )
    return (last - first) / 1e6


def _inter_arrival_s(observed: list[Observed]) -> dict[str, float]:
    """The mean time from an event to the next of its type, at whichever site."""
    inter_arrival_s = {}
    for stream in dict.fromkeys(seen.stream for seen in observed):
        of_type = [seen for seen in observed if seen.stream == stream]
        events = sum(seen.events for seen in of_type)
        if events > 1:
            span_us = max(seen.last_us for seen in of_type) - min(seen.first_us for seen in of_type)
            inter_arrival_s[stream] = span_us / 1e6 / (events - 1)
    return inter_arrival_s


# ---- what operators put out


def filters_of(graph: OperatorGraph) -> list[Definition]:
    """For each step that asks something of its event alone, a definition that finds such events: `Operator.alias`.

    >>> from situ.lang.parse import parse
    >>> text = "stream A(n int, t timestamp) time t subscribe S detect A(n > 1) as a then A(n > a.n) as b within 1 s"
    >>> [definition.name for definition in filters_of(resolve(parse(text)))]
    ['S.a']
    """
    return list({definition.name: definition for definition in _filters(graph)}.values())


def _filters(graph: OperatorGraph) -> Iterator[Definition]:
    for operator in graph.operators:
        for step in (step for case in operator.rule.cases for step in steps_of(case.detect)):
            alone = [
                condition
                for condition in conjuncts(step.test.condition)
                if aliases_of(condition) <= {step.alias}
                and not any(isinstance(node, Aggregate | GroupKey) for node in walk(condition))
            ]
            if alone:
                test = EventTest(step.test.event_type, reduce(lambda a, b: Binary("and", a, b), alone))
                case = Case(Step(test, step.alias), assign=(Assignment("one", Literal(1)),))
                yield Definition(f"{operator.name}.{step.alias}", ("one",), Rule((case,)))


def _read(filter_: Definition) -> str:
    (step,) = steps_of(filter_.rule.cases[0].detect)
    return step.test.event_type


def count_outputs(
    graph: OperatorGraph, inputs: Mapping[str, StreamInput], functions: Functions = default_functions
) -> dict[str, int]:
    """Complex events of every operator, and events that pass each filter, by one run of the query."""
    query = replace(graph.query, definitions=(*graph.query.definitions, *filters_of(graph)))
    detection = detect_inputs(resolve(query, functions), inputs, functions, show_definitions=True)
    complex_events = detection.found.filter(F.col("_kind") == KINDS.index(COMPLEX_EVENT))
    counts = complex_events.groupBy("_name").agg(F.count(F.lit(1)).alias("events")).collect()
    return {detection.output.names[row["_name"]]: row["events"] for row in counts}
