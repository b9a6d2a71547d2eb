"""Frames between two endpoints in one process: who may send, what is refused, connections that come back."""

from __future__ import annotations

import queue
import random
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from situ.core.errors import InputError, SituError
from situ.runtime.sites.wire.endpoint import Endpoint
from situ.runtime.sites.wire.frames import SCHEMA, Frame, FrameError, to_wire
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.outgoing import PeerConnection, SiteAddress, ask, client_of
from situ.runtime.sites.wire.proxy import LinkQuality, Proxies
from situ.service import certificates
from situ.service.certificates import CONTROL, Credentials, identity_of, make_keys

SITES = ("edge", "hub", "root")
WAIT_S = 30


class Received:
    """What an endpoint was given, and what a connection told."""

    def __init__(self) -> None:
        self.frames: queue.Queue[tuple[str, Frame]] = queue.Queue()
        self.told: queue.Queue[str] = queue.Queue()

    def receive(self, peer: str, frame: Frame) -> None:
        if frame.header.get("kind") == "wrong":
            raise FrameError("a wrong kind")
        self.frames.put((peer, frame))

    def answer(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        if name != "status":
            raise InputError(f"no request {name!r}", remedy="Ask for status.")
        return {"name": name, "request": request}

    def outgoing(self, identities: Identities, port: int) -> PeerConnection:
        address = SiteAddress("127.0.0.1", port)
        told = self.told.put
        failed = lambda error: told(f"failed: {error}")  # noqa: E731
        return PeerConnection(identities, "hub", address, lambda: told("open"), told, failed, random.Random(1))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_keys(SITES, tmp_path_factory.mktemp("network") / "keys")


def identities(keys: dict[str, Path], site: str, *, as_site: str | None = None) -> Identities:
    credentials = Credentials.read(keys[site], identity_of(site) if site else CONTROL)
    return Identities.of(site if as_site is None else as_site, SITES, credentials)


@pytest.fixture
def received() -> Received:
    return Received()


@pytest.fixture
def hub(keys: dict[str, Path], received: Received) -> Iterator[Endpoint]:
    endpoint = Endpoint("127.0.0.1", 0, identities(keys, "hub"), received.receive, received.answer)
    yield endpoint
    endpoint.close()


def test_frames_arrive_in_order_with_the_name_in_the_certificate(
    keys: dict[str, Path], hub: Endpoint, received: Received
) -> None:
    edge = received.outgoing(identities(keys, "edge"), hub.port)
    assert received.told.get(timeout=WAIT_S) == "open"
    sent = [Frame({"number": n}, bytes([n]) * n * 1000) for n in range(20)]
    assert all(edge.send(partial(Frame, frame.header, frame.body)) for frame in sent)
    assert [received.frames.get(timeout=WAIT_S) for _ in sent] == [("edge", frame) for frame in sent]
    edge.close()


def test_a_frame_that_is_needless_by_its_turn_is_left_out(
    keys: dict[str, Path], hub: Endpoint, received: Received
) -> None:
    edge = received.outgoing(identities(keys, "edge"), hub.port)
    assert received.told.get(timeout=WAIT_S) == "open"
    edge.send(lambda: None)
    edge.send(lambda: Frame({"number": 1}))
    assert received.frames.get(timeout=WAIT_S) == ("edge", Frame({"number": 1}))
    edge.close()


def test_a_frame_that_cannot_be_made_is_told_and_nothing_is_sent_after_it(
    keys: dict[str, Path], hub: Endpoint, received: Received
) -> None:
    edge = received.outgoing(identities(keys, "edge"), hub.port)
    assert received.told.get(timeout=WAIT_S) == "open"

    def wrong() -> Frame:
        raise InputError("the disk is gone")

    edge.send(wrong)
    assert "failed: the disk is gone" in received.told.get(timeout=WAIT_S)
    assert not edge.send(lambda: Frame({"number": 1}))
    edge.close()


def test_a_refused_frame_closes_its_own_connection_alone(
    keys: dict[str, Path], hub: Endpoint, received: Received
) -> None:
    edge, other = received.outgoing(identities(keys, "edge"), hub.port), Received()
    root = other.outgoing(identities(keys, "root"), hub.port)
    assert received.told.get(timeout=WAIT_S) == other.told.get(timeout=WAIT_S) == "open"
    edge.send(lambda: Frame({"kind": "wrong"}))
    assert "a wrong kind" in received.told.get(timeout=WAIT_S)
    assert received.told.get(timeout=WAIT_S) == "open"  # it came back
    root.send(lambda: Frame({"kind": "right"}))
    assert received.frames.get(timeout=WAIT_S)[0] == "root"
    assert other.told.empty()
    assert hub.refused == {"a wrong kind": 1}
    edge.close()
    root.close()


def test_what_is_no_frame_is_refused(keys: dict[str, Path], hub: Endpoint) -> None:
    hello = flight.FlightDescriptor.for_command(b'{"from": "edge"}')
    other_schema = pa.schema([("body", pa.string())])
    whole, header = to_wire(Frame({"kind": "right"}, b"body"))
    two = pa.RecordBatch.from_pydict({"body": [b"a", b"b"]}, schema=SCHEMA)
    wrong: list[tuple[Any, pa.Schema, pa.RecordBatch, bytes, str]] = [
        (hello, SCHEMA, whole, b"{no json", "no JSON object"),
        (hello, SCHEMA, whole, b"[1]", "no JSON object"),
        (hello, SCHEMA, whole, b'{"a": NaN}', "no JSON object"),
        (hello, SCHEMA, whole, b'{"a": ' + b"[" * 50 + b"]" * 50 + b"}", "nested too deeply"),
        (hello, SCHEMA, whole, b'"' + b"x" * (1 << 20) + b'"', "a header has"),
        (hello, SCHEMA, to_wire(Frame({}, bytes(1)))[0], b"", "is no JSON|one body"),
        (hello, SCHEMA, two, header, "one body with a header"),
        (hello, other_schema, pa.RecordBatch.from_pydict({"body": ["a"]}, schema=other_schema), header, "one body"),
        (flight.FlightDescriptor.for_command(b"{}"), SCHEMA, whole, header, "begins with the name"),
        (flight.FlightDescriptor.for_command(b'{"from": "root"}'), SCHEMA, whole, header, "not that of 'root'"),
        (flight.FlightDescriptor.for_command(b'{"from": "x"}'), SCHEMA, whole, header, "no site of this network"),
    ]
    for descriptor, schema, batch, metadata, reason in wrong:
        with pytest.raises(flight.FlightError, match=reason):
            send_raw(keys, hub, descriptor, schema, batch, metadata)
    assert hub.refused.total() == len(wrong)


def test_a_frame_that_is_too_large_is_refused(
    keys: dict[str, Path], hub: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("situ.runtime.sites.wire.frames.MAX_BODY_BYTES", 10_000)
    large = pa.RecordBatch.from_pydict({"body": [bytes(20_000)]}, schema=SCHEMA)
    with pytest.raises(flight.FlightError, match="at most 10,000 are taken"):
        send_raw(keys, hub, flight.FlightDescriptor.for_command(b'{"from": "edge"}'), SCHEMA, large, b"{}")
    with pytest.raises(FrameError, match="too large to send"):
        to_wire(Frame({}, bytes(20_000)))


def send_raw(
    keys: dict[str, Path], hub: Endpoint, descriptor: Any, schema: pa.Schema, batch: pa.RecordBatch, metadata: bytes
) -> None:
    with client_of(identities(keys, "edge"), "hub", SiteAddress("127.0.0.1", hub.port)) as client:
        writer, answers = client.do_put(descriptor, schema)
        with writer:
            answers.read()
            writer.write_with_metadata(batch, metadata)
            writer.done_writing()
            while answers.read() is not None:
                pass


def test_a_stranger_is_refused(keys: dict[str, Path], hub: Endpoint, received: Received, tmp_path: Path) -> None:
    strangers = make_keys(SITES, tmp_path / "other network")
    mixed = Credentials.read(strangers["edge"], identity_of("edge"))
    own_network = identities(keys, "edge").credentials
    assert own_network is not None
    # It trusts the network's authority, but shows a certificate of another one.
    shows_other = Credentials(own_network.network, mixed.certificate, mixed.key, mixed.identity, mixed.expires)
    for stranger in (
        identities(strangers, "edge"),
        Identities.of("edge", SITES, shows_other),
        Identities.of("edge", SITES, None),
    ):
        outgoing = received.outgoing(stranger, hub.port)
        reason = received.told.get(timeout=WAIT_S)
        outgoing.close()
        assert "another network" in reason
    assert received.frames.empty()


def test_an_expired_certificate_is_refused_at_the_handshake(
    received: Received, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an authority whose own certificate holds: that of a site, and that of the site that it calls."""
    long_ago = datetime.now(UTC) - timedelta(days=10)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return long_ago

    with monkeypatch.context() as patch:
        patch.setattr(certificates, "datetime", Clock)
        make_keys([], tmp_path / "keys")
        for name in certificates.AUTHORITY_FILES:
            (tmp_path / "old").mkdir(exist_ok=True)
            shutil.copy(tmp_path / "keys" / name, tmp_path / "old")
        expired = make_keys(SITES, tmp_path / "old", days=1)
    keys = make_keys(SITES, tmp_path / "keys")
    with pytest.raises(InputError, match="the certificate has expired"):
        Credentials.read(expired["edge"], identity_of("edge"))

    def once_valid(site: str) -> Identities:
        return Identities.of(site, SITES, Credentials.read(expired[site], identity_of(site), now=long_ago))

    hub = Endpoint("127.0.0.1", 0, identities(keys, "hub"), received.receive, received.answer)
    edge = received.outgoing(once_valid("edge"), hub.port)
    assert "does not take this site's certificate (expired" in received.told.get(timeout=WAIT_S)
    edge.close()
    hub.close()
    hub = Endpoint("127.0.0.1", 0, once_valid("hub"), received.receive, received.answer)
    edge = received.outgoing(identities(keys, "edge"), hub.port)
    assert received.told.get(timeout=WAIT_S) == "its certificate has expired"
    edge.close()
    hub.close()
    assert received.frames.empty()


def test_only_control_may_ask(keys: dict[str, Path], hub: Endpoint) -> None:
    address = SiteAddress("127.0.0.1", hub.port)
    control = identities(keys, "")
    assert ask(control, "hub", address, "status", {"of": 1}) == {"name": "status", "request": {"of": 1}}
    with pytest.raises(SituError, match="no request 'stop'"):
        ask(control, "hub", address, "stop", {})
    with pytest.raises(InputError, match="not that of 'control'"):
        ask(identities(keys, "edge"), "hub", address, "status", {})
    with pytest.raises(InputError, match="another site has this address"):
        ask(control, "root", address, "status", {})
    with pytest.raises(InputError, match="nobody listens there"):
        ask(control, "hub", SiteAddress("127.0.0.1", 1), "status", {})


def test_without_tls_nothing_leaves_the_machine(received: Received) -> None:
    plain = Identities.of("hub", SITES, None)
    with pytest.raises(InputError, match="--insecure is for this machine alone"):
        Endpoint("0.0.0.0", 0, plain, received.receive, received.answer)
    with pytest.raises(InputError, match="--insecure is for this machine alone"):
        client_of(plain, "edge", SiteAddress("192.0.2.1", 7400))


def test_a_cut_link_holds_frames_and_a_broken_one_comes_back(
    keys: dict[str, Path], hub: Endpoint, received: Received
) -> None:
    proxies = Proxies()
    proxy = proxies.open(SiteAddress("127.0.0.1", hub.port), LinkQuality(latency_ms=1, jitter_ms=2, bytes_per_s=1e8))
    edge = received.outgoing(identities(keys, "edge"), proxy.address.port)
    assert received.told.get(timeout=WAIT_S) == "open"
    proxy.cut()
    sent = [Frame({"number": n}, bytes(100_000)) for n in range(5)]
    for frame in sent:
        edge.send(partial(Frame, frame.header, frame.body))
    proxy.heal()
    assert [received.frames.get(timeout=WAIT_S)[1] for _ in sent] == sent
    assert proxy.bytes > 500_000
    proxy.cut(reset=True)
    assert received.told.get(timeout=WAIT_S) != "open"
    proxy.heal()
    while received.told.get(timeout=WAIT_S) != "open":
        pass
    edge.send(lambda: Frame({"number": 5}))
    assert received.frames.get(timeout=WAIT_S)[1].header == {"number": 5}
    edge.close()
    proxies.close()
