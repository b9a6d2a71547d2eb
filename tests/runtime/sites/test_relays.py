"""Ways over relays: one copy per link, for all who read; what is wrong with a way is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from situ.core.time import BEGINNING
from situ.io.rows.conform import conform
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.network import Link, Network, Site
from situ.runtime.sites import relays
from situ.runtime.sites.actions import Received, Send
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.deployment import Deployment
from situ.runtime.sites.messages import LogBatch, LogName, MessageError, Probe, Relayed, message_of, message_to_parts
from situ.runtime.sites.relays import LinkCounts
from situ.runtime.sites.simulation.world import Faults, World
from situ.runtime.sites.ways import with_ways

QUERY = """
stream Ping(n int, t int) time t in s order n
subscribe Left detect Ping as p assign n = p.n
subscribe Right detect Ping as p assign n = p.n
"""
NETWORK = Network(
    (Site("edge"), Site("mid"), Site("left"), Site("right")),
    (Link("edge", "mid", 1.0), Link("mid", "left", 1.0), Link("mid", "right", 1.0)),
)
PINGS = 40


def run() -> World:
    """Pings of the edge, read at two sites behind one relay."""
    plan = DeployedPlan(
        1,
        QUERY,
        {"Ping": ("edge",)},
        {"Left": OperatorPlace("left"), "Right": OperatorPlace("right")},
        ("left",),
        bounded=True,
    )
    plan = with_ways(plan, NETWORK)
    (stream,) = resolve(parse(QUERY)).streams
    pieces = [conform(pa.table({"n": [n], "t": [n]}), stream) for n in range(PINGS)]
    # All sites are there when the first one comes, and messages of one delay do not overtake each other: so nothing is
    # missed and sent again.
    faults, key = Faults(delay_s=(0.001, 0.001), commit_s=(0.001, 0.001)), ("edge", "Ping", "s")
    due = {key: [1_010.0 + n / 100 for n in range(PINGS)]}
    world = World(NETWORK.names, {key: pieces}, seed=1, faults=faults, due=due)
    world.deploy(Deployment(plan, plan.sites, "one"))
    world.run()
    return world


def sent(world: World, start: str, to: str) -> LinkCounts:
    site = world.sites[start].site
    assert site is not None
    return site.relays.sent[to]


def test_what_two_sites_read_crosses_a_link_once() -> None:
    world = run()
    assert sent(world, "edge", "mid").events == PINGS
    assert sent(world, "mid", "left").events == 2 * PINGS  # and what the right has found
    assert sent(world, "mid", "right").events == PINGS
    assert not any(c.repeats for m in world.sites.values() if m.site for c in m.site.relays.sent.values())
    assert {*sent(world, "edge", "mid").__slots__} >= {"events", "requests", "questions", "acknowledgements"}


def test_a_relay_that_forgets_a_reader_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    by_next = relays._by_next
    monkeypatch.setattr(relays, "_by_next", lambda onward: dict([*by_next(onward).items()][:1]))
    world = run()
    assert sent(world, "edge", "mid").repeats > 0


PING = LogName("events", "Ping", "edge", 1)


def test_ways_that_are_none_are_refused() -> None:
    world = run()
    left = world.sites["left"].site
    assert left is not None
    batch = LogBatch(PING, "edge1", 0, 0, BEGINNING)
    before = left.conversation.refusals
    for message in (
        Relayed("edge", ((),), batch),  # of a log, by somebody who is not on the way
        Relayed("left", ((),), Probe(PING)),
        Relayed("edge", ((), ()), Probe(PING)),
    ):
        left.handle(Received("right", message), world.now)
    assert left.conversation.refusals == before + 3


def test_a_relay_hands_on_what_it_does_not_know() -> None:
    world = run()
    mid = world.sites["mid"].site
    assert mid is not None
    message = Relayed("elsewhere", (("right", "far"),), Probe(LogName("events", "Other", "far", 9)))
    actions = mid.handle(Received("edge", message), world.now)
    assert [a for a in actions if isinstance(a, Send)] == [
        Send("right", Relayed("elsewhere", (("far",),), message.message))
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"onward": []},
        {"onward": [["a"] * 65]},
        {"onward": [[1]]},
        {"onward": "left"},
        {"origin": 5},
        {"message": {"kind": "go", "version": 1, "digest": ""}},
        {"message": {"kind": "relayed", "origin": "a", "onward": [[]], "message": {"kind": "statusquestion"}}},
        {"more": 1},
    ],
)
def test_a_relayed_message_that_is_none_is_refused(wrong: dict[str, object]) -> None:
    header, body = message_to_parts(Relayed("edge", (("left",), ()), Probe(PING)))
    assert message_of(header, body) == Relayed("edge", (("left",), ()), Probe(PING))
    with pytest.raises(MessageError):
        message_of(header | wrong, body)
