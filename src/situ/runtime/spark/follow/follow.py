"""A query that runs on: one streaming query of Spark's, started again on its checkpoint whenever the rules change.

A change is committed (`rules.RuleStore`) before the streaming query stops. So a crash at any moment leaves rules and a
checkpoint that go together: state that the rules in force do not have is let go by their names in `changed`. A
micro-batch that was planned under the old rules and not committed is done again under the new ones: from the state
before it, with the same rows. So unchanged rules find in it what they would have found, and sinks replace what an
attempt under the old rules has left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from situ.core.errors import SituError, StateError
from situ.core.functions import Functions
from situ.core.functions import default as default_functions
from situ.graph.query import Stream
from situ.lang.demands import judged_latencies
from situ.lang.resolve import warnings as warnings_of
from situ.runtime.spark.detect import Detection, detect_rows
from situ.runtime.spark.follow.checkpoint import Manifest
from situ.runtime.spark.follow.opening import Job, Opening, now
from situ.runtime.spark.follow.planned_rules import PlannedRules, next_rules
from situ.runtime.spark.follow.progress import ProgressFeed
from situ.runtime.spark.follow.query_errors import INTERRUPTED, as_situ_errors, query_error
from situ.runtime.spark.inputs.changed_files import ChangedFiles
from situ.runtime.spark.inputs.tables import JudgedRows
from situ.runtime.spark.session.errors import SparkError
from situ.runtime.spark.session.query_settings import EMPTY_BATCHES, setting_for_queries
from situ.runtime.spark.sinks.stream_sinks import Sink
from situ.runtime.spark.stages.output import TaggedOutput
from situ.runtime.spark.stages.restart import Restart
from situ.service.figures import StreamTotals
from situ.service.rules import ControlWatch, RuleStore, texts_with
from situ.service.told import Began, Progressed, RulesChanged, RulesRefused, TimePassed, Told, Warned

#: How often the query is asked how far it is, and how many such looks there are to one at the control directory.
PERIOD_S, LOOKS = 0.25, 4
#: How long a micro-batch that runs may take to end, when the rules change and when the query is to stop. One that
#: takes longer is abandoned, and done again later.
CHANGE_WAIT_S, STOP_WAIT_S = 60.0, 10.0
_SHORT_S = 0.02
#: How much of errors Spark is told.
_LONGEST = 2000


# ---- the query at work


@dataclass
class _Ready:
    """A query that only has to be started."""

    rules: PlannedRules
    detection: Detection
    sink: _ReportingSink


@dataclass
class _ReportingSink:
    """A sink that keeps what it raises, and tells Spark in a few words. When a query is stopped, Spark looks through
    the text of what is raised for these words, with an expression that overflows Java's stack on long texts."""

    sink: Sink
    errors: list[Exception] = field(default_factory=list)

    def write(self, events: DataFrame, batch: int) -> None:
        try:
            self.sink.write(events, batch)
        except Exception as error:
            self.errors.append(error)
            if any(word in str(error) for word in ("InterruptedException", "cancelled")):
                raise InterruptedError(INTERRUPTED) from None
            said = error if isinstance(error, SituError) else query_error(str(error))
            raise type(said)(said.cause[-_LONGEST:], place=said.place, remedy=said.remedy) from None


@dataclass
class Follower:
    """Runs the query of an opening until it ends, fails or is told to stop; applies changes of its rules meanwhile.

    `open_source` is called once for each stream, `open_sink` again for each change: other rules have other columns.
    """

    session: SparkSession
    job: Job
    opening: Opening
    open_source: Callable[[Stream, Path], JudgedRows]
    open_sink: Callable[[TaggedOutput, str], Sink]
    functions: Functions = default_functions
    totals: StreamTotals = field(default_factory=StreamTotals)
    changes: list[RulesChanged] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._addresses = tuple(self.job.addresses.values())
        self._checkpoint = self.opening.checkpoint
        self._changed_files = ChangedFiles(self._checkpoint.source_logs)
        self._store = RuleStore(self._checkpoint.rules, self._checkpoint.permissions)
        self.manifest = self._manifest()
        self._rules = self.opening.rules
        if self.job.control and not self.job.once:
            self._watch: ControlWatch | None = ControlWatch(self.job.control, self.opening.control)
        else:
            self._watch = None
        streams = self._rules.plan.graph.streams
        self._rows = {s.name: self.open_source(s, self._checkpoint.of_source(s.name)) for s in streams}

    def _manifest(self) -> Manifest:
        partitions = int(self.session.conf.get("spark.sql.shuffle.partitions") or 200)
        stored = self.opening.manifest
        if stored is None:
            shards, levels = self.job.shards or partitions, self.job.levels or len(self.opening.rules.plan.stages)
            streams = self.opening.rules.plan.graph.streams
            return Manifest.new(streams, self.job.addresses, shards, partitions, levels, self.job.start_us)
        if stored.partitions != partitions:
            raise StateError(
                f"the checkpoint was made with spark.sql.shuffle.partitions={stored.partitions}, not {partitions}",
                place=str(self.job.checkpoint),
                remedy="Set it as before, or begin with a new --checkpoint.",
            )
        return stored

    def run(self, tell: Callable[[Told], None]) -> None:
        """Returns when the query has ended: by itself (`once`), or because `stop` is set."""
        self._starts = self._checkpoint.starts_with(time.time())
        ready = self._ready(self._rules)
        self._commit_opening()
        for error in self.opening.wrong:
            tell(RulesRefused(error))
        try:
            batch = self._start(ready)
            shards, levels = self.manifest.shards, self.manifest.levels
            tell(Began(self.manifest.query, self._rules.rules.number, batch, shards, levels, _warnings(self._rules)))
            if self.opening.before is not None:
                self._tell_change(tell, batch, None)
            self._watch_over(tell)
            self._end(tell)
        except Exception:
            with suppress(Exception):
                self._query.stop()
            # Once it is to stop, an error is none: Ctrl-C also reaches Spark's workers, and SIGTERM may reach its
            # Java. Whatever they did not finish is done again at the next start.
            if not self.stop.is_set():
                raise

    def _watch_over(self, tell: Callable[[Told], None]) -> None:
        looks = 0
        while not self.stop.wait(PERIOD_S):
            with as_situ_errors(self._addresses):
                active = self._query.isActive
                self._collect(tell)
                if not active:
                    self._require_no_error()
                    return
            tell(TimePassed())
            self._warn_of_changed_files(tell)
            looks += 1
            if self._watch is not None and looks % LOOKS == 0:
                self._look(tell)

    def _end(self, tell: Callable[[Told], None]) -> None:
        """Lets the micro-batch that runs end, if it does so soon."""
        with suppress(PySparkException):  # what fails now has not been committed
            self._drain(STOP_WAIT_S)
        self._query.stop()
        self._collect(tell)
        self._warn_of_changed_files(tell, now=True)

    def _warn_of_changed_files(self, tell: Callable[[Told], None], *, now: bool = False) -> None:
        if warning := self._changed_files.look(now=now):
            tell(Warned(warning))

    # --- rules

    def _look(self, tell: Callable[[Told], None]) -> None:
        assert self._watch is not None
        try:
            control_files = self._watch.look()
            if control_files is None:
                return
            texts, wrong = texts_with(self._rules.rules.texts, control_files)
            for error in wrong:
                tell(RulesRefused(error))
            after = next_rules(self._rules, texts, self.manifest.levels, now(), self.functions, self.job.out)
            if after is None:
                return
            ready = self._ready(after)
        except SituError as error:
            tell(RulesRefused(error))
            return
        self._change(ready, tell)

    def _change(self, ready: _Ready, tell: Callable[[Told], None]) -> None:
        with as_situ_errors(self._addresses):
            self._drain(CHANGE_WAIT_S)
            self._store.commit(ready.rules.rules)  # from here on there is no way back
            stopped = time.monotonic()
            self._query.stop()
            self._collect(tell)
        self._rules = ready.rules
        if self.stop.is_set():
            return
        batch = self._start(ready)
        self._tell_change(tell, batch, time.monotonic() - stopped)

    def _tell_change(self, tell: Callable[[Told], None], batch: int, pause_s: float | None) -> None:
        rules = self._rules.rules
        watermark = self.totals.watermark
        told = RulesChanged(rules.number, rules.change, batch, watermark, pause_s, _warnings(self._rules))
        self.totals.rule_changes += 1
        self.changes.append(told)
        tell(told)

    def _commit_opening(self) -> None:
        if self.opening.manifest is None:
            self._store.clear()
            self._checkpoint.write(self.manifest)
            self._store.commit(self._rules.rules)
        elif self.opening.before is not None:
            self._store.commit(self._rules.rules)

    # --- Spark

    def _ready(self, rules: PlannedRules) -> _Ready:
        with as_situ_errors(self._addresses):
            detection = detect_rows(
                replace(rules.plan.graph, start_us=self.manifest.start_us),
                self._rows,
                self.functions,
                shards=self.manifest.shards,
                levels=self.manifest.levels,
                restart=Restart(frozenset(rules.rules.changed), self._starts, self.job.clock_back_to_us),
            )
            return _Ready(rules, detection, _ReportingSink(self.open_sink(detection.output, self.manifest.query)))

    def _start(self, ready: _Ready) -> int:
        """Returns when the first trigger begins: the micro-batch with which it does."""
        with as_situ_errors(self._addresses, str(self.job.checkpoint)):
            writer = ready.detection.events.writeStream.foreachBatch(ready.sink.write)
            writer = writer.option("checkpointLocation", self._checkpoint.spark)
            if self.job.once:
                writer = writer.trigger(availableNow=True)
            elif self.job.every_us is not None:
                writer = writer.trigger(processingTime=f"{max(self.job.every_us // 1000, 1)} milliseconds")
            batch = self._checkpoint.next_batch
            self._sink_errors = ready.sink.errors
            # Where streams may be idle, Spark would run micro-batches without rows for ever.
            with setting_for_queries(self.session, EMPTY_BATCHES, "false") if self.job.once else nullcontext():
                self._query: StreamingQuery = writer.start()
            self._feed = ProgressFeed(self._query, after=batch - 1)
            while self._query.isActive and not self.stop.is_set():
                status = self._query.status
                if status["isTriggerActive"] or status["message"].startswith("Waiting"):
                    break
                self.stop.wait(_SHORT_S)
            return batch

    def _collect(self, tell: Callable[[Told], None]) -> None:
        for batch in self._feed.new():
            self.totals.add(batch)
            self._judge_demands()
            tell(Progressed(batch))

    def _judge_demands(self) -> None:
        """Hold demands of latency against the last micro-batch with results. Spark's progress has one figure for all
        subscriptions, from the times of complex events on."""
        subscriptions = self._rules.plan.graph.query.subscriptions
        latency = self.totals.last_with_latency
        mean_us = [] if latency is None or latency.mean_latency_s is None else [latency.mean_latency_s * 1e6]
        self.totals.demands = judged_latencies(subscriptions, {s.name: mean_us for s in subscriptions})

    def _drain(self, seconds: float) -> None:
        """Waits for the micro-batch that runs."""
        deadline, before = time.monotonic() + seconds, self._checkpoint.next_batch
        while self._query.isActive and self._query.status["isTriggerActive"]:
            if time.monotonic() > deadline or self._checkpoint.next_batch > before:
                return
            time.sleep(_SHORT_S)  # Spark tells nobody here when a micro-batch ends

    def _require_no_error(self) -> None:
        """Why the query has ended, if it should not have."""
        if self.stop.is_set():
            return
        for raised in self._sink_errors:
            if isinstance(raised, SituError):
                raise raised
            raise query_error(str(raised), self._addresses) from None
        error = self._query.exception()
        if error is not None:
            raise query_error(str(error), self._addresses, str(self.job.checkpoint)) from None
        if not self.job.once or self._checkpoint.is_in_a_batch:
            raise SparkError("the streaming query has ended by itself", remedy="What Spark printed above says more.")


def _warnings(rules: PlannedRules) -> tuple[str, ...]:
    return tuple(map(str, warnings_of(rules.plan.graph)))
