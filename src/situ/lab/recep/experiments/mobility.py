"""RECEP's Figures 8a to 8d: how much work is shared, at which quality, and what finding it costs (section 5.1).

25 consumers, processing phases every second, batches of 10 s, unless these are varied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from situ.lab.claims import CheckedClaim
from situ.lab.figure import QUICK, Experiment, Figure, Points, Say, Scale
from situ.lab.recep.experiments.cases import RunSetup, S, crowded, means, measured, processed_share, runs, told
from situ.lab.recep.selections import ByCount, ByTime, ReuseSettings

CARS, FEW_CARS = 25, 6
SIDES_M, FEW_SIDES_M = (500, 1000, 2000, 5000), (500, 2000)
THRESHOLDS, FEW_THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0), (0.5, 0.9)
#: Of Figure 8c; the paper does not say which.
SIDE_M = 2000
#: Of Figure 8d.
CAR_COUNTS, FEW_CAR_COUNTS, WHOLE_TOWN_M = (5, 10, 15, 20, 25), (2, 6), 5000

#: Means are rounded.
ROUNDING = 1e-9
HEURISTICS: tuple[Literal["mqc", "mnh"], ...] = ("mqc", "mnh")
BATCH_US = 10 * S
BATCHES, SINGLE = "batches", "single selections"


def figure_8a(scale: Scale, seed: int, say: Say) -> Figure:
    """Selections processed, relative to no reuse, by threshold, side and heuristic."""
    shares: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, run in told(_by_side(scale, seed), say):
        shares[name][run.threshold].append(processed_share(run))
    curves = means(shares)
    sides_m = FEW_SIDES_M if scale is QUICK else SIDES_M
    near = [crowded(run) for run in _by_side(scale, seed)[f"mqc, {sides_m[0]} m"]]
    return Figure(
        "8a",
        "selections processed with reuse",
        "threshold of precision and recall",
        "selections processed, relative to no reuse",
        curves,
        "At a lower threshold by far more selections are reused, since more can cover each other, but only where "
        "interests overlap enough: at a side of 500 m nearly no reuse is possible. MQC saves slightly more than MNH.",
        (
            lower_at_less(curves),
            lower_for_larger(curves, sides_m),
            nearly_none(curves[f"mqc, {sides_m[0]} m"], sides_m[0], float(np.mean(near))),
            mqc_saves_more(curves),
        ),
    )


def figure_8b(scale: Scale, seed: int, say: Say) -> Figure:
    """The quality of what is delivered, as measured, of the same runs."""
    figures_of: dict[str, dict[float, list[tuple[float, float, float, float]]]] = defaultdict(lambda: defaultdict(list))
    for name, run in told(_by_side(scale, seed), say):
        got = measured(run)
        if len(got.quality):
            figures = (got.quality.mean(), got.quality.std(), got.precision.mean(), got.recall.mean())
            figures_of[name][run.threshold].append(figures)
    middle = {name: {x: np.mean(samples, axis=0) for x, samples in by_x.items()} for name, by_x in figures_of.items()}
    curves: dict[str, Points] = {
        name: tuple((x, float(samples[0])) for x, samples in by_x.items()) for name, by_x in middle.items()
    }
    deviations = {name: tuple(float(samples[1]) for samples in by_x.values()) for name, by_x in middle.items()}
    least = {(name, x): float(min(samples[2:])) for name, by_x in middle.items() for x, samples in by_x.items()}
    curves["the threshold"] = tuple((x, x) for x in _thresholds(scale))
    return Figure(
        "8b",
        "quality of what is delivered",
        "threshold of precision and recall",
        "mean of precision and recall, as measured",
        curves,
        "All operators of an operator graph keep the threshold together: the average quality always remains above it, "
        "with a low standard deviation.",
        (stays_above(least), deviates_little(deviations)),
        deviations=deviations,
    )


def figure_8c(scale: Scale, seed: int, say: Say) -> Figure:
    """Estimations for each selection that is covered, in batches and one by one."""
    spent: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    cases = {
        f"{heuristic}, {how}": _runs(scale, seed, SIDE_M, ReuseSettings(heuristic, batch))
        for how, batch in ((BATCHES, ByTime(BATCH_US)), (SINGLE, ByCount(1)))
        for heuristic in HEURISTICS
    }
    for name, run in told(cases, say):
        got = measured(run)
        if got.covered:
            spent[name][run.threshold].append(got.estimations / got.covered)
    curves = means(spent)
    return Figure(
        "8c",
        "what it costs to find what can be shared",
        "threshold of precision and recall",
        "estimations per covered selection",
        curves,
        "Batches need far fewer estimations of quality than single selections. MQC incurs more overhead than MNH.",
        (batches_need_fewer(curves), mnh_needs_fewer(curves)),
        log_y=True,
    )


def figure_8d(scale: Scale, seed: int, say: Say) -> Figure:
    """Selections processed, relative to no reuse, by the number of consumers."""
    shares: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    counts = FEW_CAR_COUNTS if scale is QUICK else CAR_COUNTS
    settings = ReuseSettings("mqc", ByTime(BATCH_US))
    cases = {f"{cars} cars": runs(scale, seed, _thresholds(scale), cars, WHOLE_TOWN_M, settings) for cars in counts}
    for name, run in told(cases, say):
        shares[name][run.threshold].append(processed_share(run))
    curves = means(shares)
    return Figure(
        "8d",
        "selections processed, by the number of consumers",
        "threshold of precision and recall",
        "selections processed, relative to no reuse",
        curves,
        "With more queries selections can be reused by more operators, since interests overlap much: a lower share of "
        "selections is processed.",
        (lower_with_more(curves),),
    )


FIGURES: dict[str, Experiment] = {"8a": figure_8a, "8b": figure_8b, "8c": figure_8c, "8d": figure_8d}


# ---- runs


def _runs(scale: Scale, seed: int, side_m: float, settings: ReuseSettings) -> list[RunSetup]:
    return runs(scale, seed, _thresholds(scale), FEW_CARS if scale is QUICK else CARS, side_m, settings)


def _thresholds(scale: Scale) -> tuple[float, ...]:
    return FEW_THRESHOLDS if scale is QUICK else THRESHOLDS


def _by_side(scale: Scale, seed: int) -> dict[str, list[RunSetup]]:
    """Of Figures 8a and 8b."""
    return {
        f"{heuristic}, {side_m} m": _runs(scale, seed, side_m, ReuseSettings(heuristic, ByTime(BATCH_US)))
        for heuristic in HEURISTICS
        for side_m in (FEW_SIDES_M if scale is QUICK else SIDES_M)
    }


# ---- parts of claims


def lower_at_less(curves: Mapping[str, Points]) -> CheckedClaim:
    """Whether each curve is lower at its lowest threshold than at its highest."""
    ends = {name: (points[0][1], points[-1][1]) for name, points in curves.items()}
    told_ends = ", ".join(f"{name} {low:.0%} against {high:.0%}" for name, (low, high) in ends.items())
    (first, *_, last) = next(iter(curves.values()))
    return CheckedClaim(
        "the lower the threshold, the more is reused",
        f"processed at {first[0]:g} and at {last[0]:g}: {told_ends}",
        all(low < high for low, high in ends.values()),
    )


def lower_for_larger(curves: Mapping[str, Points], sides_m: Sequence[int]) -> CheckedClaim:
    """Whether larger interests have the lower curve, at every threshold."""
    by_side = [[dict(curves[f"{heuristic}, {side_m} m"]) for side_m in sides_m] for heuristic in HEURISTICS]
    thresholds = list(by_side[0][0])
    so = [x for x in thresholds if all(a[x] > b[x] for by_threshold in by_side for a, b in pairwise(by_threshold))]
    not_so = [x for x in thresholds if x not in so]
    seen = f"so it is at {_listed(so)}" + (f", but not at {_listed(not_so)}" if not_so else "")
    return CheckedClaim("the larger the interests, the more is reused", seen, not not_so)


def _listed(thresholds: Sequence[float]) -> str:
    return ", ".join(f"{x:g}" for x in thresholds) or "no threshold"


def nearly_none(points: Points, side_m: float, near: float) -> CheckedClaim:
    """`near`: the share of consumers that have another one within their interest."""
    least = min(y for _, y in points)
    return CheckedClaim(
        f"nearly no reuse at {side_m:g} m, where interests hardly overlap (here: 90% or more are processed)",
        f"{least:.0%} or more are processed; {near:.0%} of the consumers have another one in their interest",
        least >= 0.9,
    )


def mqc_saves_more(curves: Mapping[str, Points]) -> CheckedClaim:
    """On average over all that both did."""
    mean = {one: np.mean([y for name, points in curves.items() if name.startswith(one) for _, y in points])
            for one in HEURISTICS}  # fmt: skip
    return CheckedClaim(
        "MQC saves slightly more than MNH",
        f"mqc processes {mean['mqc']:.1%}, mnh {mean['mnh']:.1%} on average",
        bool(mean["mqc"] < mean["mnh"]),
    )


def stays_above(least: Mapping[tuple[str, float], float]) -> CheckedClaim:
    """`least`: the lower one of mean precision and mean recall, by curve and threshold."""
    below = [f"{name}: {value:.2f} at {x:g}" for (name, x), value in least.items() if value < x - ROUNDING]
    above = min((value - x for (_, x), value in least.items() if x < 1), default=0.0)
    observed = f"the lower one of precision and recall is above thresholds below 1 by {above:.2f} or more, and 1 at 1"
    seen = f"below: {', '.join(below)}" if below else observed
    return CheckedClaim("the average quality always remains above the threshold", seen, not below)


def deviates_little(deviations: Mapping[str, Sequence[float]]) -> CheckedClaim:
    """The paper gives no number; a tenth is little."""
    most = {name: max(values, default=0.0) for name, values in deviations.items()}
    worst = max(most, key=lambda name: most[name])
    return CheckedClaim(
        "the standard deviation is low (here: at most 0.1)", f"at most {most[worst]:.2f} ({worst})", most[worst] <= 0.1
    )


def batches_need_fewer(curves: Mapping[str, Points]) -> CheckedClaim:
    times = []
    for heuristic in HEURISTICS:
        single = dict(curves[f"{heuristic}, {SINGLE}"])
        times += [single[x] / y for x, y in curves[f"{heuristic}, {BATCHES}"] if x in single]
    return CheckedClaim(
        "batches need far fewer estimations (our bar: 10 times)",
        f"single selections need {min(times):.1f} to {max(times):.1f} times as many",
        min(times) >= 10,
    )


def mnh_needs_fewer(curves: Mapping[str, Points]) -> CheckedClaim:
    mean = {name: float(np.mean([y for _, y in points])) for name, points in curves.items()}
    seen = ", ".join(f"{name} {value:.3g}" for name, value in mean.items())
    return CheckedClaim(
        "MQC needs more estimations than MNH",
        f"on average: {seen}",
        all(mean[f"mqc, {how}"] > mean[f"mnh, {how}"] for how in (BATCHES, SINGLE)),
    )


def lower_with_more(curves: Mapping[str, Points]) -> CheckedClaim:
    """Whether each curve is below the one before at every x."""
    ranges = {name: (min(y for _, y in points), max(y for _, y in points)) for name, points in curves.items()}
    seen = ", ".join(f"{name} {low:.0%} to {high:.0%}" for name, (low, high) in ranges.items())
    return CheckedClaim(
        "the more queries, the lower the share that is processed",
        seen,
        all(b < a for one, other in pairwise(curves.values()) for (_, a), (_, b) in zip(one, other, strict=True)),
    )
