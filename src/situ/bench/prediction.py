"""How well a cost model predicts: messages x hops of random cases, predicted and counted.

`python -m situ.bench.prediction [--cases N] [--mechanism NAME] [--cost NAME] [--events N] [--seed N] [--out PNG]`

A case is a chain of three complex events on a network of antennas (`situ.lab.panorama.experiments.cases`). For a
simulation event by event, every event has a number u, drawn evenly below a prime m, and an operator of selectivity p
takes the combinations of events whose sum of u, modulo m, is below p x m: that is as good as chance, and the same in
every run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from situ.graph.operators import OperatorGraph
from situ.kernel.arrays import F64
from situ.lab.panorama.experiments.cases import PlacementCase, random_case
from situ.lab.panorama.simulation.compare import CostComparison, compare_with_model
from situ.lab.panorama.simulation.draw import VALUES, draw
from situ.lab.panorama.simulation.simulate import simulate
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.generate import antennas
from situ.placement.cost_models import COST_MODELS
from situ.placement.coverage import Coverage
from situ.placement.from_graph import problem_of
from situ.placement.mechanisms import mechanism
from situ.placement.plan import Placed, Steps
from situ.placement.problem import CostModel, Kind, PlannedOperator, Problem

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


def thinned(case: PlacementCase, model: CostModel) -> tuple[OperatorGraph, Problem]:
    """The case with events that have a number u, and with conditions that pass as often as its selectivities say."""
    graph = resolve(parse(thinned_text(case)))
    return graph, problem_of(graph, case.network, case.statistics, model, root=case.root)


def thinned_text(case: PlacementCase) -> str:
    """The query of `thinned`."""
    problem = case.problem()
    streams = [f"stream {event}(u int, us int) time us in us" for event in problem.sources]
    rules = [_rule(operator, number in problem.outputs) for number, operator in enumerate(problem.operators)]
    return "\n".join(streams + rules)


def _rule(operator: PlannedOperator, is_output: bool) -> str:
    """Condition and assignment are different sums, so that one says nothing of the other (m is a prime)."""
    *before, last = operator.events
    together = " + ".join([*(f"{event}.u" for event in before), "this.u"])
    most = round(operator.selectivity * VALUES)
    joint = " then each " if operator.kind is Kind.SEQ else " and "
    steps = joint.join([*before, f"{last}(({together}) % {VALUES} < {most})"])
    value = " + ".join(f"{2 * number + 3} * {event}.u" for number, event in enumerate(operator.events))
    head = f"subscribe {operator.name}" if is_output else f"define {operator.name}(u)"
    return f"{head} detect {steps} within {round(operator.window_s * 1e6)} us assign u = ({value}) % {VALUES}"


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
    parser.add_argument("--cost", choices=[*COST_MODELS], default="coverage")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.cases)
    made = list(predictions(seeds, options.mechanism, options.events, COST_MODELS[options.cost]))
    print(f"model {options.cost}, plans of {options.mechanism}, about {options.events:,} events each")
    print(f"seeds {seeds.start} to {seeds.stop - 1}")
    print(summary(made))
    if options.out is not None:
        draw_histogram(made, options.out)


if __name__ == "__main__":
    main()
