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
    """By demand that is broken, when it was first seen to be, and when last, by the coordinator's clock."""

    seen: Mapping[DemandKey, tuple[float, float]]

    def looked(self, demands: Sequence[JudgedDemand], now: float) -> BrokenDemands:
        """The same after another look. What is not measured stays as it was.

        >>> from situ.graph.query import Demand
        >>> latency = Demand("latency", 100.0)
        >>> at = lambda measured: (JudgedDemand("Alarm", latency, measured),)
        >>> broken = BrokenDemands({}).looked(at(120.0), 5.0).looked(at(99.0), 6.0).looked(at(None), 7.0)
        >>> broken.seen, broken.looked(at(90.0), 8.0).seen
        ({('Alarm', 'latency'): (5.0, 6.0)}, {})
        """
        seen: dict[DemandKey, tuple[float, float]] = {}
        for each in demands:
            key = each.subscription, each.demand.metric
            before = self.seen.get(key)
            if each.measured is None:
                if before is not None:
                    seen[key] = before
            elif each.measured >= each.demand.limit * (1.0 if before is None else 1.0 - MARGIN):
                seen[key] = (now if before is None else before[0]), now
        return BrokenDemands(seen)

    def for_long(self, patience_s: float) -> tuple[DemandKey, ...]:
        """The demands that were seen to be broken for longer than somebody has patience, and never kept meanwhile."""
        return tuple(key for key, (first, last) in self.seen.items() if last >= first + patience_s)
