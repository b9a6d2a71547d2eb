"""Messages to a broker, and the certainty that it has them."""

from __future__ import annotations

import threading
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from situ.core.errors import InputError
from situ.io.mqtt.address import MqttAddress
from situ.io.mqtt.client import ANSWER_S, connect, mqtt_client, no_answer, refused

if TYPE_CHECKING:
    from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

#: Messages on their way to the broker, at most; a broker may allow fewer.
UNACKNOWLEDGED = 1000

#: How long a broker may acknowledge nothing, or be away, before the task gives up.
PATIENCE_S = 60.0


class Publisher:
    """A connection for a while. At its end, if nothing was raised, the broker has acknowledged every message.

    A connection that is lost is opened again, and messages without acknowledgement are sent once more: a broker may
    get one twice.
    """

    def __init__(self, address: MqttAddress, patience_s: float = PATIENCE_S, answer_s: float = ANSWER_S) -> None:
        self._address, self._patience_s = address, patience_s
        self._changed = threading.Condition()
        self._unacknowledged, self._allowed = 0, 0  # nothing may be sent until the broker has said how much
        self._progress = monotonic()  # when something was last acknowledged, or began to wait for it
        self._failure: InputError | None = None
        self._ended = ""  # why the broker last ended the connection
        # Its own name each time: two tasks with one name would throw each other out.
        self._client = mqtt_client(address, f"situ{uuid4().hex[:18]}")
        self._client.max_inflight_messages = 0  # counted here, because paho does not know the broker's limit
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_publish = self._on_publish
        connect(self._client, address, clean_start=True)
        try:
            with self._changed:
                answered = self._changed.wait_for(lambda: self._allowed or self._failure, answer_s)
                self._check()
            if not answered:
                raise no_answer(address, f"not ready after {answer_s:g} s")
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._wait_until_fewer_than(1)
        finally:
            self._close()

    def publish(self, topic: str, payload: bytes) -> None:
        """Sends a message; waits if too many are on their way."""
        if not topic:
            raise _no_message(topic, "it is empty")  # allowed with an alias, which nobody has given
        self._wait_until_fewer_than(self._allowed)
        with self._changed:
            self._progress = self._progress if self._unacknowledged else monotonic()
            self._unacknowledged += 1
        try:
            # Without the lock: paho calls `_on_publish` with a lock of its own, which it takes here, too.
            self._client.publish(topic, payload, qos=self._address.qos)
        except ValueError as error:
            raise _no_message(topic, str(error)) from error

    def _wait_until_fewer_than(self, count: int) -> None:
        with self._changed:
            while self._unacknowledged >= count and self._failure is None:
                # Not from now: a broker that does not like a message ends the connection each time it comes.
                remaining_s = self._progress + self._patience_s - monotonic()
                if remaining_s <= 0:
                    why = f"{self._unacknowledged} messages are not acknowledged after {self._patience_s:g} s"
                    raise no_answer(self._address, why + self._ended)
                self._changed.wait(remaining_s)
            self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    # What the client's thread calls.

    def _on_connect(
        self, _client: Client, _data: object, _flags: ConnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        with self._changed:
            if reason.is_failure:
                self._failure = refused(self._address, reason)
            self._allowed = min(UNACKNOWLEDGED, getattr(properties, "ReceiveMaximum", UNACKNOWLEDGED))
            self._changed.notify_all()

    def _on_disconnect(
        self, _client: Client, _data: object, _flags: DisconnectFlags, reason: ReasonCode, _props: Properties | None
    ) -> None:
        self._ended = f" (the connection ended: {reason})"

    def _on_publish(
        self, _client: Client, _data: object, _mid: int, reason: ReasonCode, _properties: Properties | None
    ) -> None:
        with self._changed:
            self._unacknowledged -= 1
            self._progress = monotonic()
            if reason.is_failure:
                self._failure = refused(self._address, reason)
            self._changed.notify_all()


def _no_message(topic: str, why: str) -> InputError:
    remedy = "A topic has 1 to 65,535 bytes and no wildcard, a payload at most 268,435,455 bytes."
    return InputError(f"no message can go to the topic '{topic}': {why}", remedy=remedy)
