"""Random cases for a simulation event by event: conditions pass as often as the selectivities say.

Every event has a number u, drawn evenly below a prime m, and an operator of selectivity p takes the combinations of
events whose sum of u, modulo m, is below p x m: that is as good as chance, and the same in every run.
"""

from __future__ import annotations

from situ.graph.operators import OperatorGraph
from situ.lab.panorama.experiments.cases import PlacementCase
from situ.lab.panorama.simulation.draw import VALUES
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.placement.from_graph import problem_of
from situ.placement.problem import CostModel, Kind, PlannedOperator, Problem


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
