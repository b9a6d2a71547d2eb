"""A streaming query on a checkpoint that is not its own, and one that finds no room: what is wrong is said, and nothing
is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import situ
from runtime.spark.kill_events import assert_same, expected, found_in_files, make_batches, write_input
from runtime.spark.kill_query import COLUMNS, QUERY
from situ.core.errors import SituError, StateError
from situ.runtime.spark.detect import Detection
from situ.runtime.spark.follow.query_errors import query_error
from situ.runtime.spark.sinks.stream_sinks import open_sink

pytestmark = [pytest.mark.slow, pytest.mark.storm]

#: The session's workers do not know the functions of these tests.
PLAIN = QUERY.replace("first_stage(b.id)", "b.id").replace("second_stage(two.id)", "two.id")


def detection_of(spark: SparkSession, directory: Path, query: str = PLAIN, **options: int) -> Detection:
    streams = {}
    for name, columns in COLUMNS.items():
        if f"stream {name}" in query:
            reader = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1)
            streams[name] = reader.parquet(str(directory / "in" / name))
    return situ.detect(query, streams, show_definitions=True, **options)


def run(detection: Detection, directory: Path) -> None:
    """Until all input has been read; what Spark raises as one of situ's errors."""
    sink = open_sink(str(directory / "out"), "parquet", detection.output, "one")
    writer = detection.events.writeStream.foreachBatch(sink.write).trigger(availableNow=True)
    try:
        writer.option("checkpointLocation", str(directory / "checkpoint")).start().awaitTermination()
    except StreamingQueryException as error:
        raise query_error(str(error)) from error


def with_partitions(spark: SparkSession, number: int, action: Callable[[], None]) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions") or ""
    spark.conf.set("spark.sql.shuffle.partitions", str(number))
    try:
        action()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


#: A seed, and a number of micro-batches.
BEGUN = (3, 4)


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A query that has read a micro-batch, and has three more to read."""
    directory = tmp_path_factory.mktemp("begun")
    batches = make_batches(*BEGUN)
    write_input(directory, batches[:1])
    with_partitions(spark, 2, lambda: run(detection_of(spark, directory, shards=2), directory))
    write_input(directory, batches)
    return directory


PAIR = "subscribe Pair detect Reading(value > 50) as a then Reading(value > 80) as b within 3 s"
READING, ALARM, *_ = (line for line in PLAIN.splitlines() if line.startswith("stream"))

#: Queries on the checkpoint of another one, and what the error says.
OTHERS = {
    "a rule that the checkpoint does not have": (
        PLAIN.replace("Storm", "Gale"),
        "the checkpoint has state of Storm, which the query does not have",
    ),
    "a rule of the same name": (PLAIN.replace("+ 40", "+ 41"), "state of Rise is of another program"),
    "rules that do not regroup": (f"{READING}\n{ALARM}\n{PAIR}", "adds/removes/changes stateful operator"),
    "another number of streams": (f"{READING}\n{PAIR}", r"There are \[2\] sources in the checkpoint"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_the_checkpoint_of_another_query_is_refused(spark: SparkSession, begun: Path, other: str) -> None:
    query, says = OTHERS[other]
    with pytest.raises(SituError, match=says):
        run(detection_of(spark, begun, query, shards=2), begun)


def test_state_in_another_number_of_shards_is_refused(spark: SparkSession, begun: Path) -> None:
    with pytest.raises(StateError, match="the checkpoint's state is in 2 shards, and the query runs with 3"):
        run(detection_of(spark, begun, shards=3), begun)


def test_after_what_was_refused_nothing_is_lost(spark: SparkSession, begun: Path) -> None:
    """The query itself, with as many shards; also if the session has another number of partitions by now."""
    with_partitions(spark, 3, lambda: run(detection_of(spark, begun, shards=2), begun))
    assert_same(found_in_files(begun / "out"), expected(make_batches(*BEGUN)))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory with room for the results of a micro-batch or two."""
    out = tmp_path / "out"
    out.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system, on Linux")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(out)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted: {mounted.stderr.decode().strip()}")
    yield out
    subprocess.run(["umount", str(out)], check=True)


def test_a_full_disk_is_said_and_loses_nothing(spark: SparkSession, small_disk: Path) -> None:
    directory = small_disk.parent
    batches = make_batches(5, 4)
    write_input(directory, batches)
    detection = detection_of(spark, directory)
    with pytest.raises(SituError, match="cannot be written: No space left on device") as error:
        run(detection, directory)
    assert error.value.remedy == "Make room and start again: the batch is written then, and nothing is lost."
    wanted = expected(batches)
    before = found_in_files(small_disk)
    assert before < wanted  # some micro-batches are whole, and of the one without room nothing is there
    subprocess.run(["mount", "-o", "remount,size=10m", str(small_disk)], check=True)
    run(detection, directory)
    assert_same(found_in_files(small_disk), wanted)
