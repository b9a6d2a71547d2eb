"""Plan -> what a demand of a subscription can be about (TCEP, section 3.4, and the metrics of its later library)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from situ.placement.evaluate import latencies, site_loads
from situ.placement.link_load import flows_of
from situ.placement.overhead import bytes_per_broker
from situ.placement.plan import Placed, Plan
from situ.placement.problem import Problem


@dataclass(frozen=True, slots=True)
class Measures:
    """What a plan means for one output.

    `latency_ms`: until the root has it. `hops`: of the longest way of an event that it follows from, by all operators
    between. `load_per_s`: input events at the busiest site that takes part. `bandwidth_delay`: events that are under
    way at a time, messages per second x seconds. `overhead_bytes`: control messages per broker, of the whole plan.
    """

    latency_ms: float
    hops: int
    load_per_s: float
    bandwidth_delay: float
    overhead_bytes: float


def measures_of(problem: Problem, plan: Plan) -> dict[str, Measures]:
    """By the names of outputs."""
    placed = plan.placed
    latencies_ns, hops, loads = latencies(problem, placed), _hops(problem, placed), site_loads(problem, placed)
    to_root, overhead_bytes = problem.network.ways_from(problem.root), bytes_per_broker(problem, plan)
    under_way = _under_way(problem, placed)
    measures = {}
    for output in problem.outputs:
        operators, site = _behind(problem, output), placed[output].site
        events = {event for number in operators for event in problem.operators[number].events}
        events.add(problem.operators[output].name)
        measures[problem.operators[output].name] = Measures(
            (latencies_ns[output] + int(to_root.latency_ns[site])) / 1e6,
            hops[output] + int(to_root.hops[site]),
            max(loads[placed[number].site] for number in operators),
            sum(under_way.get(event, 0.0) for event in sorted(events)),
            overhead_bytes,
        )
    return measures


def _behind(problem: Problem, output: int) -> list[int]:
    """An output's operator and all that it follows from."""
    operators = [output]
    for number in operators:  # grows while it is read
        inputs = [problem.number[event] for event in problem.operators[number].events if event in problem.number]
        operators += [each for each in dict.fromkeys(inputs) if each not in operators]
    return operators


def _hops(problem: Problem, placed: Sequence[Placed]) -> list[int]:
    """Hops of the longest way to each operator."""
    longest: list[int] = []
    for operator, where in zip(problem.operators, placed, strict=True):
        hops = problem.network.ways_from(where.site).hops
        ways = [0]
        for event in operator.events:
            if event in problem.number:
                writer = problem.number[event]
                ways.append(longest[writer] + int(hops[placed[writer].site]))
            else:
                ways.append(int(hops[problem.sources[event].sites].max()))
        longest.append(max(ways))
    return longest


def _under_way(problem: Problem, placed: Sequence[Placed]) -> dict[str, float]:
    """Of each event type, how many events and requests are on links at a time."""
    under_way: dict[str, float] = {}
    for flow in flows_of(problem, placed):
        seconds = float(problem.network.ways_from(flow.to).latency_ns[flow.start]) / 1e9
        under_way[flow.event] = under_way.get(flow.event, 0.0) + flow.load_per_s * seconds
    return under_way
