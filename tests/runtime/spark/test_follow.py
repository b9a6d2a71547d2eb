"""A query that runs on: its rules change, it stops and goes on, and unchanged rules lose nothing."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from situ.core.errors import InputError, SituError, StateError
from situ.runtime.embedded import Engine
from situ.runtime.spark.follow.checkpoint import Checkpoint
from situ.runtime.spark.follow.query_errors import query_error
from situ.runtime.spark.session.errors import SparkError
from situ.service.rules import Change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from situ.runtime.spark.follow.follow import Follower
    from situ.runtime.spark.follow.opening import Job
    from situ.service.told import Told

#: For anything that Spark does; a busy machine may take long.
DEADLINE_S = 300

STREAM = "stream Reading(sensor int, value double, ts timestamp) time ts watermark 5 s\n"
RISE = """
subscribe Rise
  detect   Reading(value > 0) as a then Reading(value > a.value + 5) as b within 20 s
  assign   sensor = a.sensor, low = a.value, high = b.value
  group by sensor
"""
FALL = RISE.replace("Rise", "Fall").replace("> a.value + 5", "< a.value - 5")
HIGH = "subscribe High detect Reading(value > 8) as a assign sensor = a.sensor, value = a.value\n"
HIGHER = HIGH.replace("8", "11")


# ---- events


def readings(part: int, rows: int = 60) -> list[dict[str, Any]]:
    """Part after part in order of time; the next one begins where this one ends."""
    return [
        {"sensor": (n * 7) % 4, "value": float((n * n + 3 * part) % 13), "ts": (part * rows + n) * 1_000_000}
        for n in range(rows)
    ]


def table(rows: list[dict[str, Any]]) -> pa.Table:
    schema = pa.schema([("sensor", pa.int64()), ("value", pa.float64()), ("ts", pa.timestamp("us", tz="UTC"))])
    return pa.Table.from_pylist(rows, schema)


def found_by_engine(rule: str, parts: range) -> Counter[tuple[Any, ...]]:
    """What is certain when these parts have come."""
    output = Engine(STREAM + rule).feed(table([row for part in parts for row in readings(part)]))
    assert not output.late
    (events,) = output.complex_events.values()
    return counted(events)


def counted(events: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in events.to_pylist())


# ---- a query in a thread

T = TypeVar("T", bound="Told")


class Place:
    """Directories of a query, and what is in them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("in", "rules"):
            (directory / name).mkdir()

    def job(self, rules: str = RISE, **more: Any) -> Job:
        from situ.runtime.spark.follow.opening import Job

        addresses = {"Reading": str(self.directory / "in")}
        job = Job("q.situ", STREAM + rules, addresses, self.directory / "ck", self.directory / "rules")
        return replace(job, **more)

    def give(self, part: int) -> None:
        """Files are moved in whole."""
        pq.write_table(table(readings(part)), self.directory / f"part-{part}.parquet")
        (self.directory / f"part-{part}.parquet").rename(self.directory / "in" / f"part-{part}.parquet")

    def rules(self, name: str, text: str | None) -> None:
        file = self.directory / "rules" / f"{name}.situ"
        if text is None:
            file.unlink()
        else:
            unfinished = file.with_suffix(".new")
            unfinished.write_text(text)
            unfinished.rename(file)

    def batches(self, subscription: str) -> dict[int, Counter[tuple[Any, ...]]]:
        files = (self.directory / "out" / subscription).glob("batch-*.parquet")
        found = {int(file.stem.partition("-")[2]): counted(pq.read_table(file)) for file in files}
        return {batch: events for batch, events in found.items() if events}

    def found(self, subscription: str) -> Counter[tuple[Any, ...]]:
        return sum(self.batches(subscription).values(), Counter())

    def follower(self, spark: SparkSession, job: Job, open_sink: Callable[..., Any] | None = None) -> Follower:
        from situ.runtime.spark.follow.follow import Follower
        from situ.runtime.spark.follow.opening import open_rules
        from situ.runtime.spark.inputs.stream_sources import open_stream
        from situ.runtime.spark.sinks.stream_sinks import open_sink as sink_of

        out = str(self.directory / "out")
        return Follower(
            spark,
            job,
            open_rules(job),
            lambda stream, work: open_stream(spark, job.addresses[stream.name], stream, work),
            open_sink or (lambda output, query: sink_of(out, "parquet", output, query)),
        )


class Running:
    """A follower in a thread of its own."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.told: queue.Queue[Told | BaseException | None] = queue.Queue()
        self.past: list[Told] = []
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.follower.run(self.told.put)
            self.told.put(None)
        except BaseException as error:
            self.told.put(error)

    def until(self, kind: type[T], condition: Callable[[T], bool] = lambda told: True) -> T:
        """The next thing of a kind that is told."""
        while True:
            told = self.told.get(timeout=DEADLINE_S)
            assert told is not None, f"it ended without {kind.__name__}"
            if isinstance(told, BaseException):
                raise told
            self.past.append(told)
            if isinstance(told, kind) and condition(told):
                return told

    def stop(self) -> None:
        self.follower.stop.set()
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive()


@contextmanager
def running(follower: Follower) -> Iterator[Running]:
    run = Running(follower)
    try:
        yield run
    finally:
        run.stop()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def once(spark: SparkSession, place: Place, rules: str = RISE) -> Follower:
    """Reads what is there, and ends."""
    follower = place.follower(spark, place.job(rules, once=True))
    follower.run(lambda told: None)
    return follower


# ---- with Spark


@pytest.mark.slow
def test_rules_change_while_it_runs_and_it_goes_on_after_a_stop(spark: SparkSession, place: Place) -> None:
    from situ.service.told import Began, Progressed, RulesChanged, RulesRefused

    place.rules("high", HIGH)
    place.give(0)
    with running(place.follower(spark, place.job())) as run:
        began = run.until(Began)
        assert (began.rules, began.batch, began.levels) == (0, 0, 1)
        first = run.until(Progressed).batch
        assert (first.number, first.input) == (0, 60)

        place.rules("fall", FALL)
        added = run.until(RulesChanged)
        assert (added.number, added.change, added.batch) == (1, Change(added=("Fall",)), 1)
        assert added.watermark == first.watermark == 59 - 5
        assert added.pause_s is not None
        assert added.pause_s > 0
        place.give(1)
        assert run.until(Progressed).batch.number == 1

        place.rules("high", HIGHER)
        assert run.until(RulesChanged).change == Change(replaced=("High",))
        place.give(2)
        assert run.until(Progressed).batch.number == 2

        place.rules("fall", None)
        assert run.until(RulesChanged).change == Change(removed=("Fall",))
        place.give(3)
        run.until(Progressed)

        place.rules("wrong", HIGH.replace("High", "Wrong").replace("value", "valu"))
        assert "wrong.situ:1:" in str(run.until(RulesRefused).error)
        place.give(4)
        assert run.until(Progressed).batch.number == 4
        run.stop()
        assert run.follower.totals.counts.input == 5 * 60
        assert [told.batch for told in run.follower.changes] == [1, 2, 3]

    place.give(5)
    with running(place.follower(spark, place.job())) as run:
        assert run.until(RulesRefused)
        began = run.until(Began)
        assert (began.rules, began.batch) == (3, 5)
        assert run.until(Progressed).batch.number == 5

    assert place.found("Rise") == found_by_engine(RISE, range(6))
    assert place.found("Fall") == found_by_engine(FALL, range(1, 3))
    high, higher = found_by_engine(HIGH, range(2)), found_by_engine(HIGHER, range(2, 6))
    assert place.found("High") == high + higher
    assert min(map(len, (high, higher, place.found("Rise"), place.found("Fall")))) > 10


@pytest.mark.slow
@pytest.mark.storm
def test_a_micro_batch_of_the_old_rules_is_done_again_under_the_new_ones(spark: SparkSession, place: Place) -> None:
    """It was planned, its results written, and then the process died before Spark committed it; or nothing of this
    happened: the same comes out."""
    place.rules("high", HIGH)
    for part in range(2):
        place.give(part)
        once(spark, place)
    before = place.found("Rise"), place.found("High")
    commits = place.directory / "ck" / "spark" / "commits"
    for file in (commits / "1", commits / ".1.crc"):
        file.unlink(missing_ok=True)
    assert place.batches("High").keys() == {0, 1}

    place.rules("high", None)
    place.rules("fall", FALL)
    follower = once(spark, place)
    (changed,) = follower.changes
    assert (changed.batch, changed.change, changed.pause_s) == (1, Change(added=("Fall",), removed=("High",)), None)
    assert follower.totals.counts.input == 60
    assert place.found("Rise") == before[0] == found_by_engine(RISE, range(2))
    assert place.batches("High").keys() == {0}, "results of an attempt under the old rules are replaced, too"
    assert place.found("Fall") == found_by_engine(FALL, range(1, 2))
    assert place.found("Fall")


@pytest.mark.slow
@pytest.mark.storm
def test_a_change_that_was_committed_and_not_started_holds_after_a_crash(spark: SparkSession, place: Place) -> None:
    from situ.runtime.spark.follow.opening import open_rules
    from situ.service.rules import RuleStore

    place.rules("high", HIGH)
    place.give(0)
    once(spark, place)
    place.rules("high", HIGHER)
    RuleStore(place.directory / "ck" / "rules").commit(open_rules(place.job()).rules.rules)
    place.give(1)
    follower = once(spark, place)
    assert (follower.changes, follower.totals.counts.input) == ([], 60)
    assert place.found("High") == found_by_engine(HIGH, range(1)) + found_by_engine(HIGHER, range(1, 2))
    assert place.found("Rise") == found_by_engine(RISE, range(2))


BEAT = """
stream Beat(n int, ts timestamp) time ts idle after 1 s
subscribe Beaten detect Reading as a then Beat as b within 5 s
"""


@pytest.mark.slow
def test_it_ends_where_a_stream_may_be_idle_and_leaves_the_session_as_it_was(spark: SparkSession, place: Place) -> None:
    """To end, it must do without micro-batches without rows; other queries of the session need them."""
    setting = "spark.sql.streaming.noDataMicroBatches.enabled"
    assert spark.conf.get(setting) == "true"
    beats = place.directory / "beats"
    beats.mkdir()
    place.give(0)
    addresses = place.job().addresses | {"Beat": str(beats)}
    with running(place.follower(spark, place.job(RISE + BEAT, addresses=addresses, once=True))) as run:
        run.thread.join(DEADLINE_S)
        assert not run.thread.is_alive()
    assert run.follower.totals.counts.input == 60
    assert spark.conf.get(setting) == "true"


@pytest.mark.slow
@pytest.mark.storm
def test_errors_of_workers_and_sinks_are_situs(spark: SparkSession, place: Place) -> None:
    class FullDisk:
        def write(self, events: DataFrame, batch: int) -> None:
            events.foreach(lambda row: None)  # all of it is read
            raise InputError("the disk is full", place="out", remedy="Make room.")

    class Defect:
        def write(self, events: DataFrame, batch: int) -> None:
            events.foreach(lambda row: None)
            raise ZeroDivisionError("a long story " * 10_000)

    place.give(0)
    with pytest.raises(InputError) as caught:
        place.follower(spark, place.job(once=True), lambda output, query: FullDisk()).run(lambda told: None)
    assert str(caught.value) == "out: the disk is full.\n  Make room."
    with pytest.raises(SparkError, match="a long story"):
        place.follower(spark, place.job(), lambda output, query: Defect()).run(lambda told: None)
    once(spark, place)
    assert place.found("Rise") == found_by_engine(RISE, range(1))
    checkpoint = Checkpoint(place.directory / "ck")
    known = checkpoint.manifest()
    assert known is not None
    checkpoint.write(replace(known, shards=3))
    place.give(1)
    with pytest.raises(StateError, match="state is in 2 shards, and the query runs with 3"):
        once(spark, place)


@pytest.mark.slow
def test_partitions_are_those_of_the_checkpoint(spark: SparkSession, place: Place) -> None:
    """With others, Spark would not find the state again."""
    from situ.runtime.spark.follow.checkpoint import Manifest
    from situ.runtime.spark.follow.opening import open_rules
    from situ.service.rules import RuleStore

    job = place.job()
    rules, checkpoint = open_rules(job).rules, Checkpoint(job.checkpoint)
    (job.checkpoint / "spark" / "offsets" / "0").mkdir(parents=True)
    checkpoint.write(Manifest.new(rules.plan.graph.streams, job.addresses, 4, 7, 1))
    RuleStore(checkpoint.rules).commit(rules.rules)
    with pytest.raises(StateError, match=r"spark.sql.shuffle.partitions=7, not 2"):
        place.follower(spark, job)


# ---- without


_WORKER = """\
[STREAM_FAILED] Query [id = 7] terminated with exception: Job aborted due to stage failure: Task 0 in stage 3.0 failed
Traceback (most recent call last):
  File "worker.py", line 1, in main
    raise StateError(
situ.core.errors.StateError: the checkpoint has state of Rise, which the query does not have.
  Is it the checkpoint of another query? If not, let Rise go.

\tat org.apache.spark.api.python.BasePythonRunner
Caused by: org.apache.spark.SparkException: Job aborted
"""


@pytest.mark.parametrize(
    ("text", "kind", "cause", "remedy"),
    [
        (
            _WORKER,
            StateError,
            "the checkpoint has state of Rise, which the query does not have",
            "Is it the checkpoint of another query? If not, let Rise go.",
        ),
        ("x\nsitu.core.errors.InputError: no room.\n=== Streaming Query ===", InputError, "no room", ""),
        ("x\nsitu.runtime.spark.errors.SparkError: no Java.", SparkError, "no Java", ""),
        ("x\nsitu.core.errors.InputError: first.\nsitu.core.errors.StateError: last.", StateError, "last", ""),
        (
            "[STREAM_FAILED] no such topic\nmore",
            SparkError,
            "the streaming query has failed: [STREAM_FAILED] no such topic",
            "",
        ),
    ],
)
def test_what_situ_said_is_found_in_what_spark_says(text: str, kind: type, cause: str, remedy: str) -> None:
    error = query_error(text)
    assert (type(error), error.cause, error.remedy) == (kind, cause, remedy)
    assert isinstance(error, SituError)


def test_errors_of_kafka_tell_no_secrets() -> None:
    address = 'kafka://host:9092/cars?kafka.sasl.jaas.config=org.Login required password="geheim";'
    error = query_error('Invalid value org.Login required password="geheim"; for sasl.jaas.config of kafka', [address])
    assert "geheim" not in str(error)
    assert error.place == "kafka://host:9092/cars"
    assert query_error("Timed out waiting for a node assignment, says kafka", [address]).cause == "no broker answers"
    assert query_error("no room on the disk", [address]).cause == "the streaming query has failed: no room on the disk"
