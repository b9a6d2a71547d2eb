"""What is varied in PaNORAMA's experiments (section 7, Table 2), over which values, and with how many cases.

The networks of antennas are smaller than the paper's 2,000 sites, so that a run takes minutes: diameters of events are
smaller as well. On the real topologies, of 25 to 74 sites, events have five sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from situ.lab.figure import FULL, QUICK
from situ.lab.panorama.experiments.cases import CaseShape
from situ.lab.panorama.experiments.measure import Setting
from situ.placement.problem import CostModel


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is tried: sites and cases of networks of antennas, cases on real topologies (which take turns), runs of
    the one experiment that is all about many of them, and how far networks grow. `fine`: all values of what is
    varied, or the first and the last."""

    sites: int
    cases: int
    real_cases: int
    runs: int
    most_sites: tuple[int, ...]
    fraud_sites: tuple[int, ...]
    fine: bool = True


EFFORTS = {
    FULL: Effort(500, 10, 20, 60, (50, 100, 200, 400, 800), (250, 500, 1000)),
    QUICK: Effort(60, 2, 5, 5, (40, 80), (40, 80), fine=False),
}

OURS = ("greedy", "greedy+", "heuristic", "heuristic+")
OTHERS = ("cpp", "grin")
EVERYTHING = (*OTHERS, *OURS, "optimal")


@dataclass(frozen=True, slots=True)
class Sweep:
    """Settings on networks of antennas and on real topologies, each tried for some seeds with some mechanisms."""

    label: str
    mechanisms: tuple[str, ...]
    antennas: tuple[Setting, ...]
    real: tuple[Setting, ...]
    cases: int
    real_cases: int

    def by(self, model: CostModel) -> Sweep:
        """The same with the plans, and costs, of a cost model."""
        antennas, real = (
            tuple(replace(each, model=model) for each in settings) for settings in (self.antennas, self.real)
        )
        return replace(self, antennas=antennas, real=real)

    def runs(self, seed: int) -> Iterable[tuple[Setting, int]]:
        """Every setting, with every seed."""
        for settings, cases in ((self.antennas, self.cases), (self.real, self.real_cases)):
            yield from ((setting, number) for setting in settings for number in range(seed, seed + cases))

    @property
    def varies(self) -> bool:
        """Or one setting is tried again and again, to see how much results differ."""
        return len(self.antennas) > 1

    @property
    def size(self) -> int:
        return len(self.antennas) * self.cases + len(self.real) * self.real_cases


REAL = CaseShape(sources=5)


def sweeps(effort: Effort) -> dict[str, Sweep]:
    """
    >>> [setting.x for setting in sweeps(EFFORTS[QUICK])["window"].antennas]
    [0.1, 10.0]
    """

    def sweep(
        label: str, mechanisms: tuple[str, ...], values: tuple[float, ...], vary: Callable[[Setting, float], Setting],
        real: tuple[float, ...] | None = None, cases: int = effort.cases, start: Setting | None = None,
    ) -> Sweep:  # fmt: skip
        start = start or Setting(0.0, effort.sites)
        here = replace(start, sites=None, shape=REAL)
        there = values if real is None else real
        settings = [
            tuple(vary(replace(base, x=float(x)), x) for x in (xs if effort.fine else dict.fromkeys((xs[0], xs[-1]))))
            for base, xs in ((start, values), (here, there))
        ]
        return Sweep(label, mechanisms, settings[0], settings[1], cases, effort.real_cases)

    factors = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
    fraud = Setting(0.0, effort.sites, fraud=True)
    return {
        "diameter": sweep(
            "diameter of an event's sources, hops", ("sbon", *OTHERS, *OURS), (10, 20, 30, 40, 50), _diameter,
            real=(5, 6, 8, 10, 12),
        ),
        "skew": sweep("skew of an event's rate over sources", ("sbon", *OTHERS, *OURS), (0.01, 0.3, 1, 3, 10), _skew),
        "window": sweep("window, s", (*OTHERS, *OURS), (0.1, 0.3, 1, 3, 10), _window),
        "latency": sweep("latency limit, x the naive plan's", EVERYTHING, factors, _latency),
        "chain": sweep("complex events in the chain", OURS, (1, 3, 5, 7, 9), _chain),
        "sites": sweep("sites", EVERYTHING, effort.most_sites, _sites, real=(0,)),
        "runs": sweep("percentile of the cases", EVERYTHING, (0,), _nothing, cases=effort.runs),
        "fraud latency": sweep("latency limit, x the naive plan's", EVERYTHING, factors, _latency, start=fraud),
        "fraud sites": sweep("sites", EVERYTHING, effort.most_sites, _sites, real=(0,), start=fraud),
        "fraud scale": sweep("sites", (*OTHERS, *OURS), effort.fraud_sites, _sites, real=(0,), start=fraud),
    }  # fmt: skip


#: Cases are drawn with this diameter, the same for all, and then scattered over the one that is asked for.
DRAWN_HOPS = 10


def _diameter(setting: Setting, hops: float) -> Setting:
    return replace(setting, shape=replace(setting.shape, diameter_hops=DRAWN_HOPS), diameter_hops=int(hops))


def _skew(setting: Setting, skew: float) -> Setting:
    return replace(setting, shape=replace(setting.shape, skew=skew))


def _window(setting: Setting, window_s: float) -> Setting:
    return replace(setting, shape=replace(setting.shape, windows_s=(window_s, window_s)))


def _latency(setting: Setting, factor: float) -> Setting:
    return replace(setting, latency_factor=factor)


def _chain(setting: Setting, complex_events: float) -> Setting:
    return replace(setting, shape=replace(setting.shape, complex_events=int(complex_events)))


def _sites(setting: Setting, sites: float) -> Setting:
    return replace(setting, x=None) if setting.sites is None else replace(setting, sites=int(sites))


def _nothing(setting: Setting, _: float) -> Setting:
    return setting
