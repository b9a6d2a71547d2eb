"""A plan is improved one operator at a time, until no change of one operator makes it cheaper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from situ.kernel.arrays import I64
from situ.placement.evaluate import evaluate, overload
from situ.placement.plan import Placed
from situ.placement.problem import Problem
from situ.placement.steps import possible_steps

#: Where sites are limited, so many are tried around one.
NEAREST = 64


def improved(problem: Problem, placed: Sequence[Placed]) -> tuple[Placed, ...]:
    """The best plan that single changes lead to. Plans within the limits come before all others, and of those that are
    not, the ones that are over them by less."""
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


def worth(problem: Problem, placed: Sequence[Placed]) -> tuple[int, float, float, int]:
    """Smaller is better. Costs that differ by rounding only are equal, so that the search comes to an end; of these,
    the faster plan is better, not the one that happens to come first."""
    evaluation = evaluate(problem, placed)
    late = sum(max(0, evaluation.output_ns[n] - problem.latency_limit_ns(n)) for n in problem.outputs)
    over = overload(problem, placed) if problem.limits_sites else 0.0
    return late, _rounded(over), _rounded(evaluation.cost), evaluation.latency_ns


def _rounded(value: float) -> float:
    return float(f"{value:.12g}")


def _changes(problem: Problem, placed: Sequence[Placed], number: int) -> Iterator[Placed]:
    """Other steps where the operator is; any steps at sites nearby, at sources of its inputs, where its inputs come
    from and where its events go."""
    operator, current_site = problem.operators[number], placed[number].site
    sites = {current_site, problem.root, *map(int, _nearby(problem, current_site))}
    for event in operator.events:
        if event in problem.number:
            sites.add(placed[problem.number[event]].site)
        else:
            sites.update(map(int, problem.sources[event].sites))
    sites.update(placed[reader].site for reader in problem.readers[operator.name])
    for site in sorted(sites):
        for steps in possible_steps(operator):
            if (site, steps) != (current_site, placed[number].steps):
                yield Placed(site, steps)


def _nearby(problem: Problem, site: int) -> I64:
    """The neighbours. Where sites are limited, room may be farther off: more of the nearest, with all that are equally
    far as the last of them."""
    if not problem.limits_sites:
        return problem.network.neighbours(site)
    latency_ns = problem.network.ways_from(site).latency_ns
    last = min(NEAREST, len(latency_ns) - 1)
    return np.flatnonzero(latency_ns <= np.partition(latency_ns, last)[last])
