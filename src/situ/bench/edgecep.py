"""EdgeCEP's tabu search against the optimum of the integer program.

`python -m situ.bench.edgecep [--only full limited radius]`

Cases are random: two to five operators that share events, with sources at one to three of 6 to 16 brokers. With limits,
six brokers in ten take a part of the load only, some few operators, and three in ten links and channels carry a part of
the traffic only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from situ.bench.sections import Say
from situ.bench.sections import main as show
from situ.bench.suite import Bar, BenchFigure
from situ.network.network import Link, Network, Site
from situ.placement.coverage import Coverage
from situ.placement.edgecep import decided, flooding_packets
from situ.placement.edgecep_optimal import optimal_sites
from situ.placement.problem import Input, Kind, PlacementError, PlannedOperator, Problem, Sources
from situ.placement.task_flows import TaskFlows

SEEDS = range(1, 201)

#: Plans whose flow volumes differ by less are equal.
ROUNDING = 1e-6


def random_tasks(seed: int, *, limited: bool) -> TaskFlows:
    """A random case. The same seed has the same network and operators with and without limits."""
    rng = np.random.default_rng(seed)
    brokers = int(rng.integers(6, 17))
    pairs = {(int(rng.integers(broker)), broker) for broker in range(1, brokers)}
    while len(pairs) < brokers + brokers // 2:
        a, b = sorted(rng.choice(brokers, 2, replace=False).tolist())
        pairs.add((a, b))
    links = tuple(Link(f"b{a}", f"b{b}", float(rng.uniform(1, 10))) for a, b in sorted(pairs))
    network = Network(tuple(Site(f"b{broker}") for broker in range(brokers)), links)
    operators, sources = _operators(rng, brokers)
    problem = Problem(operators, sources, network, int(rng.integers(brokers)), Coverage())
    return TaskFlows(_with_limits(problem, rng) if limited else problem)


def _operators(rng: np.random.Generator, brokers: int) -> tuple[tuple[PlannedOperator, ...], dict[str, Sources]]:
    sources = {}
    for number in range(int(rng.integers(2, 6))):
        at = rng.choice(brokers, int(rng.integers(1, 4)), replace=False)
        sources[f"E{number}"] = Sources(at, np.exp(rng.uniform(np.log(0.1), np.log(10), len(at))))
    operators: list[PlannedOperator] = []
    for number in range(int(rng.integers(2, 6))):
        known = [*sources, *(operator.name for operator in operators)]
        read = rng.choice(len(known), int(rng.integers(1, min(4, len(known) + 1))), replace=False)
        inputs = tuple(_input(known[k], rng) for k in read)
        operators.append(PlannedOperator(f"C{number}", Kind.OR, inputs, selectivity=float(rng.uniform(0.01, 0.8))))
    read_events = {event for operator in operators for event in operator.events}
    return tuple(operators), {event: each for event, each in sources.items() if event in read_events}


def _input(event: str, rng: np.random.Generator) -> Input:
    text, share = (("", 1.0), ("x > 1", 0.25), ("y = 2", 0.6))[int(rng.choice(3, p=[0.6, 0.2, 0.2]))]
    return Input(event, share, text)


def _with_limits(problem: Problem, rng: np.random.Generator) -> Problem:
    tasks = TaskFlows(problem)
    load = sum(tasks.execution_costs)
    traffic = sum(flow.per_s for flow in tasks.flows([problem.root] * len(problem.operators)))
    sites = tuple(
        replace(
            site,
            load_per_s=float(rng.uniform(0.2, 1) * load) if rng.random() < 0.6 else None,
            operators=int(rng.integers(3)) if rng.random() < 0.3 else None,
            channel_per_s=float(rng.uniform(0.5, 1.5) * traffic) if rng.random() < 0.3 else None,
        )
        for site in problem.network.sites
    )
    links = tuple(
        replace(link, capacity_per_s=float(rng.uniform(0.3, 1.2) * traffic) if rng.random() < 0.3 else None)
        for link in problem.network.links
    )
    return replace(problem, network=Network(sites, links))


def ratio_to_optimum(tasks: TaskFlows, radius: int | None = None) -> float | None:
    """Flow volume over the least that there is; infinite where a plan within the limits was missed, None where there is
    none."""
    try:
        least = tasks.volume(optimal_sites(tasks))
    except PlacementError:
        return None
    sites, _ = decided(tasks, radius)
    if tasks.violation(sites) > ROUNDING:
        return np.inf
    return tasks.volume(sites) / least if least else 1.0


def full(say: Say, seeds: Sequence[int] = SEEDS) -> Iterator[BenchFigure]:
    """Without limits: how often the plan is the optimum."""
    say(f"edgecep against the optimum, {len(seeds)} cases")
    ratios = [ratio for seed in seeds if (ratio := ratio_to_optimum(random_tasks(seed, limited=False))) is not None]
    equal = 100 * float(np.mean(np.array(ratios) <= 1 + ROUNDING))
    detail = f"{len(ratios)} cases; mean {np.mean(ratios):.5f}, worst {max(ratios):.4f} times the optimum"
    name = "edgecep: equal to the optimum, full knowledge, no limits"
    yield BenchFigure(name, round(equal, 2), "% of cases", detail, {"ratios": ratios}, Bar("at least", 99))


def limited(say: Say, seeds: Sequence[int] = SEEDS) -> Iterator[BenchFigure]:
    """With limits: how far the plan is from the optimum, in the mean."""
    say(f"edgecep against the optimum, {len(seeds)} cases with limits")
    ratios = [ratio for seed in seeds if (ratio := ratio_to_optimum(random_tasks(seed, limited=True))) is not None]
    missed = int(sum(map(np.isinf, ratios)))
    within = [ratio for ratio in ratios if np.isfinite(ratio)]
    detail = (
        f"{len(ratios)} of {len(seeds)} cases have a plan within the limits; "
        f"{sum(ratio <= 1 + ROUNDING for ratio in within)} equal, worst {max(within):.4f} times the optimum"
    )
    name, above = "edgecep: above the optimum, full knowledge, with limits", 100 * (float(np.mean(within)) - 1)
    yield BenchFigure(name, round(above, 3), "% in the mean", detail, {"ratios": within}, Bar("at most", 2))
    name = "edgecep: plans beyond limits that can be kept, full knowledge"
    yield BenchFigure(name, missed, "cases", f"of {len(ratios)}", {"missed": missed}, Bar("at most", 0))


def radius(say: Say, seeds: Sequence[int] = SEEDS) -> Iterator[BenchFigure]:
    """What less knowledge costs, without limits, and what it saves of the flooding."""
    for links in (1, 2, 3):
        say(f"edgecep with a radius of {links}, {len(seeds)} cases")
        ratios, flooding = [], []
        for seed in seeds:
            tasks = random_tasks(seed, limited=False)
            if (ratio := ratio_to_optimum(tasks, links)) is not None:
                ratios.append(ratio)
            flooding.append(flooding_packets(tasks.problem, links) / flooding_packets(tasks.problem, None))
        detail = f"{len(ratios)} cases, worst {max(ratios):.3f}; a flood has {np.mean(flooding):.0%} of the packets"
        name = f"edgecep: flow volume over the optimum, radius {links}, no limits"
        yield BenchFigure(name, round(float(np.mean(ratios)), 4), "x", detail, {"ratios": ratios})


SECTIONS = {"full": full, "limited": limited, "radius": radius}

if __name__ == "__main__":
    sys.exit(show(__doc__, SECTIONS))
