"""The endpoint of a site: takes frames from other sites, and requests from whoever may control it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from situ.core.errors import InputError, SituError
from situ.runtime.sites.wire.frames import Frame, FrameError, from_wire, json_object
from situ.runtime.sites.wire.identity import CONTROL_PEER, PING, Identities, require_loopback
from situ.runtime.sites.wire.producing import NotNowError, OpenPushed, Pushed, serve_producer
from situ.runtime.sites.wire.reading import OFFSETS, PARTS, LogServer, ranges_of_json

#: Reasons for refusals that are counted apart.
_REASONS = 100
#: What the endpoint does with a frame of a peer; FrameError or InputError refuses it, and closes the connection.
Receive = Callable[[str, Frame], None]
#: Answers a request of control, by its name: an object in, an object out.
Answer = Callable[[str, dict[str, Any]], dict[str, Any]]


def no_producers(producer: str, stream: str) -> Pushed:
    raise InputError("this site takes no rows of producers")


class Endpoint:
    """Listens at an address until it is closed. `receive` is called in a thread for each connection.

    `receive` may wait: nothing more is read from that peer meanwhile, which holds back whoever sends.
    """

    def __init__(
        self,
        host: str,
        port: int,
        identities: Identities,
        receive: Receive,
        answer: Answer,
        open_pushed: OpenPushed = no_producers,
        logs: LogServer | None = None,
    ) -> None:
        self.refused: Counter[str] = Counter()
        try:
            where = _location(host, port, identities)
            self._server = _Server(where, self, identities, receive, answer, open_pushed, logs)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"cannot listen at {host}:{port}: {error}",
                remedy="Give an address of this machine, and a port that is free.",
            ) from None
        self.host, self.port = host, int(self._server.port)

    def close(self) -> None:
        """Takes no more connections. Those that are open end when their peers close them, or with the process: Flight
        waits for them, so this does not."""
        threading.Thread(target=self._server.shutdown, name="situ-endpoint-closes", daemon=True).start()


class _Server(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    def __init__(
        self,
        location: str,
        endpoint: Endpoint,
        identities: Identities,
        receive: Receive,
        answer: Answer,
        open_pushed: OpenPushed,
        logs: LogServer | None,
    ) -> None:
        self._logs = logs
        self._endpoint, self._identities, self._receive, self._answer = endpoint, identities, receive, answer
        self._open_pushed = open_pushed
        secret = identities.credentials
        tls: dict[str, Any] = {}
        if secret is not None:
            chain = [(secret.certificate, secret.key)]
            tls = {"tls_certificates": chain, "verify_client": True, "root_certificates": secret.network}
        super().__init__(location, **tls)

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Frames of one peer or producer, until it closes the connection."""
        with _refusals(self._endpoint):
            said = json_object(descriptor.command)
            if "stream" in said:
                producer = self._identities.producer(context.peer_identity(), str(said.get("from")))
                frames = (from_wire(batch, header) for batch, header in _chunks(reader))
                serve_producer(self._open_pushed(producer, str(said["stream"])), frames, writer)
                return
            peer = self._peer(context, descriptor.command)
            if peer == CONTROL_PEER:
                raise FrameError("control sends requests, not frames")
            writer.write(b"welcome")
            for batch, header in _chunks(reader):
                self._receive(peer, from_wire(batch, header))

    def do_action(self, context: Any, action: Any) -> list[bytes]:
        """A request of control; its answer is one object, or the error that it ended in. Any site may ping."""
        with _refusals(self._endpoint):
            request = json_object(action.body.to_pybytes())
            peer = self._peer(context, json.dumps({"from": request.get("from")}).encode())
            if action.type == PING:
                return [b"{}"]
            is_query = action.type in (OFFSETS, PARTS)
            if is_query:
                self._require_query(peer)
            elif peer != CONTROL_PEER:
                raise FrameError("only a certificate for control may ask this")
        ask = self._logs.answer if is_query and self._logs is not None else self._answer
        try:
            answer = {"answer": ask(action.type, dict(request.get("request", {})))}
        except SituError as error:
            answer = {"error": {"cause": error.cause, "place": str(error.place or ""), "remedy": error.remedy}}
        return [json.dumps(answer, allow_nan=False).encode()]

    def do_get(self, context: Any, ticket: Any) -> Any:
        """Rows of logs, for a query of this site."""
        with _refusals(self._endpoint):
            said = json_object(ticket.ticket)
            self._require_query(self._peer(context, json.dumps({"from": said.get("from")}).encode()))
            assert self._logs is not None
            try:
                return self._logs.rows(ranges_of_json(said.get("ranges", [])))
            except (TypeError, ValueError):
                raise FrameError("these are no ranges of logs") from None

    def _require_query(self, peer: str) -> None:
        if self._logs is None or peer != self._identities.own:
            raise FrameError("only a query of this site may read its logs")

    def _peer(self, context: Any, said: bytes) -> str:
        name = json_object(said).get("from")
        if not isinstance(name, str):
            raise FrameError("a connection begins with the name of who opens it")
        return self._identities.peer(context.peer_identity(), name)


def _location(host: str, port: int, identities: Identities) -> str:
    if identities.credentials is None:
        require_loopback(host)
    scheme = "grpc+tcp" if identities.credentials is None else "grpc+tls"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _chunks(reader: Any) -> Iterator[tuple[pa.RecordBatch | None, pa.Buffer | None]]:
    while True:
        try:
            chunk = reader.read_chunk()
        except StopIteration:
            return
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise FrameError(f"what came is not Arrow: {error}") from None
        yield chunk.data, chunk.app_metadata


@contextmanager
def _refusals(endpoint: Endpoint) -> Iterator[None]:
    """Counts what is refused, by its reason, and tells the peer."""
    try:
        yield
    except NotNowError as error:
        raise flight.FlightUnavailableError(str(error)) from None
    except SituError as error:
        is_known = error.cause in endpoint.refused or len(endpoint.refused) < _REASONS
        endpoint.refused[error.cause if is_known else "others"] += 1
        raise flight.FlightServerError(str(error)) from None
