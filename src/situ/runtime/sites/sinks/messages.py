"""Results of a site as messages, one JSON object each, to MQTT or Kafka. A broker gets each of them at least once; what
is repeated has the same `_log` and `_number`, by which a consumer knows it."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from situ.core.errors import InputError
from situ.io.files.json_text import rows_to_json
from situ.io.kafka_address import KafkaAddress
from situ.io.mqtt.address import MqttAddress
from situ.io.mqtt.client import require_paho
from situ.io.mqtt.publisher import Publisher
from situ.io.tagged_results import tagged
from situ.runtime.sites.sinks.sink import NumberedRows, result_kind
from situ.runtime.sites.sources.kafka_messages import client_settings, require_confluent

_FLUSH_S = 60.0


def messages_of(results: NumberedRows, sink_id: str) -> pa.Array:
    """The texts of messages.

    >>> from situ.runtime.sites.messages import LogName
    >>> rows = NumberedRows(LogName("events", "Jam", "north", 1), 7, pa.table({"cars": [3]}))
    >>> print(messages_of(rows, "q")[0])
    {"_query": "q", "_log": "events/Jam/north/1", "_number": 7, "_kind": "complex event", "_name": "Jam", "cars": 3}
    """
    texts = rows_to_json(tagged(result_kind(results.log), results.log.type, results.rows))
    begin = f'{{"_query": {json.dumps(sink_id)}, "_log": {json.dumps(str(results.log))}, "_number": '
    numbers = pa.array(range(results.first, results.following), pa.int64()).cast(pa.string())
    return pc.binary_join_element_wise(begin, numbers, ", ", pc.utf8_slice_codeunits(texts, 1), "")


class MqttLogSink:
    """A topic of a broker."""

    def __init__(self, address: MqttAddress, sink_id: str) -> None:
        require_paho()
        if address.has_wildcards:
            remedy = "Name one topic, without + and #."
            raise InputError(f"results cannot be sent to {address.shown}, which is many topics", remedy=remedy)
        self._address, self._sink_id = address, sink_id

    def write(self, results: NumberedRows) -> None:
        with Publisher(self._address) as publisher:
            for text in messages_of(results, self._sink_id).to_pylist():
                publisher.publish(self._address.topic, text.encode())

    def close(self) -> None:
        """A connection lasts as long as a write."""


class KafkaLogSink:
    """A topic. The key of a message is what tells repetitions, so that a compacted topic holds each result once."""

    def __init__(self, address: KafkaAddress, sink_id: str) -> None:
        require_confluent()
        from confluent_kafka import Producer

        self._address, self._sink_id = address, sink_id
        self._failures: list[str] = []
        self._producer = Producer(client_settings(address) | {"enable.idempotence": True})

    def write(self, results: NumberedRows) -> None:
        log = f"{self._sink_id}/{results.log}"
        for number, text in enumerate(messages_of(results, self._sink_id).to_pylist(), results.first):
            while True:
                try:
                    key = f"{log}/{number}".encode()
                    self._producer.produce(self._address.topic, text.encode(), key, on_delivery=self._delivered)
                    break
                except BufferError:  # as many as fit are on their way
                    self._producer.poll(0.1)
        left = self._producer.flush(_FLUSH_S)
        if left or self._failures:
            cause = self._failures[0] if self._failures else f"{left} messages were not taken in {_FLUSH_S:.0f} s"
            self._failures.clear()
            raise InputError(
                f"results cannot be written: {self._address.without_secrets(cause)}",
                place=self._address.shown,
                remedy="Mend that and start the site again: nothing is lost.",
            )

    def close(self) -> None:
        self._producer.flush(1.0)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self._failures.append(str(error))
