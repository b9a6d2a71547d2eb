"""What a placement costs before its first complex event: control packets, in TCEP's measure for each broker (section
3.4: packets that must be sent per broker until a complex event can be delivered to the consumer).

A packet goes from one broker to another, however many hops that is; a broker that passes on what is flooded sends one
of its own. Three things are counted: what brokers tell one another so that sites can be chosen, operators that are
sent to their sites, and subscriptions, from each site that reads an event type to each that sends it.
"""

from __future__ import annotations

from collections.abc import Sequence

from situ.placement.evaluate import traffic_of
from situ.placement.link_load import flows_of
from situ.placement.plan import Placed, Plan
from situ.placement.problem import Problem

#: Of one packet: 91,968 bytes in 958 packets (EdgeCEP, Table II b).
PACKET_BYTES = 96


def control_packets(problem: Problem, plan: Plan) -> int:
    """All packets until the first complex event can come.

    A mechanism that does not count its own runs at one site, the root: every other one reports to it, and operators
    that run elsewhere are sent there.
    """
    packets = plan.packets
    if packets is None:
        packets = len(problem.network.sites) - 1 + sum(placed.site != problem.root for placed in plan.placed)
    return packets + _subscriptions(problem, plan)


def packets_per_broker(problem: Problem, plan: Plan) -> float:
    return control_packets(problem, plan) / len(problem.network.sites)


def bytes_per_broker(problem: Problem, plan: Plan) -> float:
    return PACKET_BYTES * packets_per_broker(problem, plan)


def words_per_s(problem: Problem, placed: Sequence[Placed]) -> float:
    """What sites say beside events and requests while a plan runs, per second, on all links together."""
    return sum(
        (flow.words.questions + flow.words.promises + flow.words.acknowledgements)
        * float(problem.network.ways_from(flow.to).hops[flow.start])
        for flow in flows_of(problem, placed)
    )


def _subscriptions(problem: Problem, plan: Plan) -> int:
    subscriptions = 0
    for sent in traffic_of(problem, plan.placed):
        if sent.event in problem.number:
            origins = [plan.placed[problem.number[sent.event]].site]
        else:
            origins = problem.sources[sent.event].sites.tolist()
        subscriptions += sum(origin != sent.to for origin in origins)
    return subscriptions
