"""Where consumers and range queries are expected to be, as migration plans need it: brokers, step by step.

A consumer is connected to the leaf of the region that it is in. A range query spans the leaves in which its events
occur, each with a bandwidth (MCEP, section 5.5: a set of hosts and bandwidths).
"""

from __future__ import annotations

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.lab.mcep.migration.broker_regions import BrokerRegions
from situ.placement.problem import PlacementError


def places_at(times_us: I64, x: F64, y: F64, steps_us: I64) -> tuple[F64, F64]:
    """Where a consumer is at each time, of reports in any order: where it reported to be last. Who goes silent stays
    there, who jumps is there at once. Of two reports of one time the later one counts; before the first report it is
    where that one says.

    >>> times_us, x, y = np.array([0, 30, 10]), np.array([1.0, 9.0, 4.0]), np.array([1.0, 1.0, 2.0])
    >>> [axis.tolist() for axis in places_at(times_us, x, y, np.arange(0, 60, 10))]
    [[1.0, 4.0, 4.0, 9.0, 9.0, 9.0], [1.0, 2.0, 2.0, 1.0, 1.0, 1.0]]
    """
    if not len(times_us):
        raise PlacementError("the consumer has not reported any place", remedy="Plan once it has.")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise PlacementError("a place has no coordinates", remedy="x and y are finite numbers: leave out NaN.")
    order = np.argsort(times_us, kind="stable")
    last = np.maximum(np.searchsorted(times_us[order], steps_us, side="right") - 1, 0)
    return x[order][last], y[order][last]


def range_query(
    regions: BrokerRegions, x: F64, y: F64, edge_m: float, source_x: F64, source_y: F64, bytes_per_s: F64
) -> F64:
    """(steps, brokers): the bytes per second that come from each broker, of a square around a place at each step, where
    sources are at fixed places.

    >>> from situ.lab.mcep.migration.broker_regions import Area
    >>> regions = BrokerRegions(Area(0, 0, 200, 100), ((2, 1),), latency_ms=5.0)
    >>> cameras_x, cameras_y = np.array([50.0, 90.0, 110.0]), np.full(3, 50.0)
    >>> consumer_x, consumer_y = np.array([50.0, 100.0]), np.full(2, 50.0)
    >>> range_query(regions, consumer_x, consumer_y, 50.0, cameras_x, cameras_y, np.full(3, 1000.0)).tolist()
    [[0.0, 1000.0, 0.0], [0.0, 1000.0, 1000.0]]
    """
    inside = (np.abs(source_x - x[:, None]) <= edge_m / 2) & (np.abs(source_y - y[:, None]) <= edge_m / 2)
    rates = np.zeros((len(source_x), len(regions.network.sites)))
    rates[np.arange(len(source_x)), regions.leaves_at(source_x, source_y)] = bytes_per_s
    return inside @ rates
