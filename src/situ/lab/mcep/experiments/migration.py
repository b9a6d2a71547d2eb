"""MCEP's Figures 6h and 6i: `migcep` against greedy migration, over the size of states and of events (section 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from situ.lab.claims import CheckedClaim
from situ.lab.figure import QUICK, Experiment, Figure, Points, Say, Scale
from situ.lab.mcep.experiments.migration_trips import Application, Parameters, Town, Trip
from situ.lab.mcep.migration.greedy_migration import greedy_migration
from situ.lab.mcep.migration.migcep import migcep
from situ.lab.mcep.migration.migcep_follow import follow
from situ.lab.mcep.migration.migcep_plan import NetworkUse, network_use
from situ.lab.mcep.migration.migcep_problem import MigrationProblem

KIB = 1024.0
#: Of a state: bytes in the accident application, KiB in the friend finder (paper: both up to 100,000).
STATES = (0.0, 2_000.0, 5_000.0, 10_000.0, 20_000.0, 50_000.0, 100_000.0)
UNITS: dict[Application, float] = {"traffic": 1.0, "video": KIB}
NAMES: dict[Application, str] = {"traffic": "Traffic", "video": "Video"}
#: Of an event of the accident application, in bytes; its state is the largest then.
EVENT_BYTES = (10.0, 25.0, 50.0, 75.0, 100.0)
#: What the bar asks of the friend finder with the largest state and a known future: so much less than greedy.
SAVED = 0.4

TRIPS, FEW_TRIPS = 24, 2


@dataclass(frozen=True, slots=True)
class Use:
    """What one trip takes, with each way to migrate."""

    greedy: NetworkUse
    exact: NetworkUse
    predicted: NetworkUse


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A trip as it is, and as it was predicted on the way."""

    exact: MigrationProblem
    predicted: tuple[MigrationProblem, ...]

    def use(self, state_bytes: float, enlarged: float = 1.0) -> Use:
        """With a leaf operator of such a state, and events so many times as large."""
        change = partial(_changed, state_bytes=state_bytes, enlarged=enlarged)
        problem = change(self.exact)
        followed = follow(change(prediction) for prediction in self.predicted)
        return Use(
            network_use(problem, greedy_migration(problem).plans),
            network_use(problem, migcep(problem).plans),
            network_use(problem, followed.plans),
        )


def figure_6h(scale: Scale, seed: int, say: Say) -> Figure:
    """The bandwidth-delay product and the latency, over the size of the state."""
    trips, states = _trips(scale, seed), STATES[:: 3 if scale is QUICK else 1]
    applications: tuple[Application, ...] = ("traffic", "video")
    done, total = 0, len(applications) * len(trips)
    uses: dict[Application, list[list[Use]]] = {}
    for application in applications:
        uses[application] = []
        for trip in trips:
            say(done, total, f"6h, {application}")
            foreseen = _foreseen(trip, application)
            uses[application].append([foreseen.use(UNITS[application] * state) for state in states])
            done += 1
    say(total, total, "")
    curves: dict[str, Points] = {}
    for measure in ("bdp", "latency"):
        for application, by_trip in uses.items():
            for future in ("exact", "predicted"):
                name = f"{NAMES[application]}, {future}: {measure}"
                curves[name] = _curve(states, by_trip, future, measure)
    return Figure(
        "6h", "Migration with a growing state", "immutable state: bytes (Traffic), KiB (Video)",
        "relative to greedy migration", curves,
        "MigCEP and greedy migration are comparable while the state is small; the larger it is, the more "
        "bandwidth-delay product MigCEP saves (up to 40%, section 7). The streaming latency of greedy migration is "
        "lower.",
        _parts_6h(curves),
    )  # fmt: skip


def figure_6i(scale: Scale, seed: int, say: Say) -> Figure:
    """The bandwidth-delay product, over the size of events."""
    trips, sizes = _trips(scale, seed), EVENT_BYTES[:: 2 if scale is QUICK else 1]
    usual = Parameters().vehicle_bytes
    uses: list[list[Use]] = []
    for done, trip in enumerate(trips):
        say(done, len(trips), "6i, traffic")
        foreseen = _foreseen(trip, "traffic")
        uses.append([foreseen.use(STATES[-1], size / usual) for size in sizes])
    say(len(trips), len(trips), "")
    curves = {f"Traffic, {future}": _curve(sizes, uses, future, "bdp") for future in ("exact", "predicted")}
    return Figure(
        "6i", "Migration with growing events", "event size, bytes", "bandwidth-delay product relative to greedy",
        curves,
        "The benefit of MigCEP decreases with larger events: streaming then outweighs the state.",
        (
            *(_rises(name, points) for name, points in curves.items()),
            _below(curves, "MigCEP takes less than greedy migration at every size"),
        ),
    )  # fmt: skip


FIGURES: dict[str, Experiment] = {"6h": figure_6h, "6i": figure_6i}


def saved(seed: int, trips: int = TRIPS) -> float:
    """The share of greedy migration's bandwidth-delay product that `migcep` does not take, in the friend finder with
    the largest state and a known future: the bar of Figure 6h."""
    ours, greedy = 0.0, 0.0
    for trip in Town(Parameters()).trips(trips, np.random.default_rng(seed)):
        problem = _changed(trip.exact("video"), UNITS["video"] * STATES[-1], 1.0)
        ours += network_use(problem, migcep(problem).plans).bdp_bytes
        greedy += network_use(problem, greedy_migration(problem).plans).bdp_bytes
    return 1 - ours / greedy


def _trips(scale: Scale, seed: int) -> list[Trip]:
    return Town(Parameters()).trips(FEW_TRIPS if scale is QUICK else TRIPS, np.random.default_rng(seed))


def _foreseen(trip: Trip, application: Application) -> Foreseen:
    return Foreseen(trip.exact(application), tuple(trip.predicted(application)))


def _changed(problem: MigrationProblem, state_bytes: float, enlarged: float) -> MigrationProblem:
    leaf, *others = (replace(operator, bytes_per_s=enlarged * operator.bytes_per_s) for operator in problem.operators)
    streams = {name: enlarged * stream for name, stream in problem.range_queries.items()}
    return replace(problem, range_queries=streams, operators=(replace(leaf, state_bytes=state_bytes), *others))


def _curve(xs: Sequence[float], by_trip: Sequence[Sequence[Use]], future: str, measure: str) -> Points:
    """The mean over trips by the mean over trips of greedy migration."""

    def mean(at: int, way: str) -> float:
        uses_of_way = [getattr(uses[at], way) for uses in by_trip]
        return float(np.mean([use.bdp_bytes if measure == "bdp" else use.latency_s for use in uses_of_way]))

    return tuple((x, mean(at, future) / mean(at, "greedy")) for at, x in enumerate(xs))


# ---- what the paper says


def _parts_6h(curves: dict[str, Points]) -> tuple[CheckedClaim, ...]:
    bdp = {name: points for name, points in curves.items() if name.endswith("bdp")}
    latency = {name: points for name, points in curves.items() if name.endswith("latency")}
    first, last = ([points[at][1] for points in bdp.values()] for at in (0, -1))
    slower = {(name.partition(":")[0], x): y for name, points in latency.items() for x, y in points if x > 0}
    least, most = min(slower, key=slower.__getitem__), max(slower, key=slower.__getitem__)
    saved = 1 - bdp["Video, exact: bdp"][-1][1]
    return (
        CheckedClaim(
            "costs are comparable where there is little state",
            f"without state, MigCEP's are {min(first):.2f} to {max(first):.2f} of greedy's",
            max(abs(1 - y) for y in first) <= 0.1,
        ),
        CheckedClaim(
            "the larger the state, the more MigCEP saves",
            f"with the largest state, MigCEP's are {min(last):.2f} to {max(last):.2f} of greedy's",
            all(points[-1][1] < points[len(points) // 2][1] < points[0][1] for points in bdp.values()),
        ),
        CheckedClaim(
            "up to 40% are saved",
            f"{saved:.0%} are saved with 100,000 KiB and a known future",
            saved >= SAVED,
        ),
        CheckedClaim(
            "the streaming latency of greedy migration is lower",
            f"MigCEP's is {slower[least]:.2f} times ({least[0]}, {least[1]:,.0f}) to {slower[most]:.2f} times "
            f"({most[0]}, {most[1]:,.0f}) greedy's",
            slower[least] > 1,
        ),
    )


def _rises(name: str, points: Points) -> CheckedClaim:
    ys = [y for _, y in points]
    seen = f"{name}: from {ys[0]:.2f} with events of {points[0][0]:g} bytes to {ys[-1]:.2f} with {points[-1][0]:g}"
    return CheckedClaim("the benefit decreases with larger events", seen, ys == sorted(ys))


def _below(curves: dict[str, Points], claim: str) -> CheckedClaim:
    highest = max(y for points in curves.values() for _, y in points)
    return CheckedClaim(claim, f"at most {highest:.2f} of greedy's", highest < 1)
