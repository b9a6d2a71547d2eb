"""TCEP's Figures 10, 11 and 12: what transitions do to results, what they take for each operator, and how that grows
with queries and windows (section 6.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from situ.lab.claims import CheckedClaim
from situ.lab.figure import QUICK, Experiment, Figure, Points, Say, Scale
from situ.lab.tcep.scenario import EVERY_MS, OPERATORS, TransitionSetting
from situ.lab.tcep.simulated import OperatorMove, TransitionRun, run_transition
from situ.runtime.sites.transition import Order, StrategyWish


@dataclass(frozen=True, slots=True)
class Way:
    """A strategy and an order: the four of Table 1, and the baseline."""

    strategy: StrategyWish
    order: Order

    def __str__(self) -> str:
        return f"{self.strategy.upper()}-{self.order.capitalize()}" if self.strategy != "naive" else "naive"


ORDERS: tuple[Order, ...] = ("sequential", "concurrent")
STRATEGIES: tuple[StrategyWish, ...] = ("mfgs", "sms")
WAYS = tuple(Way(strategy, order) for strategy in STRATEGIES for order in ORDERS)
NAIVE = Way("naive", "concurrent")
#: The window of Figures 10 and 11, and those of Figure 12b, in seconds; the queries of Figure 12a.
WINDOW_S, QUICK_WINDOW_S = 10.0, 2.0
WINDOWS_S, QUERIES = (5.0, 10.0, 20.0, 30.0), (1, 2, 4, 8)
#: Of Figure 12, where much is simulated.
GROWING = TransitionSetting(window_s=2.0, rows_per_s=40.0, pieces_per_s=5.0)


@lru_cache(maxsize=64)
def _run(setting: TransitionSetting, way: Way, seed: int) -> TransitionRun:
    return run_transition(setting, way.strategy, way.order, seed)


def _setting(scale: Scale) -> TransitionSetting:
    return TransitionSetting(window_s=QUICK_WINDOW_S, pieces_per_s=5.0) if scale is QUICK else TransitionSetting()


def _runs(figure: str, setting: TransitionSetting, seed: int, say: Say) -> dict[Way, TransitionRun]:
    ways, runs = (*WAYS, NAIVE), dict[Way, TransitionRun]()
    for number, way in enumerate(ways):
        say(number, len(ways), f"{figure}, {way}")
        runs[way] = _run(setting, way, seed)
    say(len(ways), len(ways), "")
    return runs


def figure_10(scale: Scale, seed: int, say: Say) -> Figure:
    """Results per second while operators move."""
    runs = _runs("10", _setting(scale), seed, say)
    curves = {str(way): _rate(run) for way, run in runs.items()}
    silent = {way: _overdue_share(run) for way, run in runs.items()}
    usual = 1000 / EVERY_MS * 10
    rates = {way: len(run.result_times_s[_during(run)]) / (run.seconds + 5.0) for way, run in runs.items()}
    sms = [way for way in WAYS if way.strategy == "sms"]
    parts = [
        CheckedClaim(
            f"{way} delivers {usual:.0f} results per second, 99% of the time",
            f"{rates[way]:.1f} per second; results are overdue {silent[way]:.1%} of the time",
            silent[way] <= 0.01 and abs(rates[way] / usual - 1) <= 0.05,
        )
        for way in sms
    ]
    parts += [
        CheckedClaim(
            f"{way} disturbs the output {said:.0%} of the time",
            f"results are overdue {silent[way]:.1%} of the time, at most by "
            f"{max(runs[way].longest_pause_s() - EVERY_MS / 1000, 0):.2f} s",
            abs(silent[way] - said) <= 0.03,
        )
        for way, said in ((WAYS[0], 0.05), (WAYS[1], 0.08))
    ]
    return Figure(
        "10", "Results while operators move", "seconds from the decision", "results per second", curves,
        "SMS delivers results all the time; MFGS disturbs them a little.", tuple(parts),
    )  # fmt: skip


def figure_11a(scale: Scale, seed: int, say: Say) -> Figure:
    """How long each operator takes to move."""
    runs = _runs("11a", _setting(scale), seed, say)
    curves = {str(way): _by_operator(run, lambda m: m.move_s) for way, run in runs.items()}
    waits = {f"{way}: wait": _by_operator(run, lambda m: m.wait_s) for way, run in runs.items() if way != NAIVE}
    moves = {way: [m.move_s for m in run.moves] for way, run in runs.items()}
    mean_wait = {way: float(np.mean([m.wait_s for m in run.moves])) for way, run in runs.items()}
    sms = [s for way in WAYS if way.strategy == "sms" for s in moves[way]]
    mfgs = [s for way in WAYS if way.strategy == "mfgs" for s in moves[way]]
    parts = (
        CheckedClaim(
            "MFGS takes longer to move an operator than SMS",
            f"{1000 * np.mean(mfgs):.0f} ms against {1000 * np.mean(sms):.0f} ms, in the mean",
            bool(np.mean(mfgs) > np.mean(sms)),
        ),
        CheckedClaim(
            "SMS takes 358 to 575 ms",
            f"{1000 * min(sms):.0f} to {1000 * max(sms):.0f} ms",
            min(sms) >= 0.75 * 0.358 and max(sms) <= 1.25 * 0.575,
        ),
        CheckedClaim(
            "a naive transition takes 35 s for one operator",
            f"{1000 * max(moves[NAIVE]):.0f} ms",
            abs(max(moves[NAIVE]) / 35 - 1) <= 0.25,
        ),
        CheckedClaim(
            "SMS waits longer than MFGS",
            ", ".join(f"{way} {mean_wait[way]:.1f} s" for way in WAYS),
            all(mean_wait[Way("sms", order)] > mean_wait[Way("mfgs", order)] for order in ORDERS),
        ),
    )
    return Figure(
        "11a", "Time to move an operator", _OPERATORS, "seconds", curves | waits,
        "MFGS takes longer, as it moves up to 8 MB for one operator; SMS waits longer.", parts, log_y=True,
    )  # fmt: skip


def figure_11b(scale: Scale, seed: int, say: Say) -> Figure:
    """How many bytes each operator's move sends."""
    runs = _runs("11b", _setting(scale), seed, say)
    curves = {str(way): _by_operator(run, lambda m: m.moved_bytes / 1000) for way, run in runs.items()}
    total = {way: run.moved_bytes / 1000 for way, run in runs.items()}
    states = {m.operator.rstrip("0123456789"): m.moved_bytes / 1000 for m in runs[NAIVE].moves}
    largest = max(states, key=states.__getitem__)
    parts = (
        CheckedClaim(
            "SMS sends less than MFGS",
            ", ".join(f"{way} {kb:,.0f} KB" for way, kb in total.items())
            + "; of SMS, these are inputs that two instances read",
            all(total[Way("sms", order)] < total[Way("mfgs", order)] for order in ORDERS),
        ),
        CheckedClaim(
            "the join has the largest state",
            f"{OPERATORS[largest]}, {states[largest]:,.0f} KB; the join has {states['Both']:,.0f} KB",
            largest == "Both",
        ),
    )
    return Figure(
        "11b", "Bytes to move an operator", _OPERATORS, "KB", curves,
        "MFGS sends the state, up to 8 MB; SMS sends next to nothing.", parts, log_y=True,
    )  # fmt: skip


def figure_12a(scale: Scale, seed: int, say: Say) -> Figure:
    """The time of a transition over the number of queries."""
    counts = QUERIES[:2] if scale is QUICK else QUERIES
    curves = _grow("12a", [(float(n), replace(GROWING, queries=n)) for n in counts], seed, say)
    sequential = [curves[str(way)] for way in WAYS if way.order == "sequential"]
    first, last = counts[0], counts[-1]
    grown = [points[-1][1] / points[0][1] for points in sequential]
    last_s = {name: points[-1][1] for name, points in curves.items()}
    ratios = [last_s[str(Way(s, "sequential"))] / last_s[str(Way(s, "concurrent"))] for s in STRATEGIES]
    parts = (
        CheckedClaim(
            "sequential strategies take linearly longer with more queries",
            f"{last / first:.0f} times the queries take {min(grown):.1f} to {max(grown):.1f} times as long",
            all(abs(g / (last / first) - 1) <= 0.25 for g in grown),
        ),
        CheckedClaim(
            "concurrent strategies pay off with many queries (transitions complete faster by up to 94%)",
            f"with {last} queries by {1 - 1 / min(ratios):.0%} (MFGS, SMS: {ratios[0]:.1f} and {ratios[1]:.1f} times)",
            abs(1 - 1 / max(ratios) - 0.94) <= 0.06,
        ),
        CheckedClaim(
            "MFGS-Sequential takes longest",
            ", ".join(f"{name} {seconds:.1f} s" for name, seconds in last_s.items()),
            max(last_s, key=last_s.__getitem__) == str(WAYS[0]),
        ),
    )
    return Figure(
        "12a", "Transitions with more queries", "queries", "seconds", curves,
        "Sequential strategies take linearly longer; concurrent ones pay off.", parts, log_y=True,
    )  # fmt: skip


def figure_12b(scale: Scale, seed: int, say: Say) -> Figure:
    """The time of a transition over the window."""
    windows = (1.0, 2.0) if scale is QUICK else WINDOWS_S
    curves = _grow("12b", [(w, replace(GROWING, window_s=w)) for w in windows], seed, say)
    grown = {way: curves[str(way)][-1][1] - curves[str(way)][0][1] for way in WAYS}
    longer_s = windows[-1] - windows[0]
    parts = (
        CheckedClaim(
            "a larger window makes transitions longer",
            ", ".join(f"{way} by {seconds:.1f} s" for way, seconds in grown.items()) + f", windows by {longer_s:g} s",
            all(seconds > 0 for seconds in grown.values()),
        ),
        CheckedClaim(
            "windows matter more to SMS than to MFGS, as it waits for a window",
            f"SMS-Concurrent takes {grown[WAYS[3]]:.1f} s more, MFGS-Concurrent {grown[WAYS[1]]:.1f} s",
            grown[WAYS[3]] > grown[WAYS[1]] and abs(grown[WAYS[3]] / longer_s - 1) <= 0.25,
        ),
    )
    return Figure(
        "12b", "Transitions with larger windows", "window, s", "seconds", curves,
        "Larger windows make transitions longer, those by SMS more so.", parts, log_y=True,
    )  # fmt: skip


FIGURES: dict[str, Experiment] = {
    "10": figure_10,
    "11a": figure_11a,
    "11b": figure_11b,
    "12a": figure_12a,
    "12b": figure_12b,
}

_OPERATORS = "operator: " + ", ".join(f"{number} {name}" for number, name in enumerate(OPERATORS.values(), 1))


def _by_operator(run: TransitionRun, of: Callable[[OperatorMove], float]) -> Points:
    numbers = {name: float(number) for number, name in enumerate(OPERATORS, 1)}
    values = {numbers[m.operator.rstrip("0123456789")]: of(m) for m in run.moves}
    return tuple(sorted(values.items()))


def _grow(name: str, settings: Sequence[tuple[float, TransitionSetting]], seed: int, say: Say) -> dict[str, Points]:
    points: dict[str, list[tuple[float, float]]] = {str(way): [] for way in WAYS}
    for number, (x, setting) in enumerate(settings):
        for at, way in enumerate(WAYS):
            say(number * len(WAYS) + at, len(settings) * len(WAYS), f"{name}, {x:g}, {way}")
            points[str(way)].append((x, _run(setting, way, seed).seconds))
    say(1, 1, "")
    return {way: tuple(of_way) for way, of_way in points.items()}


def _during(run: TransitionRun) -> np.ndarray:
    times = run.result_times_s
    return np.asarray((times >= run.began_s) & (times < run.ended_s + 5.0))


def _rate(run: TransitionRun) -> Points:
    edges = np.arange(run.began_s, run.ended_s + 5.0, 1.0)
    counts = np.histogram(run.result_times_s, edges)[0]
    return tuple((float(edge - run.began_s), float(count)) for edge, count in zip(edges[:-1], counts, strict=True))


def _overdue_share(run: TransitionRun) -> float:
    """The share of the time in which a result is overdue: a quarter later after the one before than usual."""
    times = np.unique(run.result_times_s[_during(run)])
    usual_s = 1.25 * EVERY_MS / 1000
    return float(np.maximum(np.diff(times) - usual_s, 0).sum() / (run.seconds + 5.0))
