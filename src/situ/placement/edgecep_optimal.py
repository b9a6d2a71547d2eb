"""`edgecep-optimal`: the least flow volume within all limits, by an integer program (EdgeCEP, Problem Definition 1).

One site for every task (decision 0031): that is what is decided; all else follows, and the solver finds it by itself.
For every event type, every site that it may go to and every set of filters that may be needed there, a variable says
whether they are; of complex events also from where. HiGHS solves it, by `scipy`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from situ.placement.plan import Plan
from situ.placement.problem import PlacementError, Problem
from situ.placement.pushed_plan import pushed_plan
from situ.placement.task_flows import Resource, TaskFlows

#: More variables are not tried: the solver would take minutes.
MOST_VARIABLES = 200_000

#: Event types that are read with more different filters are not planned: every set of them has its variables.
MOST_FILTERS = 6

#: The solver ends when it is at most so far from the optimum.
GAP = 1e-9


def edgecep_optimal(problem: Problem) -> Plan:
    return pushed_plan("edgecep-optimal", problem, optimal_sites(TaskFlows.of(problem)))


def optimal_sites(tasks: TaskFlows) -> list[int]:
    """A site for each task; PlacementError where none of them is within the limits."""
    return _Program(tasks).solved()


class _Program:
    """The rows and columns of the integer program. Column task x sites + site: whether a task runs at a site."""

    def __init__(self, tasks: TaskFlows) -> None:
        self.tasks, self.problem = tasks, tasks.problem
        self.sites = len(self.problem.network.sites)
        self.decided = len(self.problem.operators) * self.sites
        self.objective = [0.0] * self.decided
        self.rows: list[tuple[dict[int, float], float, float]] = []
        self.carried: defaultdict[Resource, dict[int, float]] = defaultdict(dict)
        self._check_size()
        self._one_site_each()
        for event in tasks.contents:
            self._flows_of(event)
        for number in self.problem.outputs:
            rate = self.problem.rates[self.problem.operators[number].name]
            for site in range(self.sites):
                self._add_flow(number * self.sites + site, site, self.problem.destination(number), rate)
        for resource, loads in self.carried.items():
            self.rows.append((loads, -np.inf, tasks.capacities[resource]))

    def _check_size(self) -> None:
        variables = self.decided
        for event, filters in self.tasks.contents.items():
            if len(filters) > MOST_FILTERS:
                raise PlacementError(
                    f"{event} is read with {len(filters)} different filters, and edgecep-optimal plans at most "
                    f"{MOST_FILTERS}",
                    remedy="Try --mechanism edgecep.",
                )
            variables += (2 ** len(filters) - 1) * self.sites ** (2 if event in self.problem.number else 1)
        if variables > MOST_VARIABLES:
            raise PlacementError(
                f"the integer program has {variables:,} variables, and edgecep-optimal tries at most "
                f"{MOST_VARIABLES:,}",
                remedy="Try --mechanism edgecep.",
            )

    def _one_site_each(self) -> None:
        for task in range(len(self.problem.operators)):
            self.rows.append(({task * self.sites + site: 1.0 for site in range(self.sites)}, 1.0, 1.0))
        costs = self.tasks.execution_costs
        for site, limits in enumerate(self.problem.network.sites):
            columns = [task * self.sites + site for task in range(len(costs))]
            if limits.operators is not None:
                self.rows.append((dict.fromkeys(columns, 1.0), -np.inf, limits.operators))
            if limits.load_per_s is not None:
                self.rows.append((dict(zip(columns, costs, strict=True)), -np.inf, limits.load_per_s))

    def _flows_of(self, event: str) -> None:
        """The columns of all flows of an event type, and the rows that tie them to the sites of tasks."""
        subsets = list(_subsets(self.tasks.contents[event]))
        writer = self.problem.number.get(event)
        for to in range(self.sites):
            column_of: defaultdict[str, dict[int, float]] = defaultdict(dict)
            for start in [None] if writer is None else range(self.sites):
                columns = []
                for filters in subsets:
                    column = self._flow_column(event, start, to, self.tasks.share(event, filters))
                    columns.append(column)
                    for each in filters:
                        column_of[each][column] = 1.0
                # Nothing but one set of filters is sent, and only from where the event type is written.
                ones = dict.fromkeys(columns, 1.0)
                if start is not None and writer is not None:
                    ones[writer * self.sites + start] = -1.0
                self.rows.append((ones, -np.inf, 1.0 if start is None else 0.0))
            for reader, filter_ in self.tasks.readers[event]:
                self.rows.append(({**column_of[filter_], reader * self.sites + to: -1.0}, 0.0, np.inf))

    def _flow_column(self, event: str, start: int | None, to: int, share: float) -> int:
        """A new column: whether this share of an event type flows to a site. `start` is None for primitive events."""
        column = len(self.objective)
        self.objective.append(0.0)
        if start is not None:
            self._add_flow(column, start, to, share * self.problem.rates[event])
        else:
            sources = self.problem.sources[event]
            for source, rate in zip(sources.sites.tolist(), sources.rates_per_s.tolist(), strict=True):
                self._add_flow(column, source, to, share * rate)
        return column

    def _add_flow(self, column: int, start: int, to: int, per_s: float) -> None:
        self.objective[column] += per_s * float(self.tasks.costs[to, start])
        for resource in self.tasks.passes(start, to):
            loads = self.carried[resource]
            loads[column] = loads.get(column, 0.0) + per_s

    def solved(self) -> list[int]:
        try:
            from scipy.optimize import Bounds, LinearConstraint, milp
            from scipy.sparse import csr_array
        except ImportError:
            raise PlacementError(
                "edgecep-optimal needs scipy, which is not installed", remedy="pip install 'situ[solver]'"
            ) from None
        entries = [
            (row, column, value) for row, (terms, _, _) in enumerate(self.rows) for column, value in terms.items()
        ]
        rows, columns, values = (np.array(each) for each in zip(*entries, strict=True))
        matrix = csr_array((values, (rows, columns)), shape=(len(self.rows), len(self.objective)))
        _, least, most = zip(*self.rows, strict=True)
        integral = np.zeros(len(self.objective))
        integral[: self.decided] = 1
        scale = max(self.objective) or 1.0
        solution = milp(
            np.array(self.objective) / scale,
            integrality=integral,
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(matrix, np.array(least), np.array(most)),
            options={"mip_rel_gap": GAP},
        )
        if solution.x is None:
            raise PlacementError(
                "no sites for the operators are within the capacities of sites and links",
                remedy="Allow more there, or try --mechanism edgecep, which exceeds them as little as it can.",
            )
        return [int(site) for site in np.argmax(solution.x[: self.decided].reshape(-1, self.sites), axis=1)]


def _subsets(filters: dict[str, float]) -> Iterator[tuple[str, ...]]:
    names = sorted(filters)
    for size in range(1, len(names) + 1):
        yield from combinations(names, size)
