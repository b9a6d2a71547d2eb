"""A script: a streaming query that is to be killed, and goes on where it was killed. `test_kills.py` starts it.

python -c 'from runtime.spark.kill_query import main; main()' DIRECTORY parquet|files MASTER

DIRECTORY has the input in `in/<stream>`, one file of each stream for each micro-batch; the checkpoint is in
`checkpoint`, results are in `out`. It ends when the input has been read. What is to die at which event stands in
`fatal` (see `_die`).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import situ
from situ.core.functions import Functions
from situ.runtime.spark.detect import Detection
from situ.runtime.spark.session.session import spark_session
from situ.runtime.spark.sinks.stream_sinks import open_sink

#: Two streams, one of which delivers rows more than once; a definition that others regroup, so that there are two
#: levels of state; absence at the end; windows of time with and without keys; partial matches that time out.
QUERY = """
stream Reading(id int, sensor int, value int, ts timestamp) time ts unique id watermark 4 s
stream Alarm(id int, zone int, level int, ts timestamp) time ts order id watermark 2 s

define Rise(sensor, zone, id, by)
  detect   Reading(value >= 0) as a then Reading(value >= 0 and value > a.value + 40) as b within 6 s
  assign   sensor = a.sensor, zone = b.sensor % 3, id = first_stage(b.id), by = b.value - a.value
  group by sensor

subscribe Storm
  detect   Rise as one then Rise(by > 60) as two within 5 s
  assign   zone = one.zone, id = second_stage(two.id), by = one.by + two.by
  group by zone
  report timed out

subscribe Unheard
  detect   Rise as rise then not Alarm(level > 2) within 8 s
  assign   zone = rise.zone, id = rise.id
  group by zone

subscribe Load
  aggr every 10 s
  detect   Reading(value >= 0)
  assign   sensor = group.sensor, number = count(Reading), total = sum(Reading.value)
  group by sensor

subscribe Answered
  detect   Alarm(level > 2) as alarm then Reading(value > 90) as high within 3 s
  assign   alarm = alarm.id, high = high.id
"""
COLUMNS = {
    "Reading": "id int, sensor int, value int, ts timestamp",
    "Alarm": "id int, zone int, level int, ts timestamp",
}
DEATHS = ("worker", "driver", "driver-again")

#: Where workers find the directory.
DIRECTORY = "SITU_KILL_QUERY"


FUNCTIONS = Functions()


@FUNCTIONS.function(returns="int")
def first_stage(number: int) -> int:
    return _die("first", number)


@FUNCTIONS.function(returns="int")
def second_stage(number: int) -> int:
    return _die("second", number)


def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The results, on their way to the sink: the state may have been committed, and the task has not ended."""
    for batch in batches:
        for name, number in zip(batch.column("_name").to_pylist(), batch.column("id").to_pylist(), strict=True):
            if name == "Storm":
                _die("rows", number)
        yield batch


def _die(where: str, number: int) -> int:
    """A file `fatal/first-17-worker` is the death of the worker that comes to the event 17 in the first stage;
    `-driver` is that of the whole query, and `-driver-again` that of the next one. The file is renamed before that, so
    it happens once."""
    directory = Path(os.environ.get(DIRECTORY, "/nowhere"))
    for whom in DEATHS:
        order = directory / "fatal" / f"{where}-{number}-{whom}"
        try:
            order.rename(directory / "died" / order.name)
        except FileNotFoundError:
            continue
        if whom != "worker":
            os.killpg(int((directory / "pid").read_text()), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def detection_of(spark: SparkSession, directory: Path) -> Detection:
    streams = {}
    for name, columns in COLUMNS.items():
        reader = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1)
        streams[name] = reader.parquet(str(directory / "in" / name))
    return situ.detect(QUERY, streams, FUNCTIONS, show_definitions=True)


def writer_of(detection: Detection, sink: str, directory: Path) -> DataStreamWriter:
    events = detection.events.mapInArrow(rows, detection.events.schema)
    if sink == "parquet":
        return events.writeStream.format("parquet").option("path", str(directory / "out"))
    files = open_sink(str(directory / "out"), "parquet", detection.output, "the query that is killed")
    return events.writeStream.foreachBatch(files.write)


def main() -> None:
    directory, sink, master = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    os.environ[DIRECTORY] = str(directory)
    (directory / "pid").write_text(str(os.getpid()))
    conf = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = spark_session(master, conf)
    writer = writer_of(detection_of(spark, directory), sink, directory)
    writer = writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True)
    while True:
        try:
            writer.start().awaitTermination()
            break
        except StreamingQueryException as error:
            if "Python worker exited unexpectedly" not in str(error):
                raise
            with (directory / "failures").open("a") as failures:
                failures.write("a worker has died, and so has the query\n")
    if sink == "parquet":
        pq.write_table(spark.read.parquet(str(directory / "out")).toArrow(), directory / "found.parquet")
    spark.stop()
