"""A hierarchy of brokers that share out an area: MCEP's infrastructure (MCEP, section 3.2).

The root stands for the whole area. A broker's region is split among the brokers below it, down to the leaves, to which
consumers and sensors connect by where they are. Regions of one level are a grid, so finding the leaf of a place is
arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.network.network import Link, Network, NetworkError, Site


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle in the plane, in metres."""

    x_min: float
    y_min: float
    x_max: float
    y_max: float

    def __post_init__(self) -> None:
        corners = self.x_min, self.y_min, self.x_max, self.y_max
        if not (np.isfinite(corners).all() and self.x_min < self.x_max and self.y_min < self.y_max):
            raise NetworkError(f"no area: {corners}", remedy="Give x_min < x_max and y_min < y_max, finite numbers.")

    def split(self, columns: int, rows: int) -> list[Area]:
        """Row by row, from the lower left.

        >>> [part.x_min for part in Area(0, 0, 100, 50).split(2, 1)]
        [0.0, 50.0]
        """
        xs = np.linspace(self.x_min, self.x_max, columns + 1).tolist()
        ys = np.linspace(self.y_min, self.y_max, rows + 1).tolist()
        return [Area(xs[c], ys[r], xs[c + 1], ys[r + 1]) for r in range(rows) for c in range(columns)]


@dataclass(frozen=True)
class BrokerRegions:
    """`splits`: by level, into how many columns and rows the region of a broker is split.

    >>> regions = BrokerRegions(Area(0, 0, 800, 500), splits=((8, 5),), latency_ms=5.0)
    >>> len(regions.network.sites), regions.network.names[:3]
    (41, ('root', 'root.0', 'root.1'))
    >>> regions.leaves_at(np.array([150.0, -20.0]), np.array([10.0, 20.0])).tolist()
    [2, 1]
    """

    area: Area
    splits: tuple[tuple[int, int], ...]
    latency_ms: float  # of every link: those between brokers of the paper's evaluation are alike (section 6)

    def __post_init__(self) -> None:
        if not self.splits or any(columns < 1 or rows < 1 for columns, rows in self.splits):
            raise NetworkError(
                f"regions cannot be split into {self.splits}",
                remedy="Give columns and rows, of 1 at least, for one level at least.",
            )

    @cached_property
    def _levels(self) -> list[list[tuple[str, Area]]]:
        levels = [[("root", self.area)]]
        for columns, rows in self.splits:
            levels.append(
                [
                    (f"{name}.{number}", part)
                    for name, region in levels[-1]
                    for number, part in enumerate(region.split(columns, rows))
                ]
            )
        return levels

    @cached_property
    def network(self) -> Network:
        """The tree. A broker stands in the middle of its region."""
        brokers = [broker for level in self._levels for broker in level]
        sites = [
            Site(name, (region.x_min + region.x_max) / 2, (region.y_min + region.y_max) / 2) for name, region in brokers
        ]
        links = [Link(name.rpartition(".")[0], name, self.latency_ms) for name, _ in brokers[1:]]
        return Network(tuple(sites), tuple(links))

    @cached_property
    def leaves(self) -> I64:
        """The numbers of the leaves, row by row of the whole area, from the lower left."""
        count = len(self._levels[-1])
        first = len(self.network.sites) - count
        middles = np.array([(site.x, site.y) for site in self.network.sites[first:]], np.float64)
        leaves = np.empty(count, np.int64)
        leaves[self._cells(middles[:, 0], middles[:, 1])] = first + np.arange(count)
        return leaves

    def leaves_at(self, x: F64, y: F64) -> I64:
        """The leaf whose region a place lies in; on a border, that to the right or above. Outside of the area it is the
        leaf that is nearest: who leaves the area stays connected to the last broker on the way."""
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise NetworkError("a place has no coordinates", remedy="x and y are finite numbers: leave out NaN.")
        return self.leaves[self._cells(x, y)]

    def _cells(self, x: F64, y: F64) -> I64:
        columns = int(np.prod([columns for columns, _ in self.splits]))
        rows = int(np.prod([rows for _, rows in self.splits]))
        column = _cell(x, self.area.x_min, self.area.x_max, columns)
        return _cell(y, self.area.y_min, self.area.y_max, rows) * columns + column


def _cell(place: F64, least: float, most: float, cells: int) -> I64:
    """Clipped before it becomes a whole number, so that places however far away fit."""
    return np.clip((place - least) / (most - least) * cells, 0, cells - 1).astype(np.int64)
