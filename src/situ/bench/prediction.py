"""How well a cost model predicts: messages x hops of random cases, predicted and counted.

`python -m situ.bench.prediction [--cases N] [--mechanism NAME] [--cost NAME] [--events N] [--seed N] [--out PNG]`;
with `--on-sites`, messages of all kinds, counted on simulated sites.

A case is a chain of three complex events on a network of antennas (`situ.lab.panorama.experiments.cases`), thinned
(`thinned_cases`) for a simulation event by event.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from situ.kernel.arrays import F64
from situ.lab.panorama.experiments.cases import CaseShape, random_case
from situ.lab.panorama.experiments.thinned_cases import thinned, thinned_text
from situ.lab.panorama.simulation.compare import CostComparison, compare_with_model, relative_error
from situ.lab.panorama.simulation.draw import draw
from situ.lab.panorama.simulation.on_sites import run_on_sites
from situ.lab.panorama.simulation.simulate import simulate
from situ.network.generate import antennas
from situ.placement.cost_models import COST_MODELS
from situ.placement.coverage import Coverage
from situ.placement.evaluate import evaluate
from situ.placement.link_load import flows_of, way_of
from situ.placement.mechanisms import mechanism
from situ.placement.plan import Placed, Steps
from situ.placement.problem import CostModel, PlannedOperator, Problem

SITES = 200
CASES = 100
EVENTS = 60_000

#: The plan is none of a mechanism's: sites and steps are drawn.
RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Prediction:
    """One case: what was predicted for the time that was simulated, and what was counted."""

    seed: int
    duration_s: float
    comparison: CostComparison


def predictions(seeds: Sequence[int], plan: str, events: int, model: CostModel | None = None) -> Iterator[Prediction]:
    """The case of each seed, with the plan of a mechanism (or a random one), simulated for about so many events."""
    model = model or Coverage()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        graph, problem = thinned(random_case(antennas(SITES, rng), rng), model)
        placed = random_plan(problem, rng) if plan == RANDOM else mechanism(plan)(problem).placed
        duration_s = events / sum(sources.rate_per_s for sources in problem.sources.values())
        run = simulate(problem, graph, placed, draw(graph, problem.sources, duration_s, rng))
        yield Prediction(seed, duration_s, compare_with_model(problem, placed, run, duration_s))


def random_plan(problem: Problem, rng: np.random.Generator) -> tuple[Placed, ...]:
    sites = rng.integers(len(problem.network.sites), size=len(problem.operators)).tolist()
    return tuple(
        Placed(site, random_steps(operator, rng)) for site, operator in zip(sites, problem.operators, strict=True)
    )


def random_steps(operator: PlannedOperator, rng: np.random.Generator) -> Steps:
    """An ordered partition of the inputs."""
    order = rng.permutation(len(operator.inputs)).tolist()
    cuts = [0, *(number for number in range(1, len(order)) if rng.random() < 0.5), len(order)]
    return tuple(tuple(order[begin:end]) for begin, end in pairwise(cuts))


# ---- messages of all kinds, on simulated sites

KINDS = ("events", "requests", "questions", "promises", "acknowledgements")
#: Smaller cases than above: sites do all that real ones do. A case is simulated until about so many events and requests
#: x hops are expected, but for no more than so many events.
SITES_SHAPE, SITES_OF_SITES = CaseShape(sources=3), 60
SITES_COST, SITES_MOST_EVENTS = 3_000, 10_000


@dataclass(frozen=True, slots=True)
class SitesPrediction:
    """Messages x hops by kind, predicted and counted; and latencies in ms until the root has the results, predicted at
    most and measured in the median (None where nothing was found)."""

    seed: int
    predicted: dict[str, float]
    counted: dict[str, int]
    latency_ms: float
    median_ms: float | None

    @property
    def error(self) -> float:
        return relative_error(sum(self.predicted.values()), sum(self.counted.values()))


def predictions_on_sites(seeds: Sequence[int], plan: str, model: CostModel) -> Iterator[SitesPrediction]:
    """The case of each seed, with the plan of a mechanism, on simulated sites that answer by their clocks."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        case = random_case(antennas(SITES_OF_SITES, rng), rng, SITES_SHAPE)
        graph, problem = thinned(case, model)
        placed = mechanism(plan)(problem).placed
        per_s = dict.fromkeys(KINDS, 0.0)
        for flow in flows_of(problem, placed):
            hops = len(way_of(problem.network, flow)) - 1
            for kind, messages_per_s in (flow.forth_per_s | flow.back_per_s).items():
                per_s[kind] += hops * messages_per_s
        events_per_s = sum(sources.rate_per_s for sources in problem.sources.values())
        cost_per_s = max(per_s["events"] + per_s["requests"], 1e-9)
        seconds = min(SITES_COST / cost_per_s, SITES_MOST_EVENTS / events_per_s)
        events = draw(graph, problem.sources, seconds, rng)
        run = run_on_sites(thinned_text(case), problem, graph, placed, events)
        latencies = [latency for of_type in run.latency_s.values() for latency in of_type]
        yield SitesPrediction(
            seed,
            {kind: rate * seconds for kind, rate in per_s.items()},
            {kind: getattr(run.counts, kind) for kind in KINDS},
            evaluate(problem, placed).latency_ns / 1e6,
            float(np.median(latencies)) * 1e3 if latencies else None,
        )


def sites_summary(made: Sequence[SitesPrediction]) -> str:
    """Mean errors of all messages, and of all cases together by kind."""
    off = np.abs([each.error for each in made])
    lines = [f"messages of all kinds: {off.mean():.1%} off on average, {np.median(off):.1%} in the median"]
    much = [each for each in made if each.counted["events"] + each.counted["requests"] >= SITES_COST / 2]
    if much:
        mean = np.abs([each.error for each in much]).mean()
        lines.append(f"of the {len(much)} cases with {SITES_COST // 2:,} events and requests and more: {mean:.1%}")
    for kind in KINDS:
        predicted, counted = (sum(of[kind] for of in each) for each in
                              ([m.predicted for m in made], [m.counted for m in made]))  # fmt: skip
        lines.append(f"  {kind:17} {predicted:12,.0f} predicted {counted:12,} counted")
    return "\n".join(lines)


# ---- what comes out


def errors(predictions: Sequence[Prediction]) -> dict[str, F64]:
    """Relative errors by what was counted; those of requests where there were some."""
    comparisons = [prediction.comparison for prediction in predictions]
    return {
        "data": np.array([c.data_error for c in comparisons]),
        "requests": np.array([c.requests_error for c in comparisons if c.counted.requests]),
        "data and requests": np.array([c.total_error for c in comparisons]),
        "with extensions": np.array([c.all_error for c in comparisons]),
        "by episodes": np.array([c.episodes_error for c in comparisons]),
    }


def summary(predictions: Sequence[Prediction]) -> str:
    """Mean absolute relative errors, and the quantiles of errors."""
    lines = [f"{'':18} {'cases':>5} {'mean |e|':>9} {'5%':>8} {'25%':>8} {'50%':>8} {'75%':>8} {'95%':>8}"]
    for name, values in errors(predictions).items():
        if len(values):
            quantiles = " ".join(f"{value:8.1%}" for value in np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95]))
            lines.append(f"{name:18} {len(values):5} {np.abs(values).mean():9.1%} {quantiles}")
    counted = [prediction.comparison for prediction in predictions]
    data, requests, extensions = (
        sum(values)
        for values in zip(*((c.counted.data, c.counted.requests, c.extensions) for c in counted), strict=True)
    )
    lines.append(f"counted: requests are {requests / data:.1%} of data, extensions {extensions / data:.1%}")
    return "\n".join(lines)


def draw_histogram(predictions: Sequence[Prediction], out: Path) -> None:
    """The relative errors of all cases, and the mean of their sizes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 2.8), layout="constrained")
    axes = figure.subplots(1, 4)
    for axis, (name, values) in zip(axes, errors(predictions).items(), strict=False):  # the first four
        axis.hist(100 * np.clip(values, -1, 1), bins=np.linspace(-100, 100, 41).tolist())
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_title(f"{name}: {np.abs(values).mean():.1%}" if len(values) else name)
        axis.set_xlabel("predicted against counted, %")
    axes[0].set_ylabel("cases")
    figure.savefig(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--mechanism", default="heuristic+", help=f"or {RANDOM}")
    parser.add_argument("--cost", choices=[*COST_MODELS], default="bursts")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--on-sites", action="store_true", help="count messages of all kinds, on simulated sites")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.cases)
    if options.on_sites:
        on_sites = []
        for each in predictions_on_sites(seeds, options.mechanism, COST_MODELS[options.cost]):
            on_sites.append(each)
            counted = sum(each.counted.values())
            latency = "" if each.median_ms is None else f", {each.latency_ms:.1f} ms and {each.median_ms:.1f} ms"
            print(f"seed {each.seed}: {each.error:+.1%} of {counted:,} messages x hops{latency}", flush=True)
        print(sites_summary(on_sites))
        return
    made = list(predictions(seeds, options.mechanism, options.events, COST_MODELS[options.cost]))
    print(f"model {options.cost}, plans of {options.mechanism}, about {options.events:,} events each")
    print(f"seeds {seeds.start} to {seeds.stop - 1}")
    print(summary(made))
    if options.out is not None:
        draw_histogram(made, options.out)


if __name__ == "__main__":
    main()
