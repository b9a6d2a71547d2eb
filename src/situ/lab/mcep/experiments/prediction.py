"""MCEP's Figures 6e, 6f and 6g: switches to operator graphs that were prepared (section 6.2).

Vehicles of the trace ask for speed drops around them, as the accident application does. Every event takes an operator
graph 5 ms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from situ.kernel.arrays import I64
from situ.lab.claims import CheckedClaim
from situ.lab.figure import QUICK, Experiment, Figure, Points, Say, Scale
from situ.lab.ingolstadt import trace
from situ.lab.mcep.prediction.regions import QueryEvents
from situ.lab.mcep.prediction.simulate import PredictionSettings, Predictor, Switches, simulate
from situ.lang.parse import parse
from situ.lang.resolve import resolve

S = 1_000_000
EDGES_M = (50, 100, 200, 300, 400, 500)
EAGERNESS_S = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
LOCATIONS = (1, 2, 5, 10, 20, 40)
THRESHOLDS = (0.7, 0.8, 0.9, 0.95)
#: The edge length of Figures 6f and 6g, and how far from the predicted location those of Figure 6g lie.
EDGE_M, RADIUS_M = 500, 100.0
CONSUMERS, FEW_CONSUMERS = 40, 6
#: A consumer is on the way for at least so long, and sets out when the town has filled.
ON_THE_WAY_S, SETS_OUT_S = 200, 120

Deliver = Literal["complete", "best effort"]
ONE_SECOND = Predictor(S)


def speed_drops(edge_m: float, deliver: Deliver, threshold: float = 0.0) -> str:
    """The query: which vehicles become slower by more than 3 m/s within 3 s, around a vehicle, of the last 30 s. It
    switches every 10 s."""
    return f"""
stream Vehicle(time_us int, vehicle string, x double, y double, speed double)
  time time_us in us  at (x, y)  key vehicle

subscribe SpeedDrops for Vehicle(vehicle)
  detect   Vehicle as fast then Vehicle(speed < fast.speed - 3) as slow within 3 s
  assign   vehicle = slow.vehicle, drop = fast.speed - slow.speed
  group by vehicle
  around   Vehicle square {edge_m} m
  lifetime 30 s
  update   every 10 s
  deliver  {deliver}
  quality  precision {threshold} recall {threshold}
"""


@dataclass(frozen=True, slots=True)
class TrafficTrace:
    """The trace, and the vehicles that ask."""

    vehicles: pa.Table
    consumers: tuple[str, ...]
    seed: int

    def switches(
        self, edge_m: float, deliver: Deliver, predictor: Predictor | None, threshold: float = 0.0
    ) -> Switches:
        events = QueryEvents.of(resolve(parse(speed_drops(edge_m, deliver, threshold))), {"Vehicle": self.vehicles})
        return simulate(
            events, self.consumers, PredictionSettings(predictor=predictor), np.random.default_rng(self.seed)
        )


def traffic(scale: Scale, seed: int) -> TrafficTrace:
    """Consumers at random. The trace has all vehicles at whole seconds; here each has a phase of its own, as vehicles
    do not report in step."""
    rng = np.random.default_rng(seed)
    rows = trace().select(["time_us", "vehicle", "x", "y", "speed"])
    coded = rows["vehicle"].combine_chunks().dictionary_encode()
    number, names = coded.indices.to_numpy(), np.array(coded.dictionary.to_pylist())
    times: I64 = rows["time_us"].to_numpy()
    updates = np.bincount(number)
    first = np.full(len(names), np.iinfo(np.int64).max)
    np.minimum.at(first, number, times)
    able = np.sort(names[(updates >= ON_THE_WAY_S) & (first >= SETS_OUT_S * S)])
    count = FEW_CONSUMERS if scale is QUICK else CONSUMERS
    consumers = tuple(str(name) for name in rng.choice(able, count, replace=False))
    shifted = times + rng.integers(0, S, len(names))[number]
    return TrafficTrace(rows.set_column(0, "time_us", pa.array(shifted)), consumers, seed)


def figure_6e(scale: Scale, seed: int, say: Say) -> Figure:
    """Precision and completeness, over edge lengths: one future graph, 1 s before the switch."""
    town, edges = traffic(scale, seed), EDGES_M[:: 2 if scale is QUICK else 1]
    strategies: tuple[tuple[str, Deliver, Predictor | None], ...] = (
        ("MCEP complete", "complete", None),
        ("opp. complete", "complete", ONE_SECOND),
        ("MCEP incomplete", "best effort", None),
        ("opp. incomplete", "best effort", ONE_SECOND),
    )
    runs_of: dict[str, list[Switches]] = {name: [] for name, _, _ in strategies}
    for done, edge in enumerate(edges):
        for part, (name, deliver, predictor) in enumerate(strategies):
            say(len(strategies) * done + part, len(strategies) * len(edges), f"6e, {edge} m, {name}")
            runs_of[name].append(town.switches(edge, deliver, predictor))
    say(len(strategies) * len(edges), len(strategies) * len(edges), "")
    curves = {f"{name}: precision": _precision(edges, runs_of[name]) for name in ("MCEP complete", "opp. complete")}
    for name in ("MCEP incomplete", "opp. incomplete"):
        curves[f"{name}: completeness"] = _completeness(edges, runs_of[name])
    return Figure(
        "6e", "Prepared graphs, over the size of the interest", "edge length of the interest, m",
        "precision, completeness", curves,
        "On demand and complete, precision is 1, with results that are late (up to 10 s). Opportunistic and complete "
        "is close to it. Without completeness, larger interests leave more processing undone at the next switch.",
        _parts_6e(curves, runs_of),
    )  # fmt: skip


def figure_6f(scale: Scale, seed: int, say: Say) -> Figure:
    """Precision and completeness, over the eagerness: one future graph, 500 m."""
    town, eagerness_s = traffic(scale, seed), EAGERNESS_S[:: 3 if scale is QUICK else 1]
    runs = []
    for done, one in enumerate(eagerness_s):
        say(done, len(eagerness_s) + 1, f"6f, {one:g} s")
        runs.append(town.switches(EDGE_M, "best effort", Predictor(int(one * S))))
    say(len(eagerness_s), len(eagerness_s) + 1, "6f, as long as on demand")
    as_long = as_long_as_on_demand(town)
    say(len(eagerness_s) + 1, len(eagerness_s) + 1, "")
    curves = {
        "opp.: precision": _precision(eagerness_s, runs),
        "opp. incomplete: completeness": _completeness(eagerness_s, runs),
    }
    precision, completeness = curves.values()
    return Figure(
        "6f", "Prepared graphs, over the eagerness", "eagerness, s", "precision, completeness", curves,
        "With a higher eagerness results are more complete, since processing starts earlier; precision decreases, "
        "since locations are predicted further into the future.",
        (
            _trend("more eagerness makes results more complete", completeness, 1),
            _trend("and less precise", precision, -1),
            CheckedClaim(
                "latencies of switches come near to zero (section 2.3; here: a tenth of on demand, at a precision of "
                "0.9, with an eagerness as long as the switch on demand takes)",
                str(as_long),
                as_long.holds,
            ),
        ),
    )  # fmt: skip


def figure_6g(scale: Scale, seed: int, say: Say) -> Figure:
    """Precision, over the number of locations and the threshold of quality: 1 s before the switch, 500 m."""
    town, counts = traffic(scale, seed), LOCATIONS[:: 2 if scale is QUICK else 1]
    thresholds = THRESHOLDS[:: 2 if scale is QUICK else 1]
    runs_of: dict[float, list[Switches]] = {threshold: [] for threshold in thresholds}
    done, total = 0, len(thresholds) * len(counts)
    for threshold in thresholds:
        for count in counts:
            say(done, total, f"6g, {threshold:g}, {count} locations")
            predictor = Predictor(S, count, RADIUS_M, "location")
            runs_of[threshold].append(_of_prepared(town.switches(EDGE_M, "complete", predictor, threshold)))
            done += 1
    say(total, total, "")
    curves = {f"qor-th {threshold:g}": _precision(counts, runs) for threshold, runs in runs_of.items()}
    return Figure(
        "6g", "Prepared graphs, over the number of locations", "random locations around the predicted one",
        "precision of switches to a prepared graph", curves,
        "More locations increase the precision, since the consumer can choose between more graphs. A higher threshold "
        "of quality keeps more graphs, and gives a higher precision.",
        _parts_6g(curves, runs_of),
        log_x=True,
    )  # fmt: skip


FIGURES: dict[str, Experiment] = {"6e": figure_6e, "6f": figure_6f, "6g": figure_6g}


# ---- an eagerness as long as the switch on demand takes


@dataclass(frozen=True, slots=True)
class AsLong:
    """Mean latencies of switches with 500 m: on demand, prepared as long before as this is expected to take, and
    prepared a fixed time before, which is the mean on demand; and the precisions of both."""

    on_demand_s: float
    expected_s: float
    fixed_s: float
    expected_precision: float
    fixed_precision: float

    @property
    def holds(self) -> bool:
        return self.expected_s <= self.on_demand_s / 10 and self.expected_precision >= 0.9

    def __str__(self) -> str:
        return (
            f"{self.on_demand_s:.2f} s on demand; {self.expected_s:.3f} s at a precision of "
            f"{self.expected_precision:.3f} if a graph is prepared as long before as its history is expected to take; "
            f"{self.fixed_s:.2f} s at {self.fixed_precision:.3f} if all are prepared {self.on_demand_s:.2f} s before"
        )


def as_long_as_on_demand(town: TrafficTrace) -> AsLong:
    """One future graph, best effort: there, no switch waits for the one before it, which would favour prediction."""
    on_demand = town.switches(EDGE_M, "best effort", None)
    expected = town.switches(EDGE_M, "best effort", Predictor("expected"))
    fixed = town.switches(EDGE_M, "best effort", Predictor(int(on_demand.late_us.mean())))
    on_demand_s, expected_s, fixed_s = (float(run.late_us.mean()) / S for run in (on_demand, expected, fixed))
    precisions = float(expected.precision.mean()), float(fixed.precision.mean())
    return AsLong(on_demand_s, expected_s, fixed_s, *precisions)


# ---- curves and parts


def _precision(xs: Iterable[float], runs: list[Switches]) -> Points:
    return tuple((float(x), float(run.precision.mean())) for x, run in zip(xs, runs, strict=True))


def _completeness(xs: Iterable[float], runs: list[Switches]) -> Points:
    return tuple((float(x), run.completeness) for x, run in zip(xs, runs, strict=True))


def _of_prepared(run: Switches) -> Switches:
    """The switches that went to a prepared graph alone; the number of graphs remains that of all switches."""
    used = ~run.on_demand
    return replace(run, precision=run.precision[used])


def _parts_6e(curves: dict[str, Points], runs_of: dict[str, list[Switches]]) -> tuple[CheckedClaim, ...]:
    late_s = {name: [float(run.late_us.mean()) / S for run in runs] for name, runs in runs_of.items()}
    longest_s = max(float(run.late_us.max()) for run in runs_of["MCEP complete"]) / S
    exact, near = ([y for _, y in curves[f"{name} complete: precision"]] for name in ("MCEP", "opp."))
    on_demand, prepared = (curves[f"{name} incomplete: completeness"] for name in ("MCEP", "opp."))
    return (
        CheckedClaim(
            "on demand and complete, precision is always 1, and results are late",
            f"precision {min(exact):.3f}; a switch takes {late_s['MCEP complete'][0]:.2f} to "
            f"{late_s['MCEP complete'][-1]:.2f} s on average, {longest_s:.1f} s at most",
            min(exact) == 1.0,
        ),
        CheckedClaim(
            "opportunistic and complete is close to the optimum",
            f"precision {min(near):.3f} to {max(near):.3f}; a switch takes {late_s['opp. complete'][0]:.2f} to "
            f"{late_s['opp. complete'][-1]:.2f} s on average",
            min(near) >= 0.95,
        ),
        _trend("on demand, larger interests are less complete", on_demand, -1),
        _trend("opportunistic, too", prepared, -1),
        CheckedClaim(
            "opportunistic is more complete than on demand, where there is much to process",
            f"{prepared[-1][1]:.3f} against {on_demand[-1][1]:.3f} at {on_demand[-1][0]:g} m",
            prepared[-1][1] > on_demand[-1][1],
        ),
    )


def _parts_6g(curves: dict[str, Points], runs_of: dict[float, list[Switches]]) -> tuple[CheckedClaim, ...]:
    grows = [_trend(f"more locations are more precise ({name})", points, 1) for name, points in curves.items()]
    ends = [points[-1][1] for points in curves.values()]
    graphs = [float(runs[-1].prepared.mean()) for runs in runs_of.values()]
    names = [f"{threshold:g}" for threshold in runs_of]
    told = [f"{name}: {graph:.1f} graphs, {end:.3f}" for name, graph, end in zip(names, graphs, ends, strict=True)]
    return (
        *grows,
        CheckedClaim(
            "a higher threshold keeps more graphs, and is more precise",
            f"with {curves[f'qor-th {names[0]}'][-1][0]:g} locations: {'; '.join(told)}",
            graphs == sorted(graphs) and ends == sorted(ends),
        ),
    )


def _trend(claim: str, points: Points, sign: int) -> CheckedClaim:
    """From the first point to the last, and on the whole."""
    xs, ys = zip(*points, strict=True)
    rises = sign * (ys[-1] - ys[0]) > 0 and sign * float(np.corrcoef(xs, ys)[0, 1]) > 0
    return CheckedClaim(claim, f"from {ys[0]:.3f} at {xs[0]:g} to {ys[-1]:.3f} at {xs[-1]:g}", rises)
