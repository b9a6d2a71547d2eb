"""Connections to other sites: each with a thread, which connects again when a connection breaks."""

from __future__ import annotations

import json
import queue
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.flight as flight

from situ.core.errors import InputError, SituError
from situ.runtime.sites.wire.frames import SCHEMA, Frame, to_wire
from situ.runtime.sites.wire.identity import CONTROL_PEER, PING, Identities, certified_name, require_loopback

#: Between two attempts to connect: doubled from the first to the last, less up to a half by chance.
FIRST_WAIT_S, LAST_WAIT_S = 0.05, 2.0
_CONTROL_ANSWER_S = 30.0
#: Words to a site and back, of which the fastest says how far away it is.
_PINGS = 5
#: How long the other side may take to end a connection that this side has ended.
_LAST_WORD_S = 1.0


@dataclass(frozen=True, slots=True)
class SiteAddress:
    """Host and port at which a site listens.

    >>> SiteAddress.parse("10.0.0.3:7400"), str(SiteAddress("::1", 7400))
    (SiteAddress(host='10.0.0.3', port=7400), '[::1]:7400')
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> SiteAddress:
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not (port.isascii() and port.isdigit() and int(port) < 65536):
            raise InputError(f"'{text}' is no address of a site", remedy="Write it as HOST:PORT, as in 10.0.0.3:7400.")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


#: A frame that is to be sent, made in the thread that sends it: its rows may still have to be read from a disk.
MadeFrame: TypeAlias = Callable[[], Frame | None]
#: A frame as it goes over the wire: its rows, and its metadata.
_Wired: TypeAlias = tuple[pa.RecordBatch, bytes]


@dataclass(frozen=True, slots=True)
class _Ended:
    """Comes after the frames of a connection. Without a reason, it ends because it is to be closed."""

    reason: str


@dataclass
class PeerConnection:
    """Sends frames to one site, in order, as long as a connection lasts.

    `opened` is called when a connection is there, before anything is sent over it; `broken`, with the reason, when it
    is there no more or cannot be made. What was given to `send` since may or may not have arrived: whoever sends
    repeats it, because only acknowledgements tell. Frames given while there is no connection are dropped. `failed` is
    told what is no matter of the connection: then nothing is sent any more.
    """

    identities: Identities
    site: str
    address: SiteAddress
    opened: Callable[[], None]
    broken: Callable[[str], None]
    failed: Callable[[Exception], None]
    jitter: random.Random = field(default_factory=random.Random)
    #: What was sent, over all connections.
    frames: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        self._frames: queue.SimpleQueue[MadeFrame | _Ended] = queue.SimpleQueue()
        self._is_up = threading.Event()
        self._closed = threading.Event()
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"situ-to-{self.site}", daemon=True)
        self._thread.start()

    @property
    def is_up(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._is_up.is_set()

    def send(self, make: MadeFrame) -> bool:
        """Gives a frame to the connection, which makes it when it is its turn, unless it is needless by then; False
        where there is no connection."""
        if self._is_up.is_set():
            self._frames.put(make)
        return self._is_up.is_set()

    def try_now(self) -> None:
        """The site is there, as whoever heard from it knows: if there is no connection, waits no longer to make one."""
        if not self._is_up.is_set():
            self._hurry.set()

    def round_trip_s(self) -> float | None:
        """How long a word to the site and back takes: the shortest of some, over a connection of its own; None where
        nobody answers."""
        word = flight.Action(PING, json.dumps({"from": self.identities.own}).encode())
        options = flight.FlightCallOptions(timeout=_CONTROL_ANSWER_S)
        took = []
        try:
            with client_of(self.identities, self.site, self.address) as client:
                list(client.do_action(word, options))  # this one connects, too
                for _ in range(_PINGS):
                    begin = time.perf_counter()
                    list(client.do_action(word, options))
                    took.append(time.perf_counter() - begin)
        except (pa.ArrowException, flight.FlightError, OSError):
            return None
        return min(took)

    def close(self) -> None:
        """Sends what was given, if the connection takes it soon, and ends."""
        self._closed.set()
        self._hurry.set()
        self._frames.put(_Ended(""))
        self._thread.join(2.0)

    def _run(self) -> None:
        wait_s = FIRST_WAIT_S
        while not self._closed.is_set():
            self._hurry.clear()
            try:
                self._connection()
            except (pa.ArrowException, flight.FlightError, OSError) as error:
                wait_s = FIRST_WAIT_S if self._is_up.is_set() else min(2 * wait_s, LAST_WAIT_S)
                self._is_up.clear()
                self._drop_frames()
                if not self._closed.is_set():
                    self.broken(reason_of(error))
            pause_s = wait_s * self.jitter.uniform(0.5, 1.0)
            self._closed.wait(min(pause_s, FIRST_WAIT_S))  # however often a site is heard that cannot be reached
            self._hurry.wait(max(pause_s - FIRST_WAIT_S, 0.0))

    def _connection(self) -> None:
        """Connects, sends until told to end, and closes. Raises what breaks it."""
        with client_of(self.identities, self.site, self.address) as client:
            hello = json.dumps({"from": self.identities.own}).encode()
            writer, answers = client.do_put(flight.FlightDescriptor.for_command(hello), SCHEMA)
            with writer:
                if answers.read() is None:  # the other side says a word when it knows who calls
                    raise ConnectionError("it ended the connection")
                self._drop_frames()
                if self._closed.is_set():  # and the word to end was dropped with the rest
                    return
                self._is_up.set()
                watch = threading.Thread(target=self._watch, args=(answers,), name="situ-watch", daemon=True)
                watch.start()
                self.opened()
                while not isinstance(make := self._frames.get(), _Ended):
                    if (parts := self._made(make)) is None:
                        continue
                    batch, header = parts
                    writer.write_with_metadata(batch, header)
                    self.frames, self.bytes = self.frames + 1, self.bytes + batch.nbytes + len(header)
                if make.reason:
                    raise ConnectionError(make.reason)
                writer.done_writing()
                watch.join(_LAST_WORD_S)  # two that wait for the last word would wait for each other

    def _made(self, make: MadeFrame) -> _Wired | None:
        """A frame as it goes over the wire; None if it is needless by now, or cannot be made."""
        try:
            frame = make()
            return None if frame is None else to_wire(frame)
        except Exception as error:  # nobody would hear of it otherwise, and all would wait for this site
            self._is_up.clear()
            self._drop_frames()
            self._closed.set()
            self._frames.put(_Ended(""))
            self.failed(error)
            return None

    def _watch(self, answers: Any) -> None:
        """Notices the end of a connection over which nothing is sent. The other side says nothing until then."""
        try:
            answers.read()
            reason = "it ended the connection"
        except (pa.ArrowException, flight.FlightError, OSError) as error:
            reason = reason_of(error)
        self._frames.put(_Ended(reason))

    def _drop_frames(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._frames.get_nowait()


def client_of(identities: Identities, site: str, address: SiteAddress) -> Any:
    """A Flight client for a site. It fails at once where nobody listens: who waits, and how long, is decided here."""
    options = [
        # Channels of one process would else share connections, and how long they wait until the next attempt.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.min_reconnect_backoff_ms", 10_000),  # which is also how long an attempt may take, on a busy machine
        ("grpc.max_reconnect_backoff_ms", 500),
    ]
    secret = identities.credentials
    if secret is None:
        require_loopback(address.host)
        return flight.FlightClient(f"grpc+tcp://{address}", generic_options=options)
    return flight.FlightClient(
        f"grpc+tls://{address}",
        tls_root_certs=secret.network,
        cert_chain=secret.certificate,
        private_key=secret.key,
        override_hostname=certified_name(site),
        generic_options=options,
    )


def ask(identities: Identities, site: str, address: SiteAddress, name: str, request: dict[str, Any]) -> dict[str, Any]:
    """What a site answers to a request of control. InputError if it cannot be reached, SituError if it refuses."""
    body = json.dumps({"from": CONTROL_PEER, "request": request}).encode()
    try:
        with client_of(identities, site, address) as client:
            options = flight.FlightCallOptions(timeout=_CONTROL_ANSWER_S)
            (result,) = client.do_action(flight.Action(name, body), options)
    except (pa.ArrowException, flight.FlightError, OSError) as error:
        raise InputError(
            f"site {site} at {address} does not answer: {reason_of(error)}",
            remedy="Is it running? `situ site` starts it.",
        ) from None
    answer = json.loads(result.body.to_pybytes())
    if "error" in answer:
        told = answer["error"]
        raise SituError(told["cause"], place=told["place"] or f"site {site}", remedy=told["remedy"])
    return dict(answer["answer"])


def reason_of(error: BaseException) -> str:
    """Why a connection was not made or has ended, in words: what gRPC says has much around it."""
    text = str(error)
    sayings = {
        "certificate has expired": "its certificate has expired",
        "certificate verify failed": "its certificate is of another network",
        "is not in peer certificate": "another site has this address",
        "Connection refused": "nobody listens there",
        "Socket closed": "it ended the connection; where it never takes one, it is another network's, "
        "or does not take this site's certificate (expired, or of another network)",
    }
    for part, meaning in sayings.items():
        if part in text:
            return meaning
    return text.partition(". gRPC client debug context")[0].partition(". Detail:")[0].strip() or type(error).__name__
