"""A moving subscription whose consumers share selections, over tables (RECEP, section 4).

Operators come one after another, inputs first, and each for all its instances and the whole time at once. What a
selection manager decides in a phase depends only on what was known then, so it is as if time had passed phase by phase.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from situ.core.errors import QueryError, did_you_mean
from situ.core.functions import Functions
from situ.core.functions import default as default_functions
from situ.graph.operators import OperatorGraph
from situ.kernel.arrays import F64, I64
from situ.kernel.batch import as_timestamps
from situ.kernel.operator import Context, contexts_of
from situ.lab.mcep.switching.steps import with_windows
from situ.lab.quality.precision_recall import Mask
from situ.lab.recep.coverings.stop import OperatorSelections, unneeded_us
from situ.lab.recep.selections.arrived import Arrived, Inputs, inputs_of
from situ.lab.recep.selections.choosing import ReuseQuestion, chosen
from situ.lab.recep.selections.covering import Least, covered
from situ.lab.recep.selections.deciding import decided
from situ.lab.recep.selections.judging import Evidence
from situ.lab.recep.selections.managers import named, regions_of
from situ.lab.recep.selections.reading import ReuseInput, read
from situ.lab.recep.selections.selected import Selected, selected
from situ.lab.recep.selections.settings import EXACTLY, Asked, ByCount, ReuseSettings, Thresholds
from situ.lab.recep.selections.stopping import OperatorDecision, stopped
from situ.lab.recep.selections.streaming import OperatorOutput, disparity_of, measured, processed, streamed
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.mobility.moving_query import INTEREST, MovingQuery, moving_queries


@dataclass(frozen=True, slots=True)
class SelectionCounts:
    """Selections of one type of operator: those that instances asked for are processed, covered, or stopped. Pairs of
    batches that were judged. Copies of complex events that were sent, and that would have been sent one by one."""

    asked: int
    processed: int
    covered: int
    stopped: int
    estimations: int
    copies: int
    copies_plain: int

    def __str__(self) -> str:
        selections = (
            f"{self.processed} of {self.asked} selections processed, {self.covered} covered, {self.stopped} stopped"
        )
        return (
            f"{selections}; {self.estimations} estimations; {self.copies} copies sent, {self.copies_plain} one by one"
        )


@dataclass(frozen=True, slots=True)
class Work(OperatorDecision):
    """What was done for one type of operator."""

    inputs: Inputs
    streamed: OperatorOutput
    stopped: Mask


@dataclass(frozen=True, slots=True)
class Reused:
    """What was delivered, and what it took. `work` has all selections by type of operator, for those who check."""

    delivered: pa.Table
    counts: dict[str, SelectionCounts]
    managers: pa.Table
    chosen: dict[str, str]
    read: ReuseInput
    work: dict[str, Work]

    def __str__(self) -> str:
        return "\n".join(f"{name}: {counts}\n  {self.chosen[name]}" for name, counts in self.counts.items())


def reuse(
    query: str | OperatorGraph, subscription: str, tables: Mapping[str, pa.Table], settings: ReuseSettings,
    thresholds: Asked | None = None, functions: Functions = default_functions,
    clock: Callable[[], float] = time.perf_counter,
) -> Reused:  # fmt: skip
    """Run a moving subscription. Thresholds are those of its `quality` clause if none are given; without one, consumers
    get exactly what they ask for. `clock` times what is tried if settings are to be found.

    >>> text = '''
    ...     stream Car(id int, x double, y double, ts int) time ts in s at (x, y)
    ...     subscribe Pair for Car(id) detect Car as a then Car as b within 5 s assign id = b.id around Car square 100 m
    ... '''
    >>> cars = pa.table({"id": [1, 2, 1], "x": [0.0, 1.0, 0.0], "y": [0.0, 0.0, 0.0], "ts": [0, 0, 3]})
    >>> reused = reuse(text, "Pair", {"Car": cars}, ReuseSettings("mqc", ByCount(1)))
    >>> reused.delivered.num_rows, reused.counts["Pair"].asked, reused.counts["Pair"].processed
    (4, 6, 3)
    """
    graph = resolve(parse(query), functions) if isinstance(query, str) else query
    moving = _moving(graph, subscription, functions)
    return _Run(moving, functions, settings, read(moving, functions, tables), thresholds, clock).run()


def _moving(graph: OperatorGraph, subscription: str, functions: Functions) -> MovingQuery:
    queries = {query.name: query for query in moving_queries(graph, functions)}
    if subscription not in queries:
        raise QueryError(f"no subscription {subscription!r} moves", remedy=did_you_mean(subscription, queries))
    return queries[subscription]


@dataclass(frozen=True, slots=True)
class InstanceSpans:
    """Spans of time of some instances of an operator."""

    owner: I64
    begin_us: I64
    end_us: I64

    def and_(self, other: InstanceSpans) -> InstanceSpans:
        columns = ("owner", "begin_us", "end_us")
        return InstanceSpans(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in columns))

    def hold(self, selected: Selected) -> Mask:
        """Which selections reach into one of them."""
        spans = OperatorSelections(self.owner, self.begin_us, self.end_us, np.zeros(len(self.owner), np.int64))
        is_held: Mask = unneeded_us(selected.owner, selected.begin_us, selected.end_us, spans) == 0
        return is_held


class _Run:
    def __init__(
        self, moving: MovingQuery, functions: Functions, settings: ReuseSettings, read: ReuseInput,
        thresholds: Asked | None, clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self.moving, self.settings, self.read, self.clock = moving, settings, read, clock
        contexts = contexts_of(moving.graph, functions, provenance=True)
        self.contexts = {name: with_windows(context) for name, context in contexts.items()}
        self.least = _by_instance(read, thresholds if thresholds is not None else _asked_by(moving))
        self.regions = regions_of(read, settings)
        self.arrived: dict[str, Arrived] = {}
        self.work: dict[str, Work] = {}
        self.chosen: dict[str, str] = {}
        self.decided_on: dict[str, ReuseSettings] = {}
        self.exactly: InstanceSpans | None = None

    def run(self) -> Reused:
        self._operators()
        while self._keeps_every_threshold and (low := self._too_low()) is not None:
            self.exactly = low if self.exactly is None else self.exactly.and_(low)
            self._operators()
        if self.settings.stop:
            readers = {name: [n for n, other in self.contexts.items() if name in other.inputs] for name in self.work}
            for name, mask in stopped(self.work, readers).items():
                self.work[name] = replace(self.work[name], stopped=mask)
        delivered, counts = self._delivered(), {name: _counts(work) for name, work in self.work.items()}
        to_consumers = {"copies": delivered.num_rows, "copies_plain": delivered.num_rows}
        counts[self.moving.name] = replace(counts[self.moving.name], **to_consumers)
        return Reused(delivered, counts, self._managers(), self.chosen, self.read, self.work)

    def _operators(self) -> None:
        self.arrived, self.work, self.events = dict(self.read.streams), {}, len(self.read.x)
        for name, context in self.contexts.items():
            self._operator(name, context)

    def _operator(self, name: str, context: Context) -> None:
        inputs = inputs_of({input_: self.arrived[input_] for input_ in context.inputs})
        selections = selected(context, inputs, self.read.interests)
        disparity = disparity_of(selections, self.read) if np.any(self.least.disparity > 0) else None
        before = [self.work[input_].decided for input_ in context.inputs if input_ in self.work]
        settings = self._settings(
            name,
            ReuseQuestion(
                context, inputs, selections, self.read, before, self.regions, self.least, self.settings, self.clock
            ),
        )
        is_last = name == self.moving.name  # its own selections are judged by what they are
        exactly = (
            np.zeros(len(selections), np.bool_) if self.exactly is None or is_last else self.exactly.hold(selections)
        )
        evidence = Evidence.of(selections, inputs, self.read, settings, disparity, exactly)
        batches = decided(selections, self.read.interests, before, settings)
        covering = covered(evidence, batches, self.regions, self.least, settings)
        events, of = processed(context, inputs, selections, covering.by)
        readers = sum(name in other.inputs for other in self.contexts.values())
        sent = streamed(events, of, selections, batches, covering, readers, self.events)
        self.events += len(events)
        self.arrived[name] = sent.arrived
        self.work[name] = Work(
            selections, batches, covering, settings, inputs, sent, np.zeros(len(selections), np.bool_)
        )

    @property
    def _keeps_every_threshold(self) -> bool:
        """Whether every single selection is to be good enough, and can be known to be."""
        settings = self.settings
        exact = settings.auto or settings.estimator == "exact"
        return settings.over == "every" and exact and settings.predictor is None

    def _too_low(self) -> InstanceSpans | None:
        """Where what is delivered is not good enough, since selections that are on their own were made of events that
        others were processed for. The operators before are to give just what was asked there."""
        work = self.work[self.moving.name]
        selections, by = work.selected, work.covered.by
        quality, disparity = measured(selections, by), disparity_of(selections, self.read)[by]
        low = (quality.precision < self.least.precision[selections.owner]) | (
            quality.recall < self.least.recall[selections.owner]
        )
        low |= disparity < self.least.disparity[selections.owner]
        low &= np.isin(np.arange(len(selections)), work.streamed.asked)
        if not low.any():
            return None
        back_us = max(self.moving.before_us.values())
        return InstanceSpans(
            selections.owner[low], selections.begin_us[low] - back_us, selections.end_us[low] + back_us
        )

    def _settings(self, name: str, question: ReuseQuestion) -> ReuseSettings:
        """How an operator's selections are shared: decided once, also if it is run again."""
        if name not in self.decided_on:
            settings, why = self.settings, str(self.settings)
            if question.selected.steps is None:
                settings, why = replace(settings, heuristic="none"), "reuse off; its matches depend on each other"
            elif settings.auto:
                choice = chosen(question)
                settings, why = choice.setting or replace(settings, heuristic="none"), str(choice)
            elif settings.heuristic == "none":
                why = "reuse off; as it was asked"
            if settings.heuristic == "none":
                settings = replace(settings, batch=ByCount(1), predictor=None)
            self.decided_on[name], self.chosen[name] = settings, why
        return self.decided_on[name]

    def _delivered(self) -> pa.Table:
        """What the consumers get: of their interests' times, with its quality."""
        work, interests = self.work[self.moving.name], self.read.interests
        arrived, sent = work.streamed.arrived, work.streamed
        times, owner = arrived.batch.times, arrived.owner
        since = interests.start_us[owner] - self.moving.lifetime_us
        rows = np.flatnonzero((times >= since) & (times <= interests.end_us[owner]))
        rows = rows[np.lexsort((times[rows], owner[rows]))]
        quality, disparity = measured(work.selected, work.covered.by), disparity_of(work.selected, self.read)
        batch = arrived.batch.take(rows)
        names = [name for name in self.contexts[self.moving.name].operator.schema.names if name != INTEREST]
        asked, done = sent.asked[rows], sent.processed[rows]
        return pa.table(
            {name: batch.columns[name] for name in names}
            | {
                "consumer": interests.consumer.take(pa.array(owner[rows])),
                "interest": pa.array(interests.number[owner[rows]]),
            }
            | {"_time": as_timestamps(batch.times)}
            | {"precision": quality.precision[asked], "recall": quality.recall[asked], "disparity": disparity[done]}
        )

    def _managers(self) -> pa.Table:
        group = self.regions.group
        regions = [(named(int(one)), self.regions.most(int(one))) for one in np.unique(group[group >= 0])]
        rows = [(name, region, most) for name in self.contexts for region, most in regions]
        columns = {"type": pa.string(), "region": pa.string(), "most": pa.int64()}
        return pa.table({n: pa.array([row[k] for row in rows], t) for k, (n, t) in enumerate(columns.items())})


def _counts(work: Work) -> SelectionCounts:
    selected, by = work.selected, work.covered.by
    if selected.steps is None:
        asked, covering = selected.asked, selected.asked
    else:
        asked, covering = len(by), int(np.count_nonzero(by == np.arange(len(by))))
    stopped = int(np.count_nonzero(work.stopped))
    sent = work.streamed
    return SelectionCounts(
        asked, covering - stopped, asked - covering, stopped, work.covered.estimations, sent.copies, sent.copies_plain
    )


def _asked_by(moving: MovingQuery) -> Thresholds:
    quality = moving.subscription.quality
    if quality is None:
        return EXACTLY
    return Thresholds(float(quality.precision or 0.0), float(quality.recall or 0.0), quality.disparity or 0.0)


def _by_instance(read: ReuseInput, asked: Asked) -> Least:
    """Thresholds are those of the consumer whose interest it is."""
    if isinstance(asked, Thresholds):
        of = [asked] * (int(read.person.max(initial=-1)) + 1)
    else:
        consumers = read.interests.consumer.unique().to_pylist()  # interests come by consumer
        of = [asked.get(consumer, EXACTLY) for consumer in consumers]
    columns: list[F64] = [
        np.array([getattr(one, name) for one in of], np.float64)[read.person]
        for name in ("precision", "recall", "disparity")
    ]
    return Least(*columns)
