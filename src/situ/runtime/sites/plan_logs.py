"""The logs of a plan: which there are, what each has, and who reads it."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from situ.graph.operators import OperatorGraph
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.event_counts import single_conditions
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.selections import ALL, Filter, Selection

_SHARED = ""


@dataclass(frozen=True)
class PlanLogs:
    """The logs of a plan, and who reads each: sites whose operators do, and sites whose sinks do. The state of an
    operator that is carried on is a log, too, made where it ran and read where it will. An operator that is cut in time
    has a log at each of its two sites.

    `selections` are those of logs that have not all events of their type. Sites that are pushed the same events read
    one log; a site that pulls has one of its own. `goes_on`: streams that are pulled by operators which also wait for
    complex events made of them; if such a stream were held until it is pulled no more, it would be held for ever.
    `conditions`: by type and `Operator.alias`, what operators ask of single events, for whoever counts them.
    """

    operators: Mapping[LogName, frozenset[str]]
    sinks: Mapping[LogName, frozenset[str]] = field(default_factory=dict)
    selections: Mapping[LogName, Selection] = field(default_factory=dict)
    goes_on: frozenset[str] = frozenset()
    conditions: Mapping[str, Mapping[str, Filter]] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: DeployedPlan, graph: OperatorGraph, selected: Mapping[str, Mapping[str, Selection]]) -> PlanLogs:
        """The logs of a plan whose sites are sent these selections, by type and site."""
        operators: dict[LogName, frozenset[str]] = {}
        sinks: dict[LogName, frozenset[str]] = {}
        selections: dict[LogName, Selection] = {}
        results = frozenset(plan.results)

        def add(event_type: str, origin: str) -> LogName:
            readers = [plan.operators[operator.name] for operator in graph.operators if event_type in operator.inputs]
            reading = frozenset(site for place in readers for site in place.sites)
            whole = LogName("events", event_type, origin, plan.version)
            operators[whole] = frozenset()
            numbers: dict[tuple[Selection, str], int] = {(ALL, _SHARED): 0}
            for site in sorted(reading):
                selection = ALL if site == origin else selected[event_type][site]
                key = selection, site if selection.pulled else _SHARED
                log = LogName("events", event_type, origin, plan.version, numbers.setdefault(key, len(numbers)))
                operators[log] = operators.get(log, frozenset()) | {site}
                if log != whole:
                    selections[log] = selection
            return whole

        for stream in graph.streams:
            for site in plan.sources[stream.name]:
                add(stream.name, site)
                for kind in ("late", "rejected"):
                    log = LogName(kind, stream.name, site, plan.version)
                    operators[log], sinks[log] = frozenset(), results
        for operator in graph.operators:
            place = plan.operators[operator.name]
            for site in place.sites:
                log = add(operator.name, site)
                sinks[log] = frozenset(plan.wanted_at(operator.subscription))
                if operator.rule.timed_out:
                    log = LogName("timed out", operator.name, site, plan.version)
                    operators[log], sinks[log] = frozenset(), results
            if place.carried_from is not None:
                state = LogName("state", operator.name, place.carried_from, plan.version)
                operators[state] = frozenset({place.state_goes_to})
        all_sinks = {log: sinks.get(log, frozenset()) for log in operators}
        return cls(operators, all_sinks, selections, _streams_that_go_on(plan, graph), single_conditions(graph))

    def readers(self, log: LogName) -> frozenset[str]:
        """The sites that read a log, its own among them."""
        return self.operators[log] | self.sinks[log]

    def made_at(self, site: str) -> list[LogName]:
        return [log for log in self.operators if log.origin == site]

    def read_at(self, site: str) -> list[LogName]:
        """The logs of other sites that a site reads."""
        return [log for log in self.operators if log.origin != site and site in self.readers(log)]

    def inputs_at(self, site: str, made: Container[str]) -> list[LogName]:
        """The logs that operators at a site read, states among them, but for those of types that are `made` there
        alone."""
        reading = (log for log in self.operators if site in self.operators[log])
        return sorted(log for log in reading if log.kind == "state" or not (log.origin == site and log.type in made))

    def peers(self, site: str) -> frozenset[str]:
        """The sites that a site sends to or hears from."""
        readers = {reader for log in self.made_at(site) for reader in self.readers(log)}
        return frozenset(readers | {log.origin for log in self.read_at(site)}) - {site}


def _streams_that_go_on(plan: DeployedPlan, graph: OperatorGraph) -> frozenset[str]:
    made_of: dict[str, frozenset[str]] = {stream.name: frozenset({stream.name}) for stream in graph.streams}
    streams: set[str] = set()
    for operator in graph.operators:
        made_of[operator.name] = frozenset().union(*(made_of[event] for event in operator.inputs))
        first, *later = plan.operators[operator.name].steps or ((),)
        pulled = {event for step in later for event in step}
        streams |= pulled & {stream for event in first for stream in made_of[event]}
    return frozenset(streams)
