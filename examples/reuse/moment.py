"""Who is served by which region at one moment: what is delivered says it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from situ.lang.parse import parse
from situ.mobility.interests import Updates, interests_of

QUERY = parse((Path(__file__).resolve().parent / "traffic.situ").read_text(encoding="utf-8"))
(SUBSCRIPTION,) = QUERY.subscriptions
SQUARE_M = SUBSCRIPTION.around.sizes_m[0]


@dataclass(frozen=True, slots=True)
class Moment:
    """The squares of the drivers who get a mean speed at a second, and for each the square that it was found in. Both
    are given by their middles. `regions` are numbers: drivers with the same one share."""

    second: int
    squares: np.ndarray
    served_by: np.ndarray
    regions: np.ndarray

    @property
    def count(self) -> int:
        """How many regions there are."""
        return len(np.unique(self.regions))


def moment_of(delivered: pd.DataFrame, drivers: pa.Table, second: int) -> Moment:
    """Every row that is delivered says whose region it was found in. Those of one second are picked, the last one of
    each driver."""
    at = delivered[pd.to_datetime(delivered["_time"], utc=True) == pd.Timestamp(second, unit="s", tz="UTC")]
    at = at.sort_values(["consumer", "interest"]).groupby("consumer").last().reset_index()
    middles, row_of = middles_of(drivers)
    squares, regions = (
        np.array([row_of[one] for one in zip(at[consumer], at[interest], strict=True)], np.int64)
        for consumer, interest in (("consumer", "interest"), ("region_consumer", "region_interest"))
    )
    return Moment(second, middles[squares], middles[regions], regions)


def middles_of(drivers: pa.Table) -> tuple[np.ndarray, dict[tuple[str, int], int]]:
    """The middles of the squares that situ makes of location updates, and the row of each, by driver and number."""
    updates = Updates(drivers["vehicle"].combine_chunks(), microseconds(drivers), *places(drivers))
    interests = interests_of(updates, SUBSCRIPTION.update)
    names = zip(interests.consumer.to_pylist(), interests.number.tolist(), strict=True)
    return np.stack([interests.x, interests.y], axis=1), {name: row for row, name in enumerate(names)}


def microseconds(table: pa.Table) -> np.ndarray:
    return np.rint(table["time_s"].to_numpy() * 1e6).astype(np.int64)


def places(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    x, y = (table[name].to_numpy().astype(float) for name in ("x", "y"))
    return x, y
