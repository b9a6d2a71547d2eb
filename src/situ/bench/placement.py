"""The planner's figures: how long plans take, how near they are to the optimum, and what other mechanisms' cost.

`python -m situ.bench.placement [--only optimal plain-dp greedy+ proximity ratios prediction words]`

Cases are random (`situ.lab.panorama.experiments.cases`): a chain of three complex events of three inputs, ten sources
for each event, rates log-uniform from 0.01 to 10 per s, windows from 0.1 to 2 s, on networks of antennas. A mechanism
is timed from a network of which no way is known yet, with its kernels compiled.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

from situ.bench.plain_dp import plain_dp
from situ.bench.suite import Bar, BenchFigure
from situ.core.errors import SituError
from situ.lab.panorama.experiments.cases import CaseShape, PlacementCase, random_case
from situ.lab.panorama.experiments.measure import limited
from situ.network.generate import antennas
from situ.placement.bursts import Bursts
from situ.placement.cpp import cpp
from situ.placement.greedy import greedy_plus
from situ.placement.grin import grin
from situ.placement.heuristic import heuristic_plus
from situ.placement.mechanisms import Mechanism
from situ.placement.naive import naive
from situ.placement.optimal import optimal
from situ.placement.plan import Plan

#: Called before each case: what is measured, the number of the case, and of how many.
Say = Callable[[str, int, int], None]

TIMED_SEEDS = range(1, 4)
LIMITS = (None, 1.5)  # times the naive plan's latency
PAPER_LIMIT = 3.0  # PaNORAMA, Table 2

#: CPP and GRIN beside `heuristic+`, over rates and windows.
RATIOS_PICTURE = Path("out/placement.png")


def random(sites: int, seed: int, shape: CaseShape | None = None) -> PlacementCase:
    rng = np.random.default_rng(seed)
    return random_case(antennas(sites, rng), rng, shape)


def timed(mechanism: Mechanism, case: PlacementCase, limit: float | None) -> tuple[Plan, float]:
    """A plan within so many times the naive latency, and the seconds that it took."""
    problem = limited(case, naive(case.problem()), limit)
    begun = time.perf_counter()
    plan = mechanism(problem)
    return plan, time.perf_counter() - begun


def _compile(*mechanisms: Mechanism, shape: CaseShape | None = None) -> None:
    for mechanism in mechanisms:
        timed(mechanism, random(20, 1, shape), 1.5)


def _within(limit: float | None) -> str:
    return "no latency limit" if limit is None else f"limit {limit:g} x naive"


# ---- time


def optimal_figures(say: Say, sites: int = 2_000, seeds: Sequence[int] = TIMED_SEEDS) -> Iterator[BenchFigure]:
    """The slowest of some cases, each of them exact."""
    _compile(optimal)
    for limit in LIMITS:
        name, seconds = f"optimal, {sites:,} sites, {_within(limit)}", list[float]()
        for number, seed in enumerate(seeds):
            say(name, number, len(seeds))
            plan, took = timed(optimal, random(sites, seed), limit)
            if plan.lower_bound is None or not math.isclose(plan.cost, plan.lower_bound, rel_tol=1e-9):
                raise SituError(f"the plan of seed {seed} costs {plan.cost}, which is not the optimum")
            seconds.append(took)
        yield _slowest(name, seconds, seeds, 60)


def greedy_plus_figures(say: Say, sites: int = 20_000, seeds: Sequence[int] = TIMED_SEEDS) -> Iterator[BenchFigure]:
    _compile(greedy_plus)
    for limit in LIMITS:
        name, seconds = f"greedy+, {sites:,} sites, {_within(limit)}", list[float]()
        for number, seed in enumerate(seeds):
            say(name, number, len(seeds))
            seconds.append(timed(greedy_plus, random(sites, seed), limit)[1])
        yield _slowest(name, seconds, seeds, 10)


def _slowest(name: str, seconds: Sequence[float], seeds: Sequence[int], most_s: float) -> BenchFigure:
    detail = f"the slowest of {len(seeds)} cases; seeds {_listed(seeds)}: {', '.join(f'{s:.2g}' for s in seconds)} s"
    measured = {"seconds": list(seconds), "seeds": list(seeds)}
    return BenchFigure(f"placement: {name}", round(max(seconds), 3), "s", detail, measured, Bar("at most", most_s))


def plain_dp_figures(
    say: Say, sites: int = 150, tree_sites: int = 60, seeds: Sequence[int] = TIMED_SEEDS
) -> Iterator[BenchFigure]:
    """`optimal` against PaNORAMA's dynamic programming as printed; both give the same."""
    chain, tree = CaseShape(), CaseShape(tree=True)
    _compile(optimal, plain_dp)
    settings = ((chain, sites, None, 100), (chain, sites, PAPER_LIMIT, None), (tree, tree_sites, PAPER_LIMIT, None))
    for shape, among, limit, bar in settings:
        kind = "tree (two complex inputs)" if shape.tree else "chain"
        name = f"optimal against plain DP, {kind}, {among} sites, {_within(limit)}"
        own_s, plain_s = list[float](), list[float]()
        for number, seed in enumerate(seeds):
            say(name, number, len(seeds))
            case = random(among, seed, shape)
            best, took = timed(optimal, case, limit)
            own_s.append(took)
            other, took = timed(plain_dp, case, limit)
            plain_s.append(took)
            if not math.isclose(best.cost, other.cost, rel_tol=1e-9):
                raise SituError(f"optimal and plain DP differ for seed {seed}: {best.cost} and {other.cost}")
        ratios = ", ".join(f"{b / a:.0f}" for a, b in zip(own_s, plain_s, strict=True))
        detail = f"{sum(own_s):.2g} s against {sum(plain_s):.3g} s; seeds {_listed(seeds)}: {ratios} x"
        measured = {"seconds": own_s, "seconds_of_plain_dp": plain_s, "seeds": list(seeds)}
        value = round(sum(plain_s) / sum(own_s), 1)
        yield BenchFigure(
            f"placement: {name}", value, "x faster", detail, measured, Bar("at least", bar) if bar else None
        )


# ---- cost


def proximity_figures(say: Say, sites: int = 200, seeds: Sequence[int] = range(1, 101)) -> Iterator[BenchFigure]:
    """Cost of the optimum over cost of `heuristic+`."""
    for limit in LIMITS:
        name, proximities = f"proximity of heuristic+, {sites} sites, {_within(limit)}", list[float]()
        for number, seed in enumerate(seeds):
            say(name, number, len(seeds))
            case = random(sites, seed)
            proximities.append(timed(optimal, case, limit)[0].cost / timed(heuristic_plus, case, limit)[0].cost)
        detail = f"mean over seeds {_listed(seeds)}; least {min(proximities):.3f}, {_quantiles(proximities)}"
        value = round(float(np.mean(proximities)), 4)
        measured = {"proximity": proximities, "seeds": list(seeds)}
        yield BenchFigure(f"placement: {name}", value, "of the optimum", detail, measured, Bar("at least", 0.97))


def ratio_figures(say: Say, sites: int = 2_000, seeds: Sequence[int] = range(1, 21)) -> Iterator[BenchFigure]:
    """Cost of CPP and of GRIN over cost of `heuristic+`, and a picture over rates and windows."""
    claims = {"cpp": 8, "grin": 7}
    for limit in (None, PAPER_LIMIT):
        ratios_of = _ratios(
            partial(say, f"cost over heuristic+, {sites:,} sites, {_within(limit)}"), sites, seeds, limit
        )
        for name, claimed in claims.items():
            detail = f"mean over seeds {_listed(seeds)}, {_quantiles(ratios_of[name])}; the paper claims {claimed}"
            measured = {"ratios": ratios_of[name], "seeds": list(seeds)}
            title = f"placement: cost of {name} over heuristic+, {sites:,} sites, {_within(limit)}"
            yield BenchFigure(title, round(float(np.mean(ratios_of[name])), 2), "x", detail, measured)
    draw_ratios(say, sites, seeds[:5], RATIOS_PICTURE)


def _ratios(
    say: Callable[[int, int], None],
    sites: int,
    seeds: Sequence[int],
    limit: float | None,
    shape: CaseShape | None = None,
) -> dict[str, list[float]]:
    ratios_of: dict[str, list[float]] = {"cpp": [], "grin": []}
    for number, seed in enumerate(seeds):
        say(number, len(seeds))
        case = random(sites, seed, shape)
        own_cost = timed(heuristic_plus, case, limit)[0].cost
        ratios_of["cpp"].append(timed(cpp, case, limit)[0].cost / own_cost)
        ratios_of["grin"].append(timed(grin, case, limit)[0].cost / own_cost)
    return ratios_of


WINDOWS_S = (0.1, 0.3, 1.0, 3.0, 10.0)
MOST_PER_S = (0.1, 1.0, 10.0, 100.0)


def draw_ratios(say: Say, sites: int, seeds: Sequence[int], out: Path) -> None:
    """Draws the ratios of `ratio_figures` over windows, all of one length, and over rates, from a thousandth of the
    highest to the highest."""
    from matplotlib.figure import Figure as Drawing

    windows = [(window, CaseShape(windows_s=(window, window))) for window in WINDOWS_S]
    rates = [(most, CaseShape(rates_per_s=(most / 1000, most))) for most in MOST_PER_S]
    drawing = Drawing(figsize=(9, 3.4), layout="constrained")
    axes = drawing.subplots(1, 2, sharey=True)
    for axis, label, points in ((axes[0], "window, s", windows), (axes[1], "highest rate, events/s", rates)):
        ratios_at = [
            _ratios(partial(say, f"picture, {label} {x:g}"), sites, seeds, PAPER_LIMIT, shape) for x, shape in points
        ]
        for name, colour in (("cpp", "#7f7f7f"), ("grin", "#bcbd22")):
            xs = [x for x, _ in points]
            axis.plot(xs, [float(np.mean(ratios[name])) for ratios in ratios_at], color=colour, label=f"{name}, mean")
            for x, ratios in zip(xs, ratios_at, strict=True):
                axis.plot([x] * len(seeds), ratios[name], ".", color=colour)
        axis.set(xlabel=label, xscale="log", yscale="log")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("cost / cost of heuristic+")
    axes[0].legend(frameon=False)
    out.parent.mkdir(exist_ok=True)
    drawing.savefig(out)


def prediction_figures(say: Say) -> Iterator[BenchFigure]:
    """Messages x hops that the cost model predicts, against those of a simulation."""
    from situ.bench.prediction import CASES, EVENTS, errors, predictions

    seeds, name = range(1, CASES + 1), "prediction of messages x hops"
    made_predictions = []
    for number, prediction in enumerate(predictions(seeds, "heuristic+", EVENTS, Bursts())):
        say(name, number, len(seeds))
        made_predictions.append(prediction)
    for kind, values in errors(made_predictions).items():
        percent = np.abs(values) * 100
        detail = f"mean error of {len(values)} cases, seeds {_listed(seeds)}; {_quantiles(100 * values)}"
        bar = Bar("at most", 10) if kind == "with extensions" else None
        value = round(float(percent.mean()), 2)
        yield BenchFigure(f"placement: {name}, {kind}", value, "% off", detail, {"errors": values.tolist()}, bar)


def words_figures(say: Say, cases: int = 100, starts: Sequence[int] = (1, 1001)) -> Iterator[BenchFigure]:
    """Messages of all kinds that the default cost model predicts, against what simulated sites count: on the seeds on
    which it was worked out, and on others. An hour."""
    from situ.bench.prediction import predictions_on_sites

    for first in starts:
        seeds, name = range(first, first + cases), "messages of all kinds on simulated sites"
        off = list[float]()
        for number, prediction in enumerate(predictions_on_sites(seeds, "heuristic+", Bursts())):
            say(name, number, len(seeds))
            off.append(100 * prediction.error)
        detail = f"mean error of {len(off)} cases, seeds {_listed(seeds)}; {_quantiles(off)}"
        value = round(float(np.abs(off).mean()), 2)
        title = f"placement: {name}, seeds {_listed(seeds)}"
        yield BenchFigure(title, value, "% off", detail, {"errors": off}, Bar("at most", 10))


def _quantiles(values: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    """
    >>> _quantiles([1.0, 2.0, 3.0])
    '5, 50, 95%: 1.1, 2, 2.9'
    """
    return "5, 50, 95%: " + ", ".join(f"{value:.3g}" for value in np.quantile(values, [0.05, 0.5, 0.95]))


def _listed(seeds: Sequence[int]) -> str:
    return f"{seeds[0]} to {seeds[-1]}"


SECTIONS: dict[str, Callable[[Say], Iterator[BenchFigure]]] = {
    "optimal": optimal_figures,
    "plain-dp": plain_dp_figures,
    "greedy+": greedy_plus_figures,
    "proximity": proximity_figures,
    "ratios": ratio_figures,
    "prediction": prediction_figures,
    "words": words_figures,
}


#: Sections that are measured only where they are asked for.
LONG = ("words",)


def placement_figures(say: Say, only: Sequence[str] = ()) -> Iterator[BenchFigure]:
    """Every figure of the planner but those that take an hour, or those of some sections."""
    for name, section in SECTIONS.items():
        if name in only or (not only and name not in LONG):
            yield from section(say)


def main() -> int:
    from situ.bench.__main__ import table

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", choices=[*SECTIONS], default=[])
    only = parser.parse_args().only
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("")
        figures = list(
            placement_figures(
                lambda description, done, of: progress.update(task, description=description, completed=done, total=of),
                only,
            )
        )
    Console().print(table(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
