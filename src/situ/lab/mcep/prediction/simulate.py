"""Operator graph switches of consumers with the query predictor, or on demand (MCEP, sections 5.4 and 6.2).

A discrete-event run. An operator graph takes a fixed time for an event (`latency_us`), and every graph has a processor
of its own. On demand, the graph for an interest begins at the interest's start. With the predictor, graphs begin
`eagerness` earlier, around places where the consumer is expected. At the start, if the quality of one of them on the
most recent events suffices, the switch goes to the best of these, and the others are given up; otherwise it is made on
demand. With `deliver complete`, an interest is processed to its end before the next one's graph starts on demand, or is
connected to the consumer. With `best effort`, processing of an interest ends where the next begins. When the next
interest starts is taken as known, as it is with `update every T`; where, is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.errors import InputError
from situ.core.time import BEGINNING, END
from situ.kernel.arrays import F64, I64
from situ.lab.mcep.prediction.predictor import InterestCriteria, Policy, dead_reckoning, determine_interests, scattered
from situ.lab.mcep.prediction.progress import Progress
from situ.lab.mcep.prediction.regions import Processing, QueryEvents
from situ.lab.quality.atoms import AtomSets
from situ.lab.quality.precision_recall import Mask, quality_of_masks, quality_of_sets
from situ.mobility.interests import BASIC, Updates, interests_of
from situ.mobility.monitor import quality_interests


@dataclass(frozen=True, slots=True)
class Predictor:
    """How switches are prepared.

    `eagerness_us`: how long before a switch; `expected`: as long as the switch would take on demand, as far as the
    events at the predicted place tell. `places`: so many candidates, at random within `radius_m` of the predicted place
    (0: the place itself); `most_events`: the resource limit of `determine_interests`.
    """

    eagerness_us: int | Literal["expected"]
    places: int = 1
    radius_m: float = 0.0
    policy: Policy = "location"
    most_events: float = np.inf


@dataclass(frozen=True, slots=True)
class PredictionSettings:
    """What a run needs besides the query: the time per event, how long events are recent, and perhaps a predictor."""

    latency_us: int = 5_000
    recent_us: int = 5_000_000
    predictor: Predictor | None = None


@dataclass(frozen=True, slots=True)
class Switches:
    """What was counted, by switch. `late_us`: from the start of an interest until its history has been processed and
    all of the interest before was delivered. `found` and `delivered` count complex events of the region that was
    processed. `processed` counts events, those of graphs that were given up included. `prepared`: how many graphs were;
    `on_demand`: no graph was prepared, or none of them sufficed."""

    late_us: I64
    precision: F64
    recall: F64
    found: I64
    delivered: I64
    processed: I64
    prepared: I64
    on_demand: Mask

    @property
    def completeness(self) -> float:
        """The share of complex events that were delivered.

        >>> none, one = np.zeros(1, np.int64), np.ones(1)
        >>> Switches(none, one, one, none + 4, none + 3, none, none, none == 0).completeness
        0.75
        """
        return float(self.delivered.sum() / self.found.sum()) if self.found.any() else 1.0

    def __len__(self) -> int:
        return len(self.late_us)


def simulate(
    events: QueryEvents, consumers: Sequence[object], settings: PredictionSettings, rng: np.random.Generator
) -> Switches:
    """All switches of some consumers, each from one interest to the next but the first and the last: before the first
    there is nothing to switch from, and the last does not end."""
    runs: list[_Switch] = []
    for consumer in consumers:
        runs += _Consumer.of(events, consumer, settings.recent_us).switches(events, settings, rng)
    if not runs:
        raise InputError("none of the consumers switches twice", remedy="Name consumers with more location updates.")
    found = events.complex_events([run.region for run in runs], [run.atoms for run in runs])
    is_complete = events.query.complete
    delivered = []
    for run, times in zip(runs, found, strict=True):
        known = run.progress.known_at(times)
        delivered.append(len(times) if is_complete else int(np.count_nonzero(known <= run.region.end_us)))
    quality = quality_of_sets(_sets([run.asked for run in runs]), _sets([run.atoms[: run.done] for run in runs]))
    return Switches(
        np.array([run.late_us for run in runs]),
        quality.precision,
        quality.recall,
        np.array([len(times) for times in found]),
        np.array(delivered),
        np.array([run.done + run.given_up for run in runs]),
        np.array([run.prepared for run in runs]),
        np.array([run.on_demand for run in runs]),
    )


def _sets(atoms: list[I64]) -> AtomSets:
    return AtomSets.of(np.concatenate(atoms), np.cumsum([0, *map(len, atoms)]))


@dataclass(frozen=True, slots=True)
class _Switch:
    """A switch as it happened: what was processed, of what was asked, and when."""

    region: Processing
    atoms: I64
    progress: Progress
    asked: I64
    done: int
    late_us: int
    prepared: int
    given_up: int
    on_demand: bool


@dataclass(frozen=True, slots=True)
class _Graph:
    """A graph that was prepared: around which place, and since when it runs."""

    x: float
    y: float
    begin_us: int


@dataclass(frozen=True, slots=True)
class _Consumer:
    """A consumer's location updates, by time, and interests."""

    times_us: I64
    x: F64
    y: F64
    regions: tuple[Processing, ...]

    @classmethod
    def of(cls, events: QueryEvents, consumer: object, recent_us: int) -> _Consumer:
        focal = events.streams[events.query.around.focal]
        names = focal.batch.columns[events.query.consumer[1]]
        own = np.flatnonzero(pc.equal(names, consumer).fill_null(False).to_numpy(zero_copy_only=False))
        updates = Updates(names.take(pa.array(own)), focal.batch.times[own], focal.x[own], focal.y[own])
        update = events.query.subscription.update or BASIC
        if update.when == "quality":
            every = [(events.times_us, events.x, events.y)]
            interests = quality_interests(updates, every, *_shape(events), recent_us, *_thresholds(events))
        else:
            interests = interests_of(updates, update)
        columns = zip(interests.x, interests.y, interests.start_us, interests.end_us, strict=True)
        regions = tuple(Processing(float(x), float(y), int(start), int(end)) for x, y, start, end in columns)
        order = np.lexsort((updates.y, updates.x, updates.times_us))
        order = order[np.isfinite(updates.x[order]) & np.isfinite(updates.y[order])]
        track = order[np.append(np.diff(updates.times_us[order]) > 0, True)[: len(order)]]  # the last of a time
        return cls(updates.times_us[track], updates.x[track], updates.y[track], regions)

    def switches(self, events: QueryEvents, settings: PredictionSettings, rng: np.random.Generator) -> list[_Switch]:
        found: list[_Switch] = []
        free_us = BEGINNING
        for number, asked in enumerate(self.regions):
            if asked.end_us == END:
                break
            graphs = self._prepared(events, asked, settings, rng) if number else []
            switch = _switch(events, asked, graphs, max(free_us, asked.start_us), settings)
            if events.query.complete:
                free_us = int(switch.progress.done_us[-1]) if len(switch.atoms) else free_us
            found.append(switch)
        return found[1:]

    def _prepared(
        self, events: QueryEvents, asked: Processing, settings: PredictionSettings, rng: np.random.Generator
    ) -> list[_Graph]:
        """The graphs that run when an interest starts."""
        predictor = settings.predictor
        known = 0 if predictor is None else self._deployed_at(events, asked, predictor, settings)
        if predictor is None or known == 0:
            return []
        if predictor.eagerness_us == "expected":
            begin_us = int(self.times_us[known - 1])
        else:
            begin_us = asked.start_us - predictor.eagerness_us
        predicted = self._predicted(known, asked.start_us)
        places = scattered(*predicted, predictor.radius_m, predictor.places, rng)
        recent = events.between(begin_us - settings.recent_us, begin_us)
        thresholds = _thresholds(events)
        choice = InterestCriteria(*_shape(events), *thresholds, predictor.policy, predictor.most_events)
        chosen = determine_interests(places, predicted, events.x[recent], events.y[recent], choice)
        return [_Graph(float(places.x[k]), float(places.y[k]), begin_us) for k in chosen]

    def _deployed_at(
        self, events: QueryEvents, asked: Processing, predictor: Predictor, settings: PredictionSettings
    ) -> int:
        """How many updates are known when graphs are deployed; 0 if they cannot be."""
        if predictor.eagerness_us != "expected":
            return int(np.searchsorted(self.times_us, asked.start_us - predictor.eagerness_us, side="right"))
        longest_us = events.query.lifetime_us + max(events.query.before_us.values())
        first, last = np.searchsorted(self.times_us, [asked.start_us - longest_us, asked.start_us])
        for known in range(max(int(first), 1), int(last) + 1):
            x, y = self._predicted(known, asked.start_us)
            now_us = int(self.times_us[known - 1])
            there = events.atoms(Processing(x, y, now_us, now_us))
            following_us = 2 * now_us - int(self.times_us[known - 2]) if known > 1 else now_us
            if asked.start_us - following_us < len(there) * settings.latency_us:
                return known  # at the next update it would be too late
        return int(last)

    def _predicted(self, known: int, at_us: int) -> tuple[float, float]:
        return dead_reckoning(self.times_us[:known], self.x[:known], self.y[:known], at_us)


def _switch(
    events: QueryEvents, asked: Processing, graphs: list[_Graph], free_us: int, settings: PredictionSettings
) -> _Switch:
    """The switch to an interest; what came before it is delivered at `free_us`."""
    used = _best(events, asked, graphs, settings)
    place = graphs[used] if used >= 0 else _Graph(asked.x, asked.y, free_us)
    region = Processing(place.x, place.y, asked.start_us, asked.end_us)
    atoms = events.atoms(region)
    progress = Progress.of(events.times_us[atoms], place.begin_us, settings.latency_us)
    history_us = max(progress.done_before(asked.start_us), free_us)
    is_complete = events.query.complete
    given_up = 0
    for number, graph in enumerate(graphs):
        if number != used:
            read = events.atoms(Processing(graph.x, graph.y, asked.start_us, asked.start_us))
            progress_there = Progress.of(events.times_us[read], graph.begin_us, settings.latency_us)
            given_up += progress_there.count_done(asked.start_us)
    return _Switch(
        region,
        atoms,
        progress,
        events.atoms(asked),
        len(atoms) if is_complete else progress.count_done(asked.end_us),
        (history_us if is_complete else min(history_us, asked.end_us)) - asked.start_us,
        len(graphs),
        given_up,
        used < 0,
    )


def _best(events: QueryEvents, asked: Processing, graphs: list[_Graph], settings: PredictionSettings) -> int:
    """The prepared graph whose quality on the most recent events suffices, and is the best; -1 if there is none."""
    if not graphs:
        return -1
    recent = events.between(asked.start_us - settings.recent_us, asked.start_us)
    x, y, shape = events.x[recent], events.y[recent], events.shape
    wanted = shape.holds(x, y, np.array([asked.x]), np.array([asked.y]))
    place_x, place_y = np.array([graph.x for graph in graphs]), np.array([graph.y for graph in graphs])
    quality = quality_of_masks(wanted, shape.holds(x, y, place_x, place_y))
    enough = quality.suffices(*_thresholds(events))[0]
    return int(np.argmax(np.where(enough, (quality.precision + quality.recall)[0], -1.0))) if enough.any() else -1


def _shape(events: QueryEvents) -> tuple[float, float, bool]:
    return events.shape.half_x, events.shape.half_y, events.shape.is_round


def _thresholds(events: QueryEvents) -> tuple[float, float]:
    quality = events.query.subscription.quality
    return (float(quality.precision or 0.0), float(quality.recall or 0.0)) if quality is not None else (0.0, 0.0)
