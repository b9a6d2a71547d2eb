"""Demands by themselves: `latency < 50 ms, overhead < 10 KB`, of a subscription that runs; and what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from situ.core.errors import QueryError, SituError
from situ.graph.query import Demand, Subscription
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.lang.unparse import unparse_demand


@dataclass(frozen=True, slots=True)
class JudgedDemand:
    """A demand of a subscription, and what a plan means for it, or what was measured of it, in the demand's unit; None
    where there is nothing yet to measure it by."""

    subscription: str
    demand: Demand
    measured: float | None

    @property
    def kept(self) -> bool | None:
        return None if self.measured is None else self.measured < self.demand.limit

    def __str__(self) -> str:
        """
        >>> print(JudgedDemand("Alarm", Demand("hops", 3), 4))
        Alarm: demand hops < 3 is broken: 4
        >>> print(JudgedDemand("Alarm", Demand("latency", 100_000), None))
        Alarm: demand latency < 100 ms is not measured yet
        """
        if self.measured is None:
            return f"{self.subscription}: demand {unparse_demand(self.demand)} is not measured yet"
        verb = "kept" if self.kept else "broken"
        measured = _as_text(self.demand.metric, self.measured)
        return f"{self.subscription}: demand {unparse_demand(self.demand)} is {verb}: {measured}"

    def to_json(self) -> dict[str, Any]:
        """Limit and measured value are in the demand's unit: microseconds, bytes, events per second, hops, events."""
        return {
            "subscription": self.subscription,
            "metric": self.demand.metric,
            "limit": self.demand.limit,
            "measured": self.measured,
            "kept": self.kept,
        }


def _as_text(metric: str, value: float) -> str:
    match metric:
        case "latency":
            return f"{value / 1000:,.4g} ms"
        case "overhead":
            return f"{value:,.0f} bytes per broker"
        case "load":
            return f"{value:,.4g} events per s at one site"
        case "bandwidth-delay":
            return f"{value:,.3g} events under way"
        case _:
            return f"{value:g}"


def judged_latencies(
    subscriptions: Iterable[Subscription], latencies_us: Mapping[str, Sequence[float]]
) -> tuple[JudgedDemand, ...]:
    """The demands of subscriptions that mean something in one process, those of latency, beside the mean of what was
    measured."""
    return tuple(
        JudgedDemand(s.name, demand, fmean(latencies_us[s.name]) if latencies_us.get(s.name) else None)
        for s in subscriptions
        for demand in dict.fromkeys(s.demands)
        if demand.metric == "latency"
    )


def parse_demands(text: str, subscription: str) -> tuple[Demand, ...]:
    """The demands that a text states; QueryError if it states none, or some that nobody can mean. An empty text is no
    demand at all.

    >>> parse_demands("latency < 50 ms, hops < 4", "Alarm")
    (Demand(metric='latency', limit=50000), Demand(metric='hops', limit=4))
    >>> parse_demands("latency < 50 ms, latency < 80 ms", "Alarm")
    Traceback (most recent call last):
    situ.core.errors.QueryError: demands of Alarm: they contradict each other: latency has two limits.
      State one limit for each.
    """
    place = f"demands of {subscription}"
    if not text.strip():
        return ()
    try:
        query = resolve(parse(f"stream A(t timestamp) time t subscribe S detect A as a assign t = a.t demand {text}"))
    except SituError as error:
        raise QueryError(
            error.cause.removeprefix("S: "),
            place=place,
            remedy="Write them as `latency < 100 ms, overhead < 10 KB, load < 500, hops < 4, bandwidth-delay < 2.5`.",
        ) from None
    subscriptions = query.subscriptions
    if len(query.operators) != 1 or len(query.streams) != 1 or subscriptions[0].subscription is None:
        raise QueryError("this is more than demands", place=place, remedy="Write `latency < 100 ms`.")
    demands = tuple(dict.fromkeys(subscriptions[0].subscription.demands))
    twice = [metric for metric, count in Counter(demand.metric for demand in demands).items() if count > 1]
    if twice:
        raise QueryError(
            f"they contradict each other: {twice[0]} has two limits",
            place=place,
            remedy="State one limit for each.",
        )
    return demands
