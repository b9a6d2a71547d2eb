"""TCEP's Figure 2: relaxation and Mobile DCEP beside each other, for queries that are deployed one after another
(section 2.2).

What the planner says of both: latency as it predicts it, control messages as it counts them until the first complex
event. What vehicles that move would add is not in it.
"""

from __future__ import annotations

import numpy as np

from situ.lab.claims import CheckedClaim
from situ.lab.figure import QUICK, Experiment, Figure, Points, Say, Scale
from situ.lab.tcep.scenario import OPERATORS, PRODUCERS, TransitionSetting, query_text
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.network import Link, Network, Site
from situ.network.statistics import Statistics
from situ.placement.coverage import Coverage
from situ.placement.from_graph import problem_of
from situ.placement.mechanisms import mechanism
from situ.placement.overhead import PACKET_BYTES, control_packets

#: Table 1. Brokers form a tree with some links more: where all are joined to all there is nothing to find out.
BROKERS, CONSUMERS, QUERIES, MORE_LINKS = 10, 4, 50, 4
MEAN_MS, DEVIATION_MS = 20.0, 10.0
BOTH = {"relaxation": "Relaxation", "mobile": "Mobile DCEP"}
#: Of the joins, the share that the selection passes on: ours.
PASSED = 0.5


def brokers(seed: int) -> Network:
    """Ten brokers; producers and consumers are at some of them. Latencies are drawn as Table 1 says."""
    rng = np.random.default_rng(seed)
    names = [f"b{n}" for n in range(BROKERS)]
    pairs = {(n, int(rng.integers(n))) for n in range(1, BROKERS)}
    while len(pairs) < BROKERS - 1 + MORE_LINKS:
        a, b = sorted(rng.choice(BROKERS, 2, replace=False).tolist(), reverse=True)
        pairs.add((a, b))
    links = [Link(names[a], names[b], float(max(1.0, rng.normal(MEAN_MS, DEVIATION_MS)))) for a, b in sorted(pairs)]
    return Network(tuple(map(Site, names)), tuple(links))


def figure_2(scale: Scale, seed: int, say: Say) -> Figure:
    """Latency and control messages of queries, as shares of them."""
    queries = 5 if scale is QUICK else QUERIES
    network, rng, setting = brokers(seed), np.random.default_rng(seed + 1), TransitionSetting()
    graph = resolve(parse(query_text(setting)))
    sites = rng.choice(BROKERS, len(PRODUCERS) + CONSUMERS, replace=False)
    producers, consumers = sites[: len(PRODUCERS)], sites[len(PRODUCERS) :]
    rates = {
        stream: {network.names[site]: setting.rows_per_s} for stream, site in zip(PRODUCERS, producers, strict=True)
    }
    statistics = Statistics(rates, {f"{[*OPERATORS][-1]}0": PASSED})
    latency: dict[str, list[float]] = {name: [] for name in BOTH}
    overhead: dict[str, list[float]] = {name: [] for name in BOTH}
    for query in range(queries):
        say(query, queries, "2")
        root = network.names[int(rng.choice(consumers))]
        problem = problem_of(graph, network, statistics, Coverage(), root=root)
        for name in BOTH:
            plan = mechanism(name)(problem)
            latency[name].append(plan.latency_ms)
            before = overhead[name][-1] if overhead[name] else 0.0
            overhead[name].append(before + control_packets(problem, plan) * PACKET_BYTES / 1000)
    say(queries, queries, "")
    curves = {BOTH[name]: _distribution(of) for name, of in latency.items()}
    fast = float(np.mean(np.array(latency["relaxation"]) < 100))
    slow = float(np.mean(latency["mobile"]))
    parts = (
        CheckedClaim(
            "Relaxation finds less than 100 ms for 80% of the queries", f"for {fast:.0%}", abs(fast - 0.8) <= 0.03
        ),
        CheckedClaim(
            "Mobile DCEP takes about 7.5 s in the mean",
            f"{slow:.0f} ms; Relaxation {np.mean(latency['relaxation']):.0f} ms",
            abs(slow / 7_500 - 1) <= 0.25,
        ),
        CheckedClaim(
            "Relaxation is faster than Mobile DCEP",
            f"{np.mean(latency['relaxation']):.0f} ms against {slow:.0f} ms, in the mean",
            bool(np.mean(latency["relaxation"]) < slow),
        ),
        CheckedClaim(
            "the messages of Relaxation grow with the queries, up to 1,500 KB",
            f"{overhead['relaxation'][-1]:,.0f} KB for {queries} queries",
            abs(overhead["relaxation"][-1] / 1_500 - 1) <= 0.25,
        ),
        CheckedClaim(
            "Mobile DCEP has fewer control messages than Relaxation",
            f"{overhead['mobile'][-1]:,.0f} KB against {overhead['relaxation'][-1]:,.0f} KB",
            overhead["mobile"][-1] < overhead["relaxation"][-1],
        ),
    )
    return Figure(
        "2", "Two mechanisms: latency of queries", "latency, ms", "share of queries", curves,
        "Relaxation is fast and takes many control messages; Mobile DCEP takes few and is slow.", parts,
    )  # fmt: skip


FIGURES: dict[str, Experiment] = {"2": figure_2}


def _distribution(values: list[float]) -> Points:
    return tuple((value, (number + 1) / len(values)) for number, value in enumerate(sorted(values)))
