"""EdgeCEP's Figures 5a to 5c: flow volumes in the three buildings, over what brokers know (section V-A)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa

from situ.lab.claims import CheckedClaim
from situ.lab.edgecep.experiments.claims import ratio_claim
from situ.lab.edgecep.scenarios import three_buildings
from situ.lab.figure import QUICK, Experiment, Figure, Points, Say, Scale
from situ.placement.edgecep import Sites, flooding_packets, rounds
from situ.placement.edgecep_optimal import optimal_sites
from situ.placement.hop import hop
from situ.placement.task_flows import ROUNDING, TaskFlows

#: Of the paper's Figure 5a: milliseconds between two messages of a sensor, and links that a broker sees.
PERIODS_MS = (100.0, 150.0, 200.0, 250.0, 300.0)
RADII = (1, 2, 3, 4, 5, 6)
#: The radius with which the broker that is furthest away sees the server, and one with which all see all.
REACHES_SERVER, REACHES_ALL = 5, 10


@dataclass(frozen=True, slots=True)
class Settled:
    """How brokers of a radius come to rest: flow volume at first and after each round, and how far limits are exceeded
    at the end, in sum."""

    period_ms: float
    radius: int
    volumes: tuple[float, ...]
    violation: float
    flood_packets: int

    @property
    def volume(self) -> float:
        return self.volumes[-1]

    def row(self) -> dict[str, float]:
        return {
            "period_ms": self.period_ms, "radius": self.radius, "volume": self.volume, "violation": self.violation,
            "rounds": len(self.volumes) - 1, "flood_packets": self.flood_packets,
        }  # fmt: skip


@cache
def settled(period_ms: float, radius: int) -> Settled:
    """Nothing is drawn by chance here, so the figures share what was computed."""
    tasks = TaskFlows.of(three_buildings(period_ms))
    steps: list[Sites] = [sites for sites, _ in rounds(tasks, radius)]
    volumes = tuple(tasks.volume(sites) for sites in steps)
    packets = flooding_packets(tasks.problem, radius)
    return Settled(period_ms, radius, volumes, tasks.violation(steps[-1]), packets)


def _effort(scale: Scale) -> tuple[tuple[float, ...], tuple[int, ...]]:
    return ((300.0,), (1, REACHES_SERVER)) if scale is QUICK else (PERIODS_MS, (*RADII, REACHES_ALL))


def _all(scale: Scale, figure: str, say: Say) -> dict[tuple[float, int], Settled]:
    periods, radii = _effort(scale)
    cases = [(period_ms, radius) for period_ms in periods for radius in radii]
    found = {}
    for done, (period_ms, radius) in enumerate(cases):
        say(done, len(cases), f"{figure}: every {period_ms:g} ms, radius {radius}")
        found[period_ms, radius] = settled(period_ms, radius)
    return found


def figure_5a(scale: Scale, seed: int, say: Say) -> Figure:
    """The flow volume when no broker changes its mind any more, over the radius."""
    found = _all(scale, "5a", say)
    periods, radii = _effort(scale)
    best = {period: _optimum(period) for period in periods}
    curves: dict[str, Points] = {
        f"every {period:g} ms": tuple((float(radius), found[period, radius].volume) for radius in radii)
        for period in periods
    }
    return Figure(
        "5a", "Three buildings: what a larger radius is worth", "radius, links", "flow volume, KB/s x hops", curves,
        "Knowledge decides: too little of it, a radius of 1 at the highest rate, costs 1.8 times as much as a larger "
        "one; a larger radius is not always better; the radius that covers the server gives the global optimum.",
        _parts_5a(found, best), log_y=True, cases=pa.Table.from_pylist([each.row() for each in found.values()]),
    )  # fmt: skip


def _optimum(period_ms: float) -> float:
    tasks = TaskFlows.of(three_buildings(period_ms))
    return tasks.volume(optimal_sites(tasks))


def _parts_5a(found: dict[tuple[float, int], Settled], best: dict[float, float]) -> tuple[CheckedClaim, ...]:
    periods = sorted(best)
    radii = sorted({radius for _, radius in found})
    first, widest = found[periods[0], radii[0]], found[periods[0], radii[-1]]
    little = first.volume / widest.volume
    over = max(found[period, REACHES_SERVER].volume / best[period] for period in periods)
    exceeds = max(found[period, REACHES_SERVER].violation for period in periods)
    full = max(found[period, radii[-1]].volume / best[period] for period in periods)
    worse = [
        f"{b} rather than {a} at {period:g} ms"
        for period in periods
        for a, b in pairwise(radii)
        if found[period, b].volume > found[period, a].volume * (1 + ROUNDING)
        and found[period, b].violation >= found[period, a].violation - ROUNDING
    ]
    return (
        ratio_claim(
            "at the highest rate, a radius of 1 costs 1.8 times as much as full knowledge (73,440 and 41,280)",
            f"{little:.2f} times, and it exceeds limits by {first.violation:.2f} of them, full knowledge by "
            f"{widest.violation:.2f}",
            73_440 / 41_280,
            little,
        ),
        CheckedClaim(
            "too little knowledge overloads brokers",
            f"with a radius of {radii[0]}, limits are exceeded by {first.violation:.2f} of them in sum at the highest "
            f"rate",
            first.violation > ROUNDING,
        ),
        CheckedClaim(
            "the radius that covers the server is enough for the optimum",
            f"with {REACHES_SERVER} links, at most {over:.3f} times the optimum of the integer program, and limits are "
            f"exceeded by {exceeds:.2f}",
            over <= 1.02 and exceeds <= ROUNDING,
        ),
        CheckedClaim(
            "a radius that covers all brokers leads to the global optimum (Theorem 1)",
            f"at most {full:.3f} times the optimum",
            full <= 1 + ROUNDING,
        ),
        CheckedClaim(
            "a larger radius is not always better",
            f"worse is a radius of {', '.join(worse)}" if worse else "it is never worse here",
            bool(worse),
        ),
    )


def figure_5b(scale: Scale, seed: int, say: Say) -> Figure:
    """The flow volume after each round of decisions, at the highest rate."""
    found = _all(scale, "5b", say)
    period = min(period for period, _ in found)
    of_radius = {radius: each for (p, radius), each in found.items() if p == period}
    curves: dict[str, Points] = {
        f"radius {radius}": tuple((float(number), volume) for number, volume in enumerate(each.volumes))
        for radius, each in of_radius.items()
    }
    least, *_, most = (of_radius[radius] for radius in sorted(of_radius))
    longest = max(len(each.volumes) - 1 for each in of_radius.values())
    return Figure(
        "5b", "Three buildings: until brokers are at rest", "rounds of decisions", "flow volume, KB/s x hops", curves,
        "With much knowledge, volumes are larger at early steps, since tasks are taken far from their sources for a "
        "better result over the whole way.",
        (
            CheckedClaim(
                "with much knowledge the volume is larger at early steps than with little",
                f"after the first round {most.volumes[1]:,.0f} with full knowledge and {least.volumes[1]:,.0f} with a "
                f"radius of {least.radius}",
                most.volumes[1] > least.volumes[1] * (1 + ROUNDING),
            ),
            CheckedClaim(
                "brokers come to rest within the steps that are shown",
                f"after {longest} rounds at most, the last of which changes nothing",
                longest < 50,
            ),
        ),
        cases=pa.Table.from_pylist([each.row() for each in of_radius.values()]),
    )  # fmt: skip


def figure_5c(scale: Scale, seed: int, say: Say) -> Figure:
    """Against the hop-based baseline, over the rate."""
    periods, _ = _effort(scale)
    rows = []
    for done, period in enumerate(periods):
        say(done, len(periods), f"5c: every {period:g} ms")
        tasks = TaskFlows.of(three_buildings(period))
        sites = tuple(placed.site for placed in hop(tasks.problem).placed)
        ours = settled(period, REACHES_ALL)
        rows.append(
            {
                "period_ms": period, "ours": ours.volume, "hop": tasks.volume(sites),
                "violation_ours": ours.violation, "violation_hop": tasks.violation(sites),
            }
        )  # fmt: skip
    ratios = np.array([row["hop"] / row["ours"] for row in rows])
    exceeds = max(row["violation_hop"] for row in rows)
    curves: dict[str, Points] = {
        name: tuple((row["period_ms"], row[key]) for row in rows)
        for name, key in (("flow-based", "ours"), ("hop-based", "hop"))
    }
    return Figure(
        "5c", "Three buildings: against the hop-based approach", "ms between two messages of a sensor",
        "flow volume, KB/s x hops", curves,
        "The flow-based assignment always costs as much as the hop-based one, or less.",
        (
            CheckedClaim(
                "flow-based is never above hop-based",
                f"hop-based has {ratios.min():.2f} to {ratios.max():.2f} times the volume of flow-based, and exceeds "
                f"limits by up to {exceeds:.2f}",
                bool(ratios.min() >= 1 - ROUNDING),
            ),
        ),
        log_y=True, cases=pa.Table.from_pylist(rows),
    )  # fmt: skip


FIGURES: dict[str, Experiment] = {"5a": figure_5a, "5b": figure_5b, "5c": figure_5c}
