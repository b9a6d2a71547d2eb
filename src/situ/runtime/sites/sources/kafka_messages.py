"""Messages of a Kafka topic, by Kafka's own client. The position is an offset for each partition, and lies in the
site's journal: nothing is committed to Kafka."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from situ.core.errors import InputError
from situ.graph.query import Stream
from situ.io.files.json_lines import JsonFormat
from situ.io.kafka_address import KafkaAddress
from situ.io.messages import check_json_attributes, conform_messages
from situ.runtime.sites.sources.source import SourceRows, position_of_text, position_to_text

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

#: Messages of a piece, and how long one is waited for.
_MESSAGES, _POLL_S, _ANSWER_S = 20_000, 0.02, 15.0


def require_confluent() -> None:
    """An error with the remedy, where Kafka's client is not installed."""
    if find_spec("confluent_kafka") is None:
        raise InputError(
            "Kafka needs the package confluent-kafka, which is not installed", remedy="pip install 'situ[kafka]'"
        )


def client_settings(address: KafkaAddress) -> dict[str, Any]:
    """The settings of Kafka's client in an address, under the names that this client has."""
    given = {name.removeprefix("kafka."): value for name, value in address.client_options.items()}
    return {name: value for name, value in given.items() if name != "sasl.jaas.config"} | {"log_level": 0}


class KafkaMessages:
    """A topic with all its partitions, from a position on; at first from its end, or as `startingOffsets` says."""

    def __init__(self, address: KafkaAddress, stream: Stream) -> None:
        require_confluent()
        check_json_attributes(stream, address.shown)
        self._address, self._stream = address, stream
        if "kafka.sasl.jaas.config" in address.options:
            raise InputError(
                "sasl.jaas.config is Java's, and this client is not",
                place=address.shown,
                remedy="Write kafka.sasl.username and kafka.sasl.password into the file of settings.",
            )

    def read(self, position: str | None) -> Iterator[SourceRows | None]:
        from confluent_kafka import TopicPartition

        consumer = self._consumer()
        try:
            offsets = self._offsets(consumer, position)
            consumer.assign([TopicPartition(self._address.topic, p, offset) for p, offset in offsets.items()])
            form = JsonFormat(b"", self._stream)
            while True:
                messages = consumer.consume(_MESSAGES, _POLL_S)
                good = [message for message in messages if not self._is_error(message)]
                if not good:
                    yield None
                    continue
                offsets |= {int(m.partition() or 0): int(m.offset() or 0) + 1 for m in good}
                rows = conform_messages(_table(good), form, self._stream, round(time.time() * 1e6))
                yield SourceRows(rows, position_to_text({str(p): offset for p, offset in offsets.items()}))
        finally:
            consumer.close()

    def taken(self, position: str) -> None:
        """Kafka keeps messages as long as it was told to."""

    def close(self) -> None:
        """The connection ends with the reading."""

    def _consumer(self) -> Consumer:
        from confluent_kafka import Consumer

        own = {"group.id": "situ", "enable.auto.commit": False, "auto.offset.reset": "error"}
        return Consumer(client_settings(self._address) | own)

    def _offsets(self, consumer: Consumer, position: str | None) -> dict[int, int]:
        """Where each partition is read on. Partitions that have come to the topic since are read from their start."""
        from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

        place, topic = self._address.shown, self._address.topic
        try:
            partitions = consumer.list_topics(topic, _ANSWER_S).topics[topic].partitions
        except KafkaException as error:
            cause = self._address.without_secrets(str(error.args[0].str()))
            raise InputError(f"no broker answers: {cause}", place=place, remedy="Start it, or correct it.") from None
        if not partitions:
            raise InputError("there is no such topic", place=place, remedy="Create it, or correct its name.")
        if position is not None:
            stored = position_of_text(position, place)
            return {number: int(stored.get(str(number), OFFSET_BEGINNING)) for number in partitions}
        ends = {n: consumer.get_watermark_offsets(TopicPartition(topic, n), _ANSWER_S) for n in partitions}
        starting = self._address.options.get("startingOffsets", "latest")
        if starting in ("earliest", "latest"):
            return {n: low if starting == "earliest" else high for n, (low, high) in ends.items()}
        given = json.loads(starting).get(topic, {})
        named = {-2: lambda n: ends[n][0], -1: lambda n: ends[n][1]}
        return {n: named.get(offset, lambda _, o=offset: o)(n) for n in ends for offset in [given.get(str(n), -1)]}

    def _is_error(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return False
        if error.code() in _gone():
            raise InputError(
                f"messages are gone that were not read yet: {error.str()}",
                place=self._address.shown,
                remedy="Kafka keeps messages for a while only. Begin with a new directory.",
            )
        return True  # what goes away by itself: the client connects again


def _gone() -> tuple[int, ...]:
    from confluent_kafka import KafkaError

    return KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET


def _table(messages: list[Message]) -> pa.RecordBatch:
    places = [f"topic {m.topic()}, partition {m.partition()}, offset {m.offset()}" for m in messages]
    values = pa.array([m.value() for m in messages], pa.binary())
    return pa.record_batch({"value": values, "_place": pa.array(places, pa.string())})
