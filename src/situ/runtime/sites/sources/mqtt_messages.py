"""Messages of an MQTT topic. A broker's message lies in a spool on the site's disk before it is acknowledged; the
position is a number in the spool, which forgets what the site has committed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from situ.core.errors import StateError
from situ.graph.query import Stream
from situ.io.files.json_lines import JsonFormat
from situ.io.messages import check_json_attributes, conform_messages
from situ.io.mqtt.address import MqttAddress
from situ.io.mqtt.client import require_paho
from situ.io.mqtt.receiver import Receiver
from situ.io.mqtt.spool import Spool, SpoolBlock
from situ.runtime.sites.sources.source import PIECE_ROWS, SourceRows, position_of_text, position_to_text

_BLOCK_BYTES = 4 << 20
#: How often the spool is looked at.
_LOOK_S = 0.005


class MqttMessages:
    """A topic, or several by a pattern. `work` is the directory of the spool."""

    def __init__(self, address: MqttAddress, stream: Stream, work: Path) -> None:
        require_paho()
        check_json_attributes(stream, address.shown)
        self._address, self._stream, self._work = address, stream, work
        self._spool = Spool(work / "spool")
        try:
            self._receiver = Receiver(address, self._spool)
        except BaseException:
            self._spool.close()
            raise

    def read(self, position: str | None) -> Iterator[SourceRows | None]:
        form, following = JsonFormat(b"", self._stream), self._spool.first
        if position is not None:
            following = int(position_of_text(position, self._address.shown)["next"])
        while True:
            self._receiver.check()
            there = self._spool.next
            if there < following:
                raise StateError(
                    f"{following} messages were read, and the spool has had {there}",
                    place=str(self._work),
                    remedy="Spool and journal belong together: bring back the spool, or begin with a new directory.",
                )
            if there == following:
                time.sleep(_LOOK_S)
                yield None
                continue
            for block in self._spool.blocks(following, min(there, following + PIECE_ROWS), _BLOCK_BYTES):
                messages = block_to_messages(block)
                following = block.first + messages.num_rows
                rows = conform_messages(messages, form, self._stream, round(time.time() * 1e6))
                yield SourceRows(rows, position_to_text({"next": following}))

    def taken(self, position: str) -> None:
        self._spool.prune(int(position_of_text(position, self._address.shown)["next"]))

    def close(self) -> None:
        self._receiver.close()
        self._spool.close()


def block_to_messages(block: SpoolBlock) -> pa.RecordBatch:
    """Lines of a spool as messages: the text, and where it stands."""
    messages = list(block.messages())
    payloads = pa.array([message.payload for message in messages], pa.binary())
    places = [f"{message.topic}:{number}" for number, message in enumerate(messages, block.first)]
    return pa.record_batch({"value": payloads, "_place": pa.array(places, pa.string())})
