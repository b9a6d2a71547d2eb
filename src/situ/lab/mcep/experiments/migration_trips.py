"""Consumers of the Ingolstadt trace and what they need, for MCEP's experiments on migrations (section 6.3).

A trip is one vehicle's: its interest, a square, moves with it, and so do the streams that its operator graph reads. The
future is what the trace has, or what dead reckoning expects of what is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.lab.ingolstadt import trace
from situ.lab.mcep.migration.broker_regions import Area, BrokerRegions
from situ.lab.mcep.migration.greedy_migration import LOOKS_EVERY_US
from situ.lab.mcep.migration.migcep_expected import range_query
from situ.lab.mcep.migration.migcep_problem import MigrationProblem, MovableOperator
from situ.lab.mcep.prediction.predictor import dead_reckoning

Application = Literal["traffic", "video"]


@dataclass(frozen=True, slots=True)
class Parameters:
    """Everything that the experiments suppose. What the paper says is marked; the rest is ours."""

    splits: tuple[tuple[int, int], ...] = ((8, 5),)  # paper: one root, 40 leaves
    latency_ms: float = 5.0  # paper: links are alike. How much it is cancels out of all that is relative
    transfer_bytes_per_s: float = 1.25e6  # 10 Mbit/s: 100,000 KiB take 82 s; paper: "over a minute"
    step_us: int = 1_000_000  # as often vehicles report
    looks_every_us: int = LOOKS_EVERY_US  # greedy; paper: "every few seconds". Predictions are renewed as often
    horizon_s: int = 240  # of a prediction: three times the longest transfer, or such would never be begun
    course_s: int = 5  # dead reckoning goes on as in the last so many seconds
    trip_s: int = 300  # consumers are vehicles that are there for so long: time for some migrations
    traffic_edge_m: float = 500.0  # of the interest; paper: up to 500 m
    vehicle_bytes: float = 50.0  # an event of a vehicle: the middle of the paper's 10 to 100; one per second (paper)
    slow_share: float = 0.05  # of a vehicle's events that tell of braking: those below -2 m/s2 in the trace
    lane_share: float = 0.003  # of its events with another lane of the same road than before: as in the trace
    accident_share: float = 0.0003  # accidents are rare
    video_edge_m: float = 400.0  # paper: friends within 200 m
    camera_spacing_m: float = 100.0  # paper: equidistant
    camera_bytes_per_s: float = 50_000.0  # 400 kbit/s: small pictures, few per second
    seen_share: float = 0.01  # a vehicle that was recognised is a record, no picture
    friend_share: float = 0.001  # few of them are friends


@dataclass(frozen=True)
class Town:
    """The vehicles of the trace by second, the cameras, and the brokers."""

    parameters: Parameters

    @cached_property
    def _columns(self) -> tuple[I64, F64, F64]:
        rows = trace()
        return rows["time_us"].to_numpy() // 1_000_000, rows["x"].to_numpy(), rows["y"].to_numpy()

    @cached_property
    def _offsets(self) -> I64:
        seconds, _, _ = self._columns
        return np.searchsorted(seconds, np.arange(seconds[-1] + 2))

    @cached_property
    def regions(self) -> BrokerRegions:
        _, x, y = self._columns
        area = Area(float(x.min()), float(y.min()), float(x.max()), float(y.max()))
        return BrokerRegions(area, self.parameters.splits, self.parameters.latency_ms)

    @cached_property
    def cameras(self) -> tuple[F64, F64]:
        area, apart = self.regions.area, self.parameters.camera_spacing_m
        xs, ys = (np.arange(low + apart / 2, high, apart) for low, high in self._sides(area))
        x, y = np.meshgrid(xs, ys)
        return x.ravel(), y.ravel()

    @staticmethod
    def _sides(area: Area) -> tuple[tuple[float, float], tuple[float, float]]:
        return (area.x_min, area.x_max), (area.y_min, area.y_max)

    def vehicles(self, second: int) -> tuple[F64, F64]:
        """Where all vehicles of the town are in a second."""
        _, x, y = self._columns
        here = slice(self._offsets[second], self._offsets[second + 1])
        return x[here], y[here]

    def trips(self, count: int, rng: np.random.Generator) -> list[Trip]:
        """Trips of vehicles that are long enough in the town, drawn at random."""
        seconds, x, y = self._columns
        names = trace()["vehicle"].to_numpy(zero_copy_only=False)
        order = np.lexsort((seconds, names))
        vehicles, first, rows = np.unique(names[order], return_index=True, return_counts=True)
        long_enough = np.flatnonzero(rows >= self.parameters.trip_s)
        drawn = rng.choice(long_enough, min(count, len(long_enough)), replace=False)
        trips_made = []
        for vehicle in drawn.tolist():
            part = order[first[vehicle] : first[vehicle] + rows[vehicle]]
            trips_made.append(Trip(self, str(vehicles[vehicle]), int(seconds[part[0]]), x[part], y[part]))
        return trips_made


@dataclass(frozen=True)
class Trip:
    """Where a consumer is, second by second."""

    town: Town
    vehicle: str
    start_s: int
    x: F64
    y: F64

    def exact(self, application: Application) -> MigrationProblem:
        """Everything as it comes, with operators that have no state yet."""
        if application == "video":
            streams = self._video(self.x, self.y)
        else:
            ways = (self._traffic(k, self.x[k : k + 1], self.y[k : k + 1]) for k in range(len(self.x)))
            streams = np.concatenate(list(ways))
        return self._problem(application, 0, self.x, self.y, streams)

    def predicted(self, application: Application) -> Iterator[MigrationProblem]:
        """What is expected every few seconds: the consumer goes on as it went, up to the border; vehicles are found
        where they are now, cameras do not move."""
        parameters = self.town.parameters
        for second in range(0, len(self.x), parameters.looks_every_us // parameters.step_us):
            x, y = self._course(second)
            streams = self._video(x, y) if application == "video" else self._traffic(second, x, y)
            yield self._problem(application, second, x, y, streams)

    def _course(self, second: int) -> tuple[F64, F64]:
        parameters, area = self.town.parameters, self.town.regions.area
        times = np.unique([max(second - parameters.course_s, 0), second])
        end = dead_reckoning(times, self.x[times], self.y[times], second + parameters.horizon_s)
        there = np.arange(parameters.horizon_s) / parameters.horizon_s
        x = self.x[second] + there * (end[0] - self.x[second])
        y = self.y[second] + there * (end[1] - self.y[second])
        return np.clip(x, area.x_min, area.x_max), np.clip(y, area.y_min, area.y_max)

    def _traffic(self, second: int, x: F64, y: F64) -> F64:
        """Around places, of the vehicles of one second."""
        parameters = self.town.parameters
        vehicle_x, vehicle_y = self.town.vehicles(self.start_s + second)
        rates = np.full(len(vehicle_x), parameters.vehicle_bytes)
        return range_query(self.town.regions, x, y, parameters.traffic_edge_m, vehicle_x, vehicle_y, rates)

    def _video(self, x: F64, y: F64) -> F64:
        parameters = self.town.parameters
        camera_x, camera_y = self.town.cameras
        rates = np.full(len(camera_x), parameters.camera_bytes_per_s)
        return range_query(self.town.regions, x, y, parameters.video_edge_m, camera_x, camera_y, rates)

    def _problem(self, application: Application, second: int, x: F64, y: F64, streams: F64) -> MigrationProblem:
        parameters = self.town.parameters
        leaves = self.town.regions.leaves_at(x, y)
        host = int(self.town.regions.leaves_at(self.x[:1], self.y[:1])[0])
        operators = tuple(
            MovableOperator(name, reads, 0.0, host, share * streams.sum(axis=1))
            for name, reads, share in _graph(application, parameters)
        )
        start_us = (self.start_s + second) * 1_000_000
        return MigrationProblem(
            self.town.regions.network, start_us, parameters.step_us, {"Interest": streams}, operators, leaves,
            parameters.transfer_bytes_per_s,
        )  # fmt: skip


def _graph(application: Application, parameters: Parameters) -> list[tuple[str, tuple[str, ...], float]]:
    """Operators, what they read, and what they put out of a byte that the interest has. The first is the leaf whose
    state is varied; all begin at the consumer's broker (paper)."""
    if application == "video":
        return [("Seen", ("Interest",), parameters.seen_share), ("Friend", ("Seen",), parameters.friend_share)]
    return [
        ("Slower", ("Interest",), parameters.slow_share),
        ("OtherLane", ("Interest",), parameters.lane_share),
        ("Accident", ("Slower", "OtherLane"), parameters.accident_share),
    ]
