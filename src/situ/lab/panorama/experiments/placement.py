"""PaNORAMA's Figures 9 to 11: what plans cost and how long they take to find, over what is varied (section 7).

The curves of a figure are those on networks of antennas, which are what the paper used; those on real topologies are
beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Literal

import pyarrow as pa

from situ.lab.figure import Experiment, Figure, Panel, Points, Say, Scale
from situ.lab.panorama.experiments import claims
from situ.lab.panorama.experiments.claims import Judge
from situ.lab.panorama.experiments.measure import HERE, MeasuredPlan, measured
from situ.lab.panorama.experiments.sweeps import EFFORTS, EVERYTHING, Sweep, sweeps
from situ.lab.panorama.experiments.table import Curve, Metric, curves
from situ.placement.cost_models import COST_MODELS

LABELS: dict[Metric, str] = {
    "factor": "transmission factor",
    "discovered": "plans discovered",
    "seconds": "plan time, s",
    "proximity": "cost of the optimum / cost",
}

#: One look for each mechanism, in all figures.
LOOKS = {name: number for number, name in enumerate((*EVERYTHING, "sbon"))}


@dataclass(frozen=True, slots=True)
class Shown:
    """One of the paper's figures: which of the values of a sweep it shows, and what the paper says of it."""

    title: str
    sweep: str
    metric: Metric
    judge: Judge
    log_x: bool = False
    log_y: bool = False


SHOWN = {
    "9a": Shown("How far apart the sources of an event are", "diameter", "factor", claims.diameter),
    "9b": Shown("How skewed the rate of an event is", "skew", "factor", claims.skew, log_x=True),
    "9c": Shown("Windows", "window", "factor", claims.window, log_x=True),
    "10a": Shown("Plans discovered within a latency limit", "latency", "discovered", claims.discovery),
    "10b": Shown("Cost within a latency limit", "latency", "factor", claims.limits),
    "10c": Shown("Chains of complex events", "chain", "factor", claims.chain),
    "10d": Shown("Time to plan", "sites", "seconds", claims.plan_time, log_x=True, log_y=True),
    "10e": Shown("Proximity to the optimum", "sites", "proximity", claims.proximity(0.81, 0.97), log_x=True),
    "10f": Shown("Many runs", "runs", "factor", claims.spread),
    "11a": Shown(
        "Fraud: plans discovered within a latency limit", "fraud latency", "discovered", claims.fraud_discovery
    ),
    "11b": Shown("Fraud: cost within a latency limit", "fraud latency", "factor", claims.fraud_limits),
    "11c": Shown(
        "Fraud: proximity to the optimum", "fraud sites", "proximity", claims.proximity(0.89, 0.94), log_x=True
    ),
    "11d": Shown("Fraud: growing networks", "fraud scale", "factor", claims.fraud_scale, log_x=True),
}

#: Plans that were made, by sweep, cost model, scale and seed: two figures may show the same plans, which take minutes.
_made: dict[tuple[str, str, Scale, int], list[MeasuredPlan]] = {}


def figure(name: str, scale: Scale, seed: int, say: Say, cost: Literal["coverage", "paper"] = "coverage") -> Figure:
    """The figure of that name, with the plans and costs of a cost model."""
    shown, effort = SHOWN[name], EFFORTS[scale]
    sweep = sweeps(effort)[shown.sweep].by(COST_MODELS[cost])
    key = shown.sweep, cost, scale, seed
    if key not in _made:
        _made[key] = plans(sweep, seed, say)
    rows = _made[key]
    here, real = curves(rows, shown.metric, "antennas"), curves(rows, shown.metric, "real")
    over_sites = sweep.label == "sites"
    return Figure(
        name,
        shown.title,
        sweep.label,
        LABELS[shown.metric],
        _points(here, sweep),
        "",
        tuple(shown.judge(here, real)),
        log_x=shown.log_x,
        log_y=shown.log_y,
        setting="antennas" if over_sites else f"antennas, {effort.sites} sites",
        beside=Panel(
            "five real topologies",
            "" if over_sites else sweep.label,
            _points(real, sweep),
            _topologies(rows) if over_sites else {},
        ),
        looks=LOOKS,
        cases=pa.Table.from_pylist([asdict(row) for row in rows]),
    )


FIGURES: dict[str, Experiment] = {name: partial(figure, name) for name in SHOWN}


def plans(sweep: Sweep, seed: int, say: Say) -> list[MeasuredPlan]:
    """The plans of all mechanisms for all cases of a sweep."""
    measured(sweep.real[0], seed, sweep.mechanisms)  # kernels are compiled, or loaded, before anything is timed
    rows: list[MeasuredPlan] = []
    for done, (setting, number) in enumerate(sweep.runs(seed)):
        say(done, sweep.size, sweep.label)
        rows += measured(setting, number, sweep.mechanisms)
    return rows


def _points(curve_of: dict[str, Curve], sweep: Sweep) -> dict[str, Points]:
    """The means over what is varied; how values are distributed, where nothing is."""
    return {name: curve.points if sweep.varies else curve.percentiles for name, curve in curve_of.items()}


def _topologies(rows: Sequence[MeasuredPlan]) -> dict[float, str]:
    """The names of topologies by their sizes."""
    real = sorted((row.x, row.network) for row in rows if row.network != HERE)
    return {sites: f"{network}\n{sites:g} sites" for sites, network in real}
