"""Which demands are broken, and for how long (the analysis of TCEP's MAPE-K loop): a demand that is broken for a moment
starts nothing, and one that swings about its limit does not start anything twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from situ.lang.demands import JudgedDemand

#: A subscription, and what it demands.
DemandKey: TypeAlias = tuple[str, str]
#: A demand that was broken counts as kept again when it is so by this much.
MARGIN = 0.05


@dataclass(frozen=True, slots=True)
class BrokenDemands:
    """Since when demands are broken, by the coordinator's clock."""

    since: Mapping[DemandKey, float]

    def looked(self, demands: Sequence[JudgedDemand], now: float) -> BrokenDemands:
        """The same after another look. What is not measured stays as it was.

        >>> from situ.graph.query import Demand
        >>> latency = Demand("latency", 100.0)
        >>> at = lambda measured: (JudgedDemand("Alarm", latency, measured),)
        >>> broken = BrokenDemands({}).looked(at(120.0), 5.0).looked(at(99.0), 6.0).looked(at(None), 7.0)
        >>> broken.since, broken.looked(at(90.0), 8.0).since
        ({('Alarm', 'latency'): 5.0}, {})
        """
        since: dict[DemandKey, float] = {}
        for each in demands:
            key = each.subscription, each.demand.metric
            begun = self.since.get(key)
            if each.measured is None:
                is_broken = begun is not None
            else:
                is_broken = each.measured >= each.demand.limit * (1.0 if begun is None else 1.0 - MARGIN)
            if is_broken:
                since[key] = now if begun is None else begun
        return BrokenDemands(since)

    def for_long(self, now: float, patience_s: float) -> tuple[DemandKey, ...]:
        """The demands that are broken for as long as somebody has patience."""
        return tuple(key for key, begun in self.since.items() if now >= begun + patience_s)
