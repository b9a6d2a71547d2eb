"""MQTT in Spark: streams that are stopped, killed and started again, and rows that become messages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pyspark.sql.functions as F
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from servers.debian import ServerUnavailable, free_port, wait_until
from servers.mosquitto import Mosquitto, mosquitto, mosquitto_broker
from situ.io.mqtt.receiver import Receiver
from situ.io.mqtt.spool import Spool
from situ.runtime.spark.inputs.mqtt import MqttAddress, MqttDataSource, read_stream, write_batch
from situ.runtime.spark.session.errors import cause_and_remedy

__all__ = ["mosquitto"]  # the fixture

pytestmark = pytest.mark.slow

LOGIN = ("ann", "SECRET")


@pytest.fixture(scope="module")
def guarded() -> Iterator[Mosquitto]:
    """A broker with a password, which must not be seen anywhere."""
    try:
        with mosquitto_broker(dict([LOGIN])) as broker:
            yield broker
    except ServerUnavailable as error:
        pytest.skip(str(error))


def forward(address: MqttAddress) -> Callable[[DataFrame, int], None]:
    """Messages of in/X go to out/X."""

    def batch(df: DataFrame, _number: int) -> None:
        topic = F.concat(F.lit("out"), F.substring_index("topic", "in", -1))
        write_batch(df.select("value", topic.alias("topic")), address)

    return batch


@pytest.mark.storm
def test_messages_go_through_a_query_that_stops_and_starts(
    spark: SparkSession, guarded: Mosquitto, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each once, and in order, because a small batch is one partition; also what comes while no query runs."""
    spark.dataSource.register(MqttDataSource)
    login = f"{LOGIN[0]}:{LOGIN[1]}@"
    source, sink = (MqttAddress.parse(guarded.address(topic, login)) for topic in ("in/#", "out"))
    spool = tmp_path / "spool"
    small = {"spool": spool.as_uri(), "segment_bytes": "1", "max_messages": "40"}
    stream = spark.readStream.format("mqtt").options(address=source.shown, password=LOGIN[1], **small).load()

    def start() -> StreamingQuery:
        writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.foreachBatch(forward(sink)).start()

    payloads = [b"", b"\xff", "ä".encode(), *(str(number).encode() for number in range(3, 100))]
    messages = [(f"in/{number % 2}", payload) for number, payload in enumerate(payloads)]
    with guarded.subscribed("out/#", LOGIN) as take:
        query = start()
        wait_until(lambda: query.status["message"] == "Waiting for data to arrive", "the subscription", 300)
        guarded.publish(*messages[:50], login=LOGIN)
        found = take(50)
        query.processAllAvailable()  # a batch that is stopped half-way is sent again, rightly
        query.explain(extended=True)
        shown = str(query.lastProgress) + str(query.status) + capsys.readouterr().out
        query.stop()
        guarded.publish(*messages[50:80], login=LOGIN)
        query = start()
        guarded.publish(*messages[80:], login=LOGIN)
        found += take(50)
        query.processAllAvailable()
        guarded.publish(("in/0", b"one more, so that Spark commits the batch before"), login=LOGIN)
        wait_until(lambda: len(list(spool.glob("*.jsonl"))) == 1, "the last segment alone")
        take(1)
        query.processAllAvailable()
        query.stop()
    assert query.exception() is None
    for topic in ("0", "1"):
        expected = [payload for name, payload in messages if name == f"in/{topic}"]
        assert [payload for name, payload in found if name == f"out/{topic}"] == expected
    assert "mqtt" in shown
    assert LOGIN[1] not in shown


@pytest.fixture(scope="module")
def mqtt_rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, 10, 1, 3).select(F.format_string("%d", "id").alias("value"), F.lit(1).alias("other"))


def test_rows_become_messages(mqtt_rows: DataFrame, mosquitto: Mosquitto) -> None:
    with mosquitto.subscribed("rows") as take:
        write_batch(mqtt_rows, MqttAddress.parse(mosquitto.address("rows")))
        assert sorted(take(10)) == [("rows", str(number).encode()) for number in range(10)]


def test_no_broker_for_rows(mqtt_rows: DataFrame) -> None:
    with pytest.raises(Exception, match="no MQTT broker answers at mqtt:") as error:
        write_batch(mqtt_rows, MqttAddress("127.0.0.1", "t", free_port()))
    cause, remedy = cause_and_remedy(str(error.value))
    assert cause.startswith("no MQTT broker answers")
    assert remedy == "Start it there, or correct the address."


def test_no_broker_for_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    stream = read_stream(spark, MqttAddress("127.0.0.1", "t", free_port()), tmp_path / "spool")
    assert stream.dtypes == [("value", "string"), ("_place", "string"), ("topic", "string")]
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(Exception, match="no MQTT broker answers at mqtt:"):
        query.awaitTermination(120)


def run(address: str, directory: Path, *arguments: str) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-m", "runtime.spark.mqtt_query", address, str(directory), *arguments]
    with (directory / "log").open("ab") as log:
        environment = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
        environment["PYTHONPATH"] = paths
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)


def kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # else it has ended, and all that it started
        os.killpg(process.pid, signal.SIGKILL)  # Java and the process that receives, too
    process.wait()


@pytest.mark.spark
@pytest.mark.kills
def test_a_query_that_is_killed_between_receiving_and_committing(mosquitto: Mosquitto, tmp_path: Path) -> None:
    """The killed batch is repeated with the same rows, and nothing is lost, nor what comes in the meantime.

    A message may come twice, if its acknowledgement was on its way at the time; then it has two numbers.
    """
    topic, sent = "killed-query", [str(number).encode() for number in range(30)]
    address = mosquitto.address(topic)
    with closing(Spool(tmp_path / "spool")) as spool:
        Receiver(MqttAddress.parse(address), spool).close()  # from now on, the broker keeps messages
    mosquitto.publish(*((topic, payload) for payload in sent[:10]))
    killed = run(address, tmp_path, "hang", "30")
    try:
        in_batch = tmp_path / "hang-0.json"
        wait_until(lambda: in_batch.exists() or killed.poll() is not None, "the first batch", 300)
        assert killed.poll() is None, (tmp_path / "log").read_text()[-2000:]
        mosquitto.publish(*((topic, payload) for payload in sent[10:20]))
    finally:
        kill(killed)
    mosquitto.publish(*((topic, payload) for payload in sent[20:]))
    worked = run(address, tmp_path, "work", "30")
    try:
        assert worked.wait(300) == 0, (tmp_path / "log").read_text()[-2000:]
    finally:
        kill(worked)
    first, again = (json.loads((tmp_path / f"{name}-0.json").read_text()) for name in ("hang", "work"))
    assert first
    assert first == again
    rows = [row for file in tmp_path.glob("work-*.json") for row in json.loads(file.read_text())]
    assert len({place for place, _ in rows}) == len(rows)
    assert {value for _, value in rows} == {payload.decode() for payload in sent}
