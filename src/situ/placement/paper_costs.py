"""The cost model `paper`: PaNORAMA, Appendix A, as printed.

It uses rates as probabilities, so a cost is no number of messages; it orders plans. One slip is mended
(docs/decisions/0015-the-papers-cost-model.md): printed, the rate of a complex event is the state cost of its own plan,
which is nothing where operator and sources share a site. The text calls it "the overall event rate", and so it is here:
the reachability of the last state of the plan that takes one input after another, which no order of inputs changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from situ.kernel.arrays import F64
from situ.placement.problem import PUSHED, Kind, Need, PlannedOperator


@dataclass(frozen=True, slots=True)
class PaperCosts:
    """State cost x state reachability probability, summed over states."""

    name: str = "paper"

    def output_rate(self, operator: PlannedOperator, rates: F64) -> float:
        if operator.kind in (Kind.SEQ, Kind.AND):
            combinations_per_s = math.prod(map(float, rates)) * operator.window_s ** (len(rates) - 1)
        else:
            combinations_per_s = float(rates.sum()) if operator.every_s is None else 1 / operator.every_s
        return combinations_per_s * operator.selectivity

    def output_bursts(self, operator: PlannedOperator, rates: F64, bursts: F64) -> float:
        """The bursts of the output, which are its events: they count one by one."""
        return self.output_rate(operator, rates)

    def need(self, operator: PlannedOperator, rates: F64, earlier: tuple[int, ...], step: tuple[int, ...]) -> Need:
        """2 W x SRP: the sum of the rates of this state x the product of those before it, each within W."""
        if operator.kind not in (Kind.SEQ, Kind.AND):
            return PUSHED
        before = math.prod(float(rates[number]) * operator.window_s for number in earlier)
        return Need(2 * operator.window_s * before * sum(float(rates[number]) for number in step))
