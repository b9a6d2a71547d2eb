"""Who is served by which region at one moment. situ decides that with the same function when the query runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from situ.lang.parse import parse
from situ.mobility.interests import Interests, Updates, interests_of
from situ.reuse.regions import beginning, share
from situ.space.geometry import Shape
from situ.space.pairs import PlacedEvents, Regions

QUERY = parse((Path(__file__).resolve().parent / "traffic.situ").read_text(encoding="utf-8"))
(SUBSCRIPTION,) = QUERY.subscriptions
SQUARE_M = SUBSCRIPTION.around.sizes_m[0]
WINDOW_US = 10_000_000


@dataclass(frozen=True, slots=True)
class Moment:
    """The squares of the drivers who are on their way at a second, and for each the square that serves it. Both are
    given by their middles. `regions` are numbers: drivers with the same one share."""

    second: int
    squares: np.ndarray
    served_by: np.ndarray
    regions: np.ndarray

    @property
    def count(self) -> int:
        """How many regions there are."""
        return len(np.unique(self.regions))


def moment_of(vehicles: pa.Table, drivers: pa.Table, second: int) -> Moment:
    """Interests come one after the other, and some share a region that began long before: so all are dealt with, and
    then those of the moment are picked."""
    interests = interests_by_start(drivers)
    by = serving(vehicles, interests)
    at_us = 1_000_000 * second
    here = drivers.filter(pa.array(microseconds(drivers) == at_us))["vehicle"].to_pylist()
    driving = np.isin(interests.consumer.to_pylist(), here)
    now = driving & (interests.start_us <= at_us) & (at_us < interests.end_us)
    middles = np.stack([interests.x, interests.y], axis=1)
    return Moment(second, middles[now], middles[by[now]], by[now])


def interests_by_start(drivers: pa.Table) -> Interests:
    """The interests that situ makes of location updates."""
    updates = Updates(drivers["vehicle"].combine_chunks(), microseconds(drivers), *places(drivers))
    found = interests_of(updates, SUBSCRIPTION.update)
    return found.take(np.argsort(found.start_us, kind="stable"))


def serving(vehicles: pa.Table, interests: Interests) -> np.ndarray:
    """For each interest, which comes by its start, the one whose region serves it."""
    events = PlacedEvents.of(microseconds(vehicles), *places(vehicles), Shape.of(SUBSCRIPTION.around))
    asked = Regions(interests.start_us - WINDOW_US, interests.end_us, interests.x, interests.y)
    nowhere, never = np.zeros(0), np.zeros(0, np.int64)
    quality = SUBSCRIPTION.quality
    return share(events, nowhere, nowhere, never, asked, quality.precision, quality.recall, beginning()).by


def microseconds(table: pa.Table) -> np.ndarray:
    return np.rint(table["time_s"].to_numpy() * 1e6).astype(np.int64)


def places(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    x, y = (table[name].to_numpy().astype(float) for name in ("x", "y"))
    return x, y
