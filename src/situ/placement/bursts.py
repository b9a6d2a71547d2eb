"""The cost model `bursts`: `coverage`, with the coverage of pull windows as it is, requests as they are sent, and
complex events as they come.

Where `coverage` has one request for each time without a gap that is pulled, nobody knows such a time beforehand: it
takes extensions, and where a SEQ pulls an event that comes before another, a request for each combination that reaches
further. Complex events come in bursts, because they share events: one rare event that meets ten frequent ones makes ten
of them, which open hardly more windows than one.
"""

from __future__ import annotations

from dataclasses import dataclass

from situ.kernel.arrays import F64
from situ.placement.coverage import Coverage
from situ.placement.problem import PUSHED, Kind, Need, PlannedOperator
from situ.placement.pull_requests import bursts_of, covered_by_and, covered_by_seq, requests_of_and, requests_of_seq

#: What is covered is never quite everything: requests are still sent.
MOST_COVERED = 1 - 1e-12


@dataclass(frozen=True, slots=True)
class Bursts(Coverage):
    """Predicts what a run counts, extensions included, half as far off as `coverage`."""

    name: str = "bursts"

    def output_bursts(self, operator: PlannedOperator, rates: F64, bursts: F64) -> float:
        """Complex events that share events come together."""
        events_per_s, window_s = self.output_rate(operator, rates), operator.window_s
        if operator.kind not in (Kind.SEQ, Kind.AND) or window_s == 0:
            return events_per_s
        reach = [1 / order + (operator.kind is Kind.AND) for order in range(1, len(rates))]
        inputs = [(burst * window_s, rate * window_s) for burst, rate in zip(bursts, rates, strict=True)]
        return min(events_per_s, bursts_of(inputs, operator.selectivity, reach) / window_s)

    def need(self, operator: PlannedOperator, bursts: F64, earlier: tuple[int, ...], step: tuple[int, ...]) -> Need:
        """Inputs of one step of a SEQ may need different numbers of requests: the mean of them."""
        if not earlier:
            return PUSHED
        rates = {number: float(bursts[number]) * operator.window_s for number in sorted(earlier)}
        every = tuple(rates.values())
        if operator.kind is Kind.AND:
            covered, requests = covered_by_and(every), requests_of_and(every)
        else:
            covered = covered_by_seq(every)
            requests = sum(_requests_of_seq(rates, pulled) for pulled in step) / len(step)
        covered = min(covered, MOST_COVERED)
        return Need(covered, requests / operator.window_s / (1 - covered))


def _requests_of_seq(rates: dict[int, float], pulled: int) -> float:
    before = tuple(rate for number, rate in rates.items() if number < pulled)
    return requests_of_seq(before, tuple(rate for number, rate in rates.items() if number > pulled))
