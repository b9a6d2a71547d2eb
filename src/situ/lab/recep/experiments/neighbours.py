"""RECEP's Figures 8e to 8g: how many neighbours, how far away, and how quality is predicted (sections 5.2 and 5.3).

The paper's interests have a side of 5,000 m. Here such an interest holds the whole town, or all but its rim, and what
is processed for others is just what they asked for. So each figure also has interests of 2,000 m.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import get_args

import numpy as np

from situ.lab.claims import CheckedClaim
from situ.lab.figure import QUICK, Experiment, Figure, Points, Say, Scale
from situ.lab.recep.experiments.cases import RunSetup, S, means, measured, processed_share, runs, told
from situ.lab.recep.selections import ByCount, ByTime, Nearest, ReuseSettings
from situ.lab.recep.selections.settings import Predictor

SIDES_M = (2000, 5000)
#: Of Figures 8e and 8f: k_p and d, and what is asked for.
NEIGHBOURS, FEW_NEIGHBOURS = (1, 2, 3, 5, 8, 14), (1, 4)
DISTANCES_M, FEW_DISTANCES_M = (500, 1000, 2000), (500, 2000)
CARS, FEW_CARS, THRESHOLD = 15, 6, 0.5
RENEWED_US = 2 * S
#: Of Figure 8g.
PREDICTING_CARS, BATCH_US = 5, 10 * S
THRESHOLDS, FEW_THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9), (0.5, 0.9)
#: Less than this is no difference.
VISIBLE = 0.005
PREDICTORS: tuple[Predictor, ...] = get_args(Predictor)


def figure_8e(scale: Scale, seed: int, say: Say) -> Figure:
    """Selections processed, relative to no reuse, by the number of neighbours and their distance."""
    shares: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, run in told(_by_neighbours(scale, seed), say):
        shares[name][_neighbours(run).most].append(processed_share(run))
    curves = means(shares)
    return Figure(
        "8e",
        "selections processed, by processing neighbours",
        "processing neighbours (at most)",
        "selections processed, relative to no reuse",
        curves,
        "The savings gradually increase with the number of neighbours, since more reuse is allowed.",
        tuple(falls_along(_of_side(curves, side_m), f"more neighbours save more ({side_m} m)") for side_m in SIDES_M),
    )


def figure_8f(scale: Scale, seed: int, say: Say) -> Figure:
    """Disparity of what is delivered, of the same runs."""
    disparities: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, run in told(_by_neighbours(scale, seed), say):
        disparity = measured(run).disparity
        if len(disparity):
            disparities[name][_neighbours(run).most].append(float(disparity.mean()))
    curves = means(disparities)
    return Figure(
        "8f",
        "disparity, by processing neighbours",
        "processing neighbours (at most)",
        "disparity, as measured",
        curves,
        "Disparity drops with the number of neighbours and with their distance to each other.",
        (
            *(falls_along(_of_side(curves, side_m), f"it drops with neighbours ({side_m} m)") for side_m in SIDES_M),
            *(lower_farther(_of_side(curves, side_m), f"and with their distance ({side_m} m)") for side_m in SIDES_M),
        ),
    )


def figure_8g(scale: Scale, seed: int, say: Say) -> Figure:
    """The quality of what is delivered, by how it is predicted for selections whose events are still to come."""
    quality: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    shares: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, run in told(_by_predictor(scale, seed), say):
        shares[name][run.threshold].append(processed_share(run))
        if len(qualities := measured(run).quality):
            quality[name][run.threshold].append(float(qualities.mean()))
    curves, processed = means(quality), means(shares)
    parts = [
        part
        for side_m in SIDES_M
        for part in predicted_as_said(_of_side(curves, side_m), _of_side(processed, side_m), side_m)
    ]
    curves["the threshold"] = tuple((x, x) for x in (FEW_THRESHOLDS if scale is QUICK else THRESHOLDS))
    return Figure(
        "8g",
        "quality of what is delivered, by prediction",
        "threshold of precision and recall",
        "mean of precision and recall, as measured",
        curves,
        "The optimistic approach reuses many selections of a bad quality, since it always overestimates. The "
        "pessimistic one misses many opportunities, but reuses only selections of good quality. Event pattern and "
        "current selection settle between both.",
        tuple(parts),
    )


FIGURES: dict[str, Experiment] = {"8e": figure_8e, "8f": figure_8f, "8g": figure_8g}


# ---- runs


def _by_neighbours(scale: Scale, seed: int) -> dict[str, list[RunSetup]]:
    """Of Figures 8e and 8f: single selections and `mnh`."""
    most, distances_m = (FEW_NEIGHBOURS, FEW_DISTANCES_M) if scale is QUICK else (NEIGHBOURS, DISTANCES_M)
    cars = FEW_CARS if scale is QUICK else CARS
    settings = ReuseSettings("mnh", ByCount(1), renew_us=RENEWED_US)
    return {
        f"{side_m} m, no farther than {distance_m} m": [
            run
            for k in most
            for run in runs(
                scale, seed, (THRESHOLD,), cars, side_m, replace(settings, neighbours=Nearest(distance_m, k))
            )
        ]
        for side_m in SIDES_M
        for distance_m in distances_m
    }


def _neighbours(run: RunSetup) -> Nearest:
    assert run.settings.neighbours is not None
    return run.settings.neighbours


def _by_predictor(scale: Scale, seed: int) -> dict[str, list[RunSetup]]:
    thresholds = FEW_THRESHOLDS if scale is QUICK else THRESHOLDS
    return {
        f"{side_m} m, {predictor}": runs(
            scale,
            seed,
            thresholds,
            PREDICTING_CARS,
            side_m,
            ReuseSettings("mqc", ByTime(BATCH_US), predictor=predictor),
        )
        for side_m in SIDES_M
        for predictor in PREDICTORS
    }


def _of_side(curves: Mapping[str, Points], side_m: float) -> dict[str, Points]:
    """The curves of interests of one side, without it in their names."""
    head = f"{side_m:g} m, "
    return {name.removeprefix(head): points for name, points in curves.items() if name.startswith(head)}


# ---- parts of claims


def falls_along(curves: Mapping[str, Points], claim: str) -> CheckedClaim:
    """Whether curves end lower than they begin, and none higher: some may have no more to choose from."""
    ends = {name: (points[0][1], points[-1][1]) for name, points in curves.items()}
    seen = ", ".join(f"{name} from {first:.3f} to {last:.3f}" for name, (first, last) in ends.items())
    change = [last - first for first, last in ends.values()]
    return CheckedClaim(claim, seen, max(change) < VISIBLE and min(change) < -VISIBLE)


def lower_farther(curves: Mapping[str, Points], claim: str) -> CheckedClaim:
    """Whether the mean of each curve is below that of the one before."""
    mean = {name: float(np.mean([y for _, y in points])) for name, points in curves.items()}
    seen = ", ".join(f"{name} {value:.3f}" for name, value in mean.items())
    return CheckedClaim(claim, f"on average: {seen}", all(b < a - VISIBLE for a, b in pairwise(mean.values())))


def predicted_as_said(
    quality: Mapping[str, Points], processed: Mapping[str, Points], side_m: float
) -> list[CheckedClaim]:
    """By means over all thresholds."""
    mean, share = ({name: float(np.mean([y for _, y in points])) for name, points in curves.items()}
                   for curves in (quality, processed))  # fmt: skip
    least, most = mean["optimistic"], mean["pessimistic"]
    between = {name: mean[name] for name in ("event pattern", "current selection")}
    seen = ", ".join(f"{name} {value:.3f}" for name, value in mean.items())
    return [
        CheckedClaim(
            f"optimistic gives the lowest quality, pessimistic the highest ({side_m:g} m)",
            f"on average: {seen}",
            least < min(between.values()) - VISIBLE and most > max(between.values()) + VISIBLE,
        ),
        CheckedClaim(
            f"pessimistic misses reuse, optimistic reuses most ({side_m:g} m)",
            "processed: " + ", ".join(f"{name} {value:.0%}" for name, value in share.items()),
            share["optimistic"] < min(share[name] for name in between) - VISIBLE
            and share["pessimistic"] > max(share[name] for name in between) + VISIBLE,
        ),
    ]
