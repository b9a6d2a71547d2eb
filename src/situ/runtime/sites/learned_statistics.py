"""What running sites have counted -> the statistics that the planner needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from situ.core.errors import InputError
from situ.graph.operators import OperatorGraph
from situ.network.statistics import Statistics
from situ.placement.selectivities import selectivities

#: What a site says of itself (status.py), by its name.
Reports = Mapping[str, Mapping[str, Any]]

#: A source that has had no event yet is taken to be about to have one: it is a source all the same.
_ABOUT_TO = 0.5


@dataclass(frozen=True, slots=True)
class CountedType:
    """Events of one type that were made at one site, in a time."""

    type: str
    site: str
    events: int
    seconds: float
    passing: Mapping[str, int]

    @property
    def per_s(self) -> float:
        return self.events / self.seconds


def learned_statistics(
    graph: OperatorGraph,
    reports: Reports,
    before: Reports | None = None,
    round_trips_s: Mapping[str, Mapping[str, float]] | None = None,
) -> Statistics:
    """Rates and selectivities since the sites were started, or since the reports `before`; and latencies of links,
    which are half of their round trips. InputError if there is nothing to learn from yet.

    Rates are events over event time, up to the last event of all. The selectivity of an operator is what it has made,
    over what the cost model `coverage` expects of inputs that come at these rates.
    """
    counted = list(counted_types(reports, before))
    rates_per_s = Counter[str]()
    events, passing = Counter[str](), Counter[str]()
    for of_site in counted:
        rates_per_s[of_site.type] += of_site.per_s  # type: ignore[assignment]  # of numbers, not of whole ones
        events[of_site.type] += of_site.events
        passing.update(of_site.passing)
    streams = {stream.name for stream in graph.streams}
    rates: dict[str, dict[str, float]] = {stream: {} for stream in sorted(streams)}
    for of_site in counted:
        if of_site.type in streams:
            rates[of_site.type][of_site.site] = of_site.per_s
    longest_s = max(of_site.seconds for of_site in counted)
    for site, report in reports.items():
        for stream in streams & report["sources"].keys():
            rates[stream].setdefault(site, _ABOUT_TO / longest_s)
    inputs = {f"{operator.name}.": operator.name for operator in graph.operators}
    shares = {
        name: min(1.0, count / events[read])
        for name, count in passing.items()
        if name[: name.index(".") + 1] in inputs and events[read := _read_by(graph, name)]
    }
    latency_ms = {
        site: {other: round(seconds * 500, 3) for other, seconds in others.items()}
        for site, others in (round_trips_s or {}).items()
        if others
    }
    known = {name: rates_per_s[name] for name in (*streams, *(operator.name for operator in graph.operators))}
    return Statistics(rates, selectivities(graph, known, shares) | shares, latency_ms=latency_ms)


def counted_types(reports: Reports, before: Reports | None = None) -> Iterator[CountedType]:
    """What the newest version has counted, by type and site; InputError if no time has passed."""
    version = str(max((int(number) for report in reports.values() for number in report["versions"]), default=0))
    tallies, tallies_before = dict(_tallies(reports, version)), dict(_tallies(before or {}, version))
    last_us = max((tally["latest_us"] for tally in tallies.values()), default=0)
    first_us = min((tally["first_us"] for tally in tallies.values()), default=0)
    before_us = max((tally["latest_us"] for tally in tallies_before.values()), default=None)
    since_us = first_us if before_us is None else before_us
    if last_us <= since_us:
        raise InputError(
            "sites have not counted two events of different times", remedy="Wait until events have come, and ask again."
        )
    for (event_type, site), tally in tallies.items():
        earlier, begin_us = tallies_before.get((event_type, site)), since_us
        if earlier is None or earlier["events"] > tally["events"]:  # it was started again, and counts anew
            earlier = {"events": 0, "passing": {}}
            begin_us = max(since_us, first_us if tally["since_us"] is None else tally["since_us"])
        passing = {name: count - earlier["passing"].get(name, 0) for name, count in tally["passing"].items()}
        seconds = max(last_us - begin_us, 1) / 1e6
        yield CountedType(event_type, site, tally["events"] - earlier["events"], seconds, passing)


def _tallies(reports: Reports, version: str) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    for site, report in reports.items():
        for event_type, tally in report["versions"].get(version, {}).get("counted", {}).items():
            if tally["events"]:
                yield (event_type, site), tally


def _read_by(graph: OperatorGraph, name: str) -> str:
    """The event type that an operator reads under an alias."""
    from situ.graph.patterns import steps_of

    operator, _, alias = name.rpartition(".")
    for each in graph.operators:
        for case in each.rule.cases if each.name == operator else ():
            for step in steps_of(case.detect):
                if step.alias == alias:
                    return step.test.event_type
    return ""
