"""From a broker into a spool: a message is acknowledged when it is on the disk, not before.

The client's thread takes messages from the network and puts them into a queue; another thread writes what it finds
there, all at once, and then acknowledges it. A crash between the two makes the broker send again what is on the disk
already. Such a copy gets a number of its own: nothing in MQTT 5 tells it from a new message with safety, because
numbers of messages are used again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Queue
from typing import TYPE_CHECKING
from uuid import uuid4

from situ.core.errors import InputError, SituError
from situ.io.mqtt.address import MqttAddress
from situ.io.mqtt.client import ANSWER_S, connect, mqtt_client, no_answer, refused
from situ.io.mqtt.spool import Message, Session, Spool

if TYPE_CHECKING:
    from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

#: Messages that the broker may send before it needs an acknowledgement: so many go to the disk at once.
UNACKNOWLEDGED = 1000
#: Messages that wait for the disk. Those of QoS 0 need no acknowledgement, so only this limits them.
_WAITING = 10_000

_SESSION_TAKEN_OVER = 0x8E

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Received:
    """A message, and what it takes to acknowledge it: numbers mean something on their own connection only."""

    message: Message
    connection: int
    mid: int
    qos: int


class Receiver:
    """Receives from the moment it is made until it is closed; loses and finds the connection without a word."""

    def __init__(self, address: MqttAddress, spool: Spool, answer_s: float = ANSWER_S) -> None:
        self._address, self._spool = address, spool
        self._former = spool.session()
        self._session = _session(address, self._former)
        self._queue: Queue[_Received | None] = Queue(_WAITING)
        self._connection = 0
        self._acknowledging = threading.Lock()
        self._failure: SituError | None = None
        self._closing = False
        self._ready = threading.Event()
        self._client = self._new_client()
        self._writer = threading.Thread(target=self._write, name="mqtt spool", daemon=True)
        self._writer.start()
        try:
            if self._former is None or self._former.client_id != self._session.client_id:
                spool.keep(self._session)  # before the broker begins to keep messages under this name
            connect(self._client, address, clean_start=False, properties=_connect_properties(address))
            if not self._ready.wait(answer_s):
                raise no_answer(address, f"not ready after {answer_s:g} s")
            self.check()
            spool.keep(self._session)  # by now the broker has forgotten the former topic
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """Raises what has stopped the receiver, if anything has."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Stops receiving. The broker keeps what comes from now on, for `session_s` seconds."""
        self._closing = True
        self._queue.put(None)
        self._writer.join()
        self._client.disconnect()
        self._client.loop_stop()

    def _new_client(self) -> Client:
        client = mqtt_client(self._address, self._session.client_id, manual_ack=True)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        return client

    def _fail(self, failure: SituError) -> None:
        self._failure = self._failure or failure
        self._ready.set()

    # What the client's thread calls.

    def _on_connect(
        self, client: Client, _data: object, _flags: ConnectFlags, reason: ReasonCode, _properties: Properties | None
    ) -> None:
        from paho.mqtt.subscribeoptions import SubscribeOptions

        with self._acknowledging:
            self._connection += 1
        if reason.is_failure:
            if self._ready.is_set():  # it was right before, so it may become right again
                _log.warning("%s", refused(self._address, reason))
            else:
                self._fail(refused(self._address, reason))
            return
        if self._former is not None and self._former.topic != self._session.topic:
            client.unsubscribe(self._former.topic)
        # Also where the session is still there: a broker that restarts may have lost it. What is retained comes once.
        once = SubscribeOptions.RETAIN_SEND_IF_NEW_SUB
        client.subscribe(self._address.topic, options=SubscribeOptions(self._address.qos, retainHandling=once))

    def _on_subscribe(
        self, _client: Client, _data: object, _mid: int, reasons: list[ReasonCode], _properties: Properties | None
    ) -> None:
        granted = reasons[0]
        if granted.is_failure:
            self._fail(refused(self._address, granted))
        elif granted.value < self._address.qos:
            remedy = "It would lose messages. If that is fine, write ?qos=0 behind the topic."
            self._fail(InputError(f"the MQTT broker at {self._address.shown} allows QoS 0 only", remedy=remedy))
        self._ready.set()

    def _on_disconnect(
        self, _client: Client, _data: object, _flags: DisconnectFlags, reason: ReasonCode, _props: Properties | None
    ) -> None:
        with self._acknowledging:
            self._connection += 1
        if reason.value == _SESSION_TAKEN_OVER:
            # Connecting again would take it back, and so on for ever.
            remedy = "Stop one of the two, or give each its own client_id."
            cause = f"another client came to {self._address.shown} as '{self._session.client_id}'"
            self._fail(InputError(cause, remedy=remedy))
            self._client.disconnect()
        elif not self._closing:
            # Some brokers do not say that another client came. Then the two take turns, and this is all one sees.
            _log.warning(
                "the connection of '%s' to %s is lost (%s); trying again",
                self._session.client_id,
                self._address.shown,
                reason,
            )

    def _on_message(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        if not self._closing:
            received = Message(message.topic, bytes(message.payload))
            self._queue.put(_Received(received, self._connection, message.mid, message.qos))

    # What the thread of the disk does.

    def _write(self) -> None:
        for batch in self._batches():
            if self._failure is not None:
                continue  # taken from the queue, so that nobody waits for it; the broker keeps it
            try:
                self._spool.append([received.message for received in batch])
            except (OSError, ValueError) as error:
                remedy = "Make room or repair the disk, and start the query again: the broker has kept the messages."
                self._fail(InputError(f"the spool {self._spool.directory} cannot be written: {error}", remedy=remedy))
            else:
                self._acknowledge(batch)

    def _batches(self) -> Iterator[list[_Received]]:
        """What is in the queue, again and again: at least one message, and all that came while the disk was busy."""
        ended = False
        while not ended:
            batch: list[_Received] = []
            received = self._queue.get()
            while received is not None:
                batch.append(received)
                if len(batch) == UNACKNOWLEDGED or self._queue.empty():  # this thread alone takes from it
                    break
                received = self._queue.get()
            else:
                ended = True
            if batch:
                yield batch

    def _acknowledge(self, batch: list[_Received]) -> None:
        # In a new session, the same number may belong to a message that is not on the disk.
        with self._acknowledging:
            for received in batch:
                if received.connection == self._connection:
                    self._client.ack(received.mid, received.qos)


def _session(address: MqttAddress, former: Session | None) -> Session:
    """The session to go on with: that of the client which the address names, else of the same client as before."""
    made_up = former.client_id if former else f"situ{uuid4().hex[:18]}"  # every broker takes 23 characters
    return Session(address.client_id or made_up, address.topic)


def _connect_properties(address: MqttAddress) -> Properties:
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = address.session_s
    properties.ReceiveMaximum = UNACKNOWLEDGED
    return properties
