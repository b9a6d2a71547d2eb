"""What PaNORAMA says of each of its figures, and whether our curves say so too.

A claim has parts. Each is held against the curves of the networks of antennas, which are what the paper used; what the
real topologies show is told beside it. A figure that the paper states is held to from both sides: what is more than a
quarter below it or above it is not what the paper says, also where it is better.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from situ.kernel.arrays import F64
from situ.lab.claims import CheckedClaim
from situ.lab.panorama.experiments.sweeps import OURS
from situ.lab.panorama.experiments.table import Curve, ratio

Curves: TypeAlias = dict[str, Curve]


#: So far may what we see be from a figure that the paper states, below or above.
TOLERANCE = 0.25
#: And from a share.
POINTS = 0.03

#: Curves on antennas, and on real topologies -> the parts of a claim.
Judge: TypeAlias = Callable[[Curves, Curves], list[CheckedClaim]]


# ---- Figure 9


def diameter(here: Curves, real: Curves) -> list[CheckedClaim]:
    return [
        _times("cpp", here, real, "CPP costs 8 to 10 times as much as ours", 8, 10),
        _times("grin", here, real, "GRIN costs up to 12 times as much as ours", None, 12),
        _grows("grin", here, "GRIN is worse the farther apart the sources are"),
        _steady("cpp", here, "CPP does not depend on the diameter"),
        _sbon(here),
        _alike(here),
    ]


def skew(here: Curves, real: Curves) -> list[CheckedClaim]:
    return [
        _times("cpp", here, real, "CPP costs 8 to 17 times as much as ours", 8, 17),
        _times("grin", here, real, "GRIN costs 7 to 12 times as much as ours", 7, 12),
        _falls("grin", here, "GRIN is better the more skewed the rates are"),
        _steady("cpp", here, "CPP is relatively steady"),
        _sbon(here),
    ]


def window(here: Curves, real: Curves) -> list[CheckedClaim]:
    grin = ratio(here, "grin")
    return [
        _grows("heuristic+", here, "the larger the window, the less is gained by pulling"),
        _grows("cpp", here, "the same goes for CPP"),
        CheckedClaim(
            "CPP ends near the naive plan", f"cpp ends at {here['cpp'].mean[-1]:.2g}", bool(here["cpp"].mean[-1] >= 0.9)
        ),
        _steady("grin", here, "GRIN, which never pulls, is steady"),
        CheckedClaim(
            "ours approach GRIN as windows grow",
            f"GRIN costs {grin[0]:.1f} times as much as heuristic+ at the smallest window, {grin[-1]:.2f} times at the "
            "largest",
            bool(grin[-1] < grin[0]),
        ),
    ]


# ---- Figures 10 and 11


def discovery(here: Curves, real: Curves) -> list[CheckedClaim]:
    heuristic_rates = [float(here[name].mean.min()) for name in ("heuristic", "heuristic+")]
    least = min(OURS, key=lambda name: float(here[name].mean.mean()))
    return [
        CheckedClaim(
            "CPP, HEUR and HEUR+ always find a plan",
            f"the lowest rates are {here['cpp'].mean.min():.0%} for CPP (the naive plan is one of its own), "
            f"{heuristic_rates[0]:.0%} for heuristic and {heuristic_rates[1]:.0%} for heuristic+",
            min(heuristic_rates) == 1.0,
        ),
        CheckedClaim(
            "GRIN always finds one above a factor of 2",
            f"GRIN finds one in {_above(here['grin'], 2.0):.0%} of the cases there",
            _above(here["grin"], 2.0) == 1.0,
        ),
        CheckedClaim("GR finds plans least often", f"here, on average, {least} does", least == "greedy"),
    ]


def limits(here: Curves, real: Curves) -> list[CheckedClaim]:
    best = min(OURS, key=lambda name: float(here[name].mean.mean()))
    gain = 1 - here["heuristic+"].mean / here["greedy"].mean
    return [
        _falls("heuristic+", here, "a tighter limit makes plans dearer"),
        CheckedClaim(
            "HEUR+ is the best of ours where limits are tight",
            f"{best} is the best on average; heuristic+ costs up to {gain.max():.0%} less than greedy",
            best == "heuristic+",
        ),
    ]


def chain(here: Curves, real: Curves) -> list[CheckedClaim]:
    gain = 1 - here["heuristic+"].mean / np.minimum(here["greedy"].mean, here["heuristic"].mean)
    lengths = here["heuristic+"].x
    return [
        CheckedClaim(
            "the + variants cost up to 52% less than the others",
            f"heuristic+ costs up to {gain.max():.0%} less than the better of greedy and heuristic",
            _is_about(float(gain.max()), 0.52),
        ),
        CheckedClaim(
            "the gain grows with the chain",
            f"{gain[0]:.0%} less at {lengths[0]:g} complex events, {gain[-1]:.0%} at {lengths[-1]:g}",
            bool(gain[-1] > gain[0]),
        ),
    ]


def plan_time(here: Curves, real: Curves) -> list[CheckedClaim]:
    slowest = np.max([here[name].mean for name in OURS], axis=0)
    times = here["optimal"].mean / slowest
    quick = max(here[name].mean.max() for name in ("greedy", "greedy+"))
    return [
        CheckedClaim(
            "the optimum takes 160 to 700 times as long as the slowest of the others",
            f"`optimal` takes {_range(times)} times as long, {here['optimal'].mean[-1]:.2g} s at "
            f"{here['optimal'].x[-1]:g} sites: it does not enumerate combinations of inputs",
            _is_about(float(times.min()), 160) and _is_about(float(times.max()), 700),
        ),
        CheckedClaim(
            "GR and GR+ need just a few milliseconds",
            f"they need {1000 * quick:.0f} ms at most, the ways through the network included",
            bool(quick < 0.01),
        ),
        _grows("heuristic+", here, "the time of HEUR+ grows with the network", "s"),
    ]


def proximity(low: float, high: float) -> Judge:
    def judge(here: Curves, real: Curves) -> list[CheckedClaim]:
        means = {name: float(here[name].mean.min()) for name in OURS}
        shown = ", ".join(f"{name} {value:.0%}" for name, value in means.items())
        return [
            CheckedClaim(
                f"ours come within {low:.0%} to {high:.0%} of the optimum",
                f"the lowest means over sites are: {shown}",
                all(low - POINTS <= mean <= high + POINTS for mean in means.values()),
            )
        ]

    return judge


def spread(here: Curves, real: Curves) -> list[CheckedClaim]:
    widths = {name: _width(here[name]) for name in ("cpp", "grin", *OURS)}
    shown = ", ".join(f"{name} {width:.2f}" for name, width in widths.items())
    narrowest_other = min(widths["cpp"], widths["grin"])
    return [
        CheckedClaim(
            "the transmission factors of ours vary little, those of CPP and GRIN a lot",
            f"from the 5th to the 95th percentile they vary by: {shown}",
            max(widths[name] for name in OURS) < narrowest_other,
        )
    ]


def fraud_discovery(here: Curves, real: Curves) -> list[CheckedClaim]:
    above = {name: _above(here[name], 1.0) for name in OURS}
    shown = ", ".join(f"{name} {value:.0%}" for name, value in above.items())
    return [
        CheckedClaim(
            "all of ours but GR find a plan in nearly 100% of the cases just above a factor of 1",
            f"above a factor of 1, on average: {shown}",
            min(above[name] for name in OURS if name != "greedy") >= 0.95,
        ),
        CheckedClaim("GR finds one in more than 80%", f"greedy: {above['greedy']:.0%}", above["greedy"] > 0.8),
    ]


def fraud_limits(here: Curves, real: Curves) -> list[CheckedClaim]:
    return [
        _times("cpp", here, real, "CPP costs up to 14 times as much as ours", None, 14),
        _times("grin", here, real, "GRIN costs up to 6 times as much as ours", None, 6),
        *limits(here, real)[1:],
    ]


def fraud_scale(here: Curves, real: Curves) -> list[CheckedClaim]:
    return [
        _times("cpp", here, real, "CPP costs up to 9 times as much as ours", None, 9),
        _times("grin", here, real, "GRIN costs 3 to 4 times as much as ours", 3, 4),
    ]


# ---- parts


def _times(name: str, here: Curves, real: Curves, claim: str, low: float | None, high: float) -> CheckedClaim:
    """Of means: so many times everywhere, from `low` to `high`; without `low`, up to so many times."""
    times = ratio(here, name)
    holds = _is_about(times.max(), high) and (low is None or _is_about(times.min(), low))
    observed = f"{_range(times)} times as much as heuristic+; on the real topologies {_range(ratio(real, name))} times"
    return CheckedClaim(claim, observed, bool(holds))


def _is_about(seen: float, claimed: float) -> bool:
    """
    >>> _is_about(7.0, 8.0), _is_about(3.2, 8.0), _is_about(12.0, 8.0)
    (True, False, False)
    """
    return bool(claimed * (1 - TOLERANCE) <= seen <= claimed * (1 + TOLERANCE))


def _grows(name: str, here: Curves, claim: str, unit: str = "") -> CheckedClaim:
    first, last = here[name].mean[[0, -1]]
    return CheckedClaim(claim, f"{name} goes from {first:.2g} to {last:.2g} {unit}".strip(), bool(last > 1.05 * first))


def _falls(name: str, here: Curves, claim: str) -> CheckedClaim:
    first, last = here[name].mean[[0, -1]]
    return CheckedClaim(claim, f"{name} goes from {first:.2g} to {last:.2g}", bool(last < 0.95 * first))


def _steady(name: str, here: Curves, claim: str) -> CheckedClaim:
    means = here[name].mean
    return CheckedClaim(
        claim, f"{name} is between {means.min():.2g} and {means.max():.2g}", bool(means.max() <= 1.25 * means.min())
    )


def _sbon(here: Curves) -> CheckedClaim:
    worst = max(here, key=lambda name: float(here[name].mean.mean()))
    observed = f"on average, SBON's factor is {here['sbon'].mean.mean():.2g}, GRIN's {here['grin'].mean.mean():.2g}"
    return CheckedClaim("SBON is the worst of all", f"{observed}; the worst is {worst}", worst == "sbon")


def _alike(here: Curves) -> CheckedClaim:
    times = np.array([ratio(here, name) for name in OURS])
    worst = OURS[int(times.max(axis=1).argmax())]
    observed = (
        f"{worst} costs up to {times.max():.1f} times as much as heuristic+, greedy+ up to {times[1].max():.2f} times"
    )
    return CheckedClaim(
        "ours perform alike while the limit is 3 times the naive latency", observed, bool(times.max() <= 1.1)
    )


def _above(curve: Curve, x: float) -> float:
    """The mean beyond a value."""
    return float(curve.mean[np.array(curve.x) > x].mean())


def _width(curve: Curve) -> float:
    low, high = np.quantile(curve.values[0], [0.05, 0.95])
    return float(high - low)


def _range(values: F64) -> str:
    """
    >>> _range(np.array([2.04, 12.0])), _range(np.array([3.0]))
    ('2.0 to 12', '3.0')
    """
    low, high = (f"{value:.1f}" if value < 9.95 else f"{value:.0f}" for value in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"
