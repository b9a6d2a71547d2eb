"""MQTT in Spark: messages of a topic as a stream of rows, and rows as messages.

Delivery from a broker is at least once. Messages go to a spool, a directory beside the checkpoint, and are
acknowledged when they are on its disk; the offsets of the stream are numbers in the spool, so a batch that is repeated
has the same rows. What Spark has committed is deleted from the spool. A broker sends a message again when a crash came
between disk and acknowledgement; the `unique` attribute of a stream's declaration takes such copies out.

Delivery to a broker is at least once, too: a task that is repeated sends its messages again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, StringType, StructType

from situ.core.errors import InputError, StateError
from situ.io.mqtt.address import MqttAddress
from situ.io.mqtt.client import require_paho
from situ.io.mqtt.publisher import Publisher
from situ.io.mqtt.receiver import Receiver
from situ.io.mqtt.spool import SEGMENT_BYTES, Spool, SpoolBlock

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

__all__ = ["MqttAddress", "MqttDataSource", "read_stream", "write_batch"]

SCHEMA = "value string, _place string, topic string"
_ARROW = pa.schema([("value", pa.string()), ("_place", pa.string()), ("topic", pa.string())])

#: Messages of a batch, at most, unless the option `max_messages` says otherwise.
MAX_MESSAGES = 100_000

#: Of a partition, which travels with its task. Spark warns of tasks above 1,000 KiB.
_PARTITION_BYTES = 900 << 10

_OPTIONS = {"address", "password", "spool", "max_messages", "segment_bytes"}


def read_stream(
    spark: SparkSession, address: MqttAddress, spool: str | Path, max_messages: int = MAX_MESSAGES
) -> DataFrame:
    """A streaming DataFrame of the messages that match the address.

    `value` is the payload, `topic` its topic, `_place` the topic and the message's number in the spool. The payload's
    bytes are not looked at: where they are no UTF-8, `value` is as broken as that of Spark's text files.

    `spool` is a directory of the machine that Spark's driver runs on. It belongs to one query, like its checkpoint,
    and is best kept beside it. A broker begins to keep messages when the query first starts.
    """
    spark.dataSource.register(MqttDataSource)
    reader = spark.readStream.format("mqtt").option("spool", str(spool)).option("max_messages", max_messages)
    return reader.options(**_address_options(address)).load()


def write_batch(df: DataFrame, address: MqttAddress) -> None:
    """Rows as messages: `value` is the payload, `topic`, where it is there and not null, says another topic.

    When this returns, the broker has acknowledged all of them.
    """
    df.sparkSession.dataSource.register(MqttDataSource)
    columns = [name for name in ("value", "topic") if name in df.columns]
    writer = df.select(*columns).write.format("mqtt").mode("append")
    writer.options(**_address_options(address)).save()


def _address_options(address: MqttAddress) -> dict[str, str]:
    """Spark shows options in its plans, but not those with a name like `password`."""
    password = {} if address.password is None else {"password": address.password}
    return {"address": address.shown, **password}


class MqttDataSource(DataSource):
    """The format `mqtt`. Options: `address`; `password`, if it is not in the address; for a stream also `spool`,
    `max_messages` (of a batch) and `segment_bytes` (of a file of the spool)."""

    @classmethod
    def name(cls) -> str:
        return "mqtt"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = _checked(self.options)
        if "spool" not in options:
            remedy = 'It keeps messages until they are committed: .option("spool", DIRECTORY), beside the checkpoint.'
            raise InputError("a stream from MQTT needs a spool", remedy=remedy)
        return MqttStreamReader(
            _address(options),
            _local_directory(options["spool"]),
            _positive(options, "max_messages", MAX_MESSAGES),
            _positive(options, "segment_bytes", SEGMENT_BYTES),
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise InputError("messages that are sent cannot be overwritten", remedy='.mode("append") sends more.')
        return MqttWriter(_address(_checked(self.options)), schema)


class MqttPartition(InputPartition):
    """Lines of the spool themselves, not where they are: executors need not see the driver's disk."""

    def __init__(self, block: SpoolBlock) -> None:
        super().__init__(None)
        self.first, self.lines = block.first, block.lines


class MqttStreamReader(DataSourceStreamReader):
    """Messages from the spool. The offset `next` is the number of the first message that is not read yet.

    Spark makes one in the driver, which receives, and another one to send to executors, which only turns lines into
    rows. So the connection is opened when the driver first asks for something, not before.

    Spark 4.1 knows no limits. There the reader keeps to `max_messages` by itself, counted from what it was last asked
    for; the first micro-batch after a start is not limited.
    """

    def __init__(self, address: MqttAddress, spool: Path, max_messages: int, segment_bytes: int) -> None:
        self._address, self._directory = address, spool
        self._max_messages, self._segment_bytes = max_messages, segment_bytes
        self._opened: tuple[Spool, Receiver] | None = None
        self._asked_to: int | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        from pyspark.sql.streaming.datasource import ReadMaxRows

        return ReadMaxRows(self._max_messages)

    def initialOffset(self) -> dict[str, int]:
        return {"next": self._spool().first}

    def latestOffset(self, start: dict[str, int] | None = None, limit: ReadLimit | None = None) -> dict[str, int]:
        there = self._spool().next
        if start is None:
            return {"next": there if self._asked_to is None else min(there, self._asked_to + self._max_messages)}
        self._require_messages_before(start["next"])
        most = getattr(limit, "max_rows", None)  # other limits than a number of rows are not known here
        return {"next": there if most is None else min(there, start["next"] + most)}

    def reportLatestOffset(self) -> dict[str, int]:
        return {"next": self._spool().next}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        self._require_messages_before(start["next"])
        self._asked_to = end["next"]
        return [MqttPartition(b) for b in self._spool().blocks(start["next"], end["next"], _PARTITION_BYTES)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, MqttPartition)
        yield block_to_rows(SpoolBlock(partition.first, partition.lines))

    def commit(self, end: dict[str, int]) -> None:
        self._spool().prune(end["next"])

    def stop(self) -> None:
        if self._opened is not None:
            spool, receiver = self._opened
            receiver.close()
            spool.close()
            self._opened = None

    def _require_messages_before(self, start: int) -> None:
        there = self._spool().next
        if there < start:
            raise StateError(
                f"the checkpoint has read {start} messages, the spool {self._directory} has had {there}",
                remedy="Spool and checkpoint belong together: bring back the spool, or start anew with neither.",
            )

    def _spool(self) -> Spool:
        """The spool, which a receiver fills from now on."""
        if self._opened is None:
            require_paho()
            spool = Spool(self._directory, self._segment_bytes)
            try:
                self._opened = spool, Receiver(self._address, spool)
            except BaseException:
                spool.close()
                raise
        spool, receiver = self._opened
        receiver.check()
        return spool


def block_to_rows(block: SpoolBlock) -> pa.RecordBatch:
    """
    >>> block_to_rows(SpoolBlock(7, b'5f03ff90 ["city/1", "{}"]\\n')).to_pylist()
    [{'value': '{}', '_place': 'city/1:7', 'topic': 'city/1'}]
    """
    messages = list(block.messages())
    payloads = pa.array([message.payload for message in messages], pa.binary())
    places = [f"{message.topic}:{number}" for number, message in enumerate(messages, block.first)]
    topics = [message.topic for message in messages]
    # A view, not a cast: a cast refuses a payload that is no UTF-8, and with it the whole batch.
    return pa.record_batch([payloads.view(pa.string()), pa.array(places), pa.array(topics)], schema=_ARROW)


class MqttWriter(DataSourceArrowWriter):
    """In a task: rows -> messages. It ends when all of them are acknowledged."""

    def __init__(self, address: MqttAddress, schema: StructType) -> None:
        types = {field.name: field.dataType for field in schema.fields}
        if not isinstance(types.get("value"), StringType | BinaryType):
            remedy = "It is the payload, a string or binary: to_json(struct('*')) makes one of all columns."
            raise InputError("rows for MQTT need a column 'value'", remedy=remedy)
        if not isinstance(types.get("topic", StringType()), StringType) or types.keys() - {"value", "topic"}:
            remedy = "They have 'value', and may have 'topic', a string."
            raise InputError(f"rows for MQTT cannot have the columns {', '.join(types)}", remedy=remedy)
        if address.has_wildcards:
            remedy = "Without + and #. A column 'topic' sends rows to topics of their own."
            raise InputError(f"messages cannot be sent to {address.shown}, which is many topics", remedy=remedy)
        self._address = address

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        batches = (batch for batch in iterator if batch.num_rows)
        first = next(batches, None)
        if first is not None:  # most partitions of a small batch are empty, and need no connection
            with Publisher(self._address) as publisher:
                self._publish(first, publisher)
                for batch in batches:
                    self._publish(batch, publisher)
        return WriterCommitMessage()

    def _publish(self, batch: pa.RecordBatch, publisher: Publisher) -> None:
        values = batch.column("value").cast(pa.binary()).to_pylist()
        topics = batch.column("topic").to_pylist() if "topic" in batch.schema.names else [None] * len(values)
        for value, topic in zip(values, topics, strict=True):
            if value is None:
                raise InputError("a row for MQTT has no value", remedy="Leave such rows out: where value is not null.")
            publisher.publish(self._address.topic if topic is None else topic, value)


def _checked(options: Mapping[str, str]) -> dict[str, str]:
    """Spark spells the names of options in small letters."""
    given = {name.lower(): value for name, value in options.items()}
    if "address" not in given:
        raise InputError("the format mqtt needs an address", remedy='.option("address", "mqtt://HOST/TOPIC")')
    unknown = sorted(given.keys() - _OPTIONS)
    if unknown:
        raise InputError(
            f"the format mqtt has no option '{unknown[0]}'", remedy=f"known: {', '.join(sorted(_OPTIONS))}."
        )
    return given


def _address(options: Mapping[str, str]) -> MqttAddress:
    address = MqttAddress.parse(options["address"])
    return replace(address, password=options["password"]) if "password" in options else address


def _local_directory(text: str) -> Path:
    """A path, or a `file:` address of one, as checkpoints are often given."""
    parts = urlsplit(text)
    if parts.scheme not in ("", "file") or parts.netloc:
        remedy = "The driver writes it with fsync, so it is a directory of the driver's machine."
        raise InputError(f"the spool cannot be at {text}", remedy=remedy)
    return Path(unquote(parts.path) if parts.scheme else text)


def _positive(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise InputError(f"the option {name} cannot be '{text}'", remedy="It is a number above 0.")
    return int(text)
