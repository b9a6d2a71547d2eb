"""A plan is improved one operator at a time, until no change of one operator makes it cheaper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from situ.placement.evaluate import evaluate, overloaded_sites
from situ.placement.plan import Placed
from situ.placement.problem import Problem
from situ.placement.steps import possible_steps


def improved(problem: Problem, placed: Sequence[Placed]) -> tuple[Placed, ...]:
    """The best plan that single changes lead to. Plans within the limits come before all others, and of those that are
    not, the ones with fewer sites over their limits."""
    best = tuple(placed)
    value = worth(problem, best)
    changed = True
    while changed:
        changed = False
        for number in range(len(best)):
            for other in _changes(problem, best, number):
                changed_plan = (*best[:number], other, *best[number + 1 :])
                if (other_value := worth(problem, changed_plan)) < value:
                    best, value, changed = changed_plan, other_value, True
    return best


def worth(problem: Problem, placed: Sequence[Placed]) -> tuple[int, int, float]:
    """Smaller is better. Costs that differ by rounding only are equal, so that the search comes to an end."""
    evaluation = evaluate(problem, placed)
    late = sum(max(0, evaluation.output_ns[n] - problem.latency_limit_ns(n)) for n in problem.outputs)
    crowded = len(overloaded_sites(problem, placed)) if problem.limits_sites else 0
    return late, crowded, float(f"{evaluation.cost:.12g}")


def _changes(problem: Problem, placed: Sequence[Placed], number: int) -> Iterator[Placed]:
    """Other steps where the operator is; any steps at neighbouring sites, at sources of its inputs, where its inputs
    come from and where its events go."""
    operator, here = problem.operators[number], placed[number].site
    sites = {here, problem.root, *map(int, problem.network.neighbours(here))}
    for event in operator.events:
        if event in problem.number:
            sites.add(placed[problem.number[event]].site)
        else:
            sites.update(map(int, problem.sources[event].sites))
    sites.update(placed[reader].site for reader in problem.readers[operator.name])
    for site in sorted(sites):
        for steps in possible_steps(operator):
            if (site, steps) != (here, placed[number].steps):
                yield Placed(site, steps)
