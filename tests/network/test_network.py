"""What a network is, and what it is not."""

from __future__ import annotations

import math
import pickle

import pytest

from network.networks import line
from situ.network import network as module
from situ.network.network import Link, Network, NetworkError, Site

AB = (Site("a"), Site("b"))


def test_sites_have_numbers_and_neighbours() -> None:
    network = Network(tuple(map(Site, "abcd")), (Link("d", "b", 1), Link("b", "a", 1), Link("c", "b", 1)))
    assert network.names == ("a", "b", "c", "d")
    assert network.number("c") == 2
    assert network.neighbours(1).tolist() == [0, 2, 3]
    assert network.neighbours(3).tolist() == [1]


def test_one_site_is_a_network() -> None:
    network = Network((Site("alone"),), ())
    assert network.ways_from(0).path(0) == [0]
    assert network.neighbours(0).tolist() == []
    assert network.ways_among(None).hops.tolist() == [[0]]


def test_an_unknown_site_is_named_with_a_suggestion() -> None:
    network = Network((Site("Paris"), Site("Athens")), (Link("Paris", "Athens", 10),))
    with pytest.raises(NetworkError, match=r"no site 'Pariss'.\n.*Did you mean 'Paris'\?"):
        network.number("Pariss")


def test_of_many_sites_only_some_are_listed() -> None:
    names = [f"site{number}" for number in range(300)]
    network = Network(tuple(map(Site, names)), tuple(Link("site0", name, 1) for name in names[1:]))
    with pytest.raises(NetworkError, match=r"There are 300 names. Did you mean 'site17'\?"):
        network.number("site_17")
    with pytest.raises(NetworkError) as error:
        network.number("Q")
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("sites", "links", "message"),
    [
        ((), (), "no sites"),
        ((Site("a"), Site("a")), (), "site 'a': two sites have this name"),
        (AB, (Link("a", "bb", 1),), r"link 'a' - 'bb': there is no site 'bb'.\n.*Did you mean 'b'\?"),
        (AB, (Link("a", "a", 1),), "link 'a' - 'a': leads from a site to itself"),
        (AB, (Link("a", "b", 1), Link("b", "a", 2)), "link 'b' - 'a': joins two sites that another link joins"),
        (AB, (Link("a", "b", -1),), "link 'a' - 'b': latency_ms is -1"),
        (AB, (Link("a", "b", math.nan),), "latency_ms is nan"),
        (AB, (Link("a", "b", math.inf),), "latency_ms is inf.\n.*from 0 to 86,400,000"),
        (AB, (Link("a", "b", 1, hops=-1),), "hops is -1"),
        (AB, (Link("a", "b", 1, hops=0.5),), "hops is 0.5.\n.*whole number"),  # type: ignore[arg-type]
        (AB, (Link("a", "b", 1, hops=10**30),), "hops is 1000"),
        (AB, (Link("a", "b", 1, price=math.nan),), "price is nan"),
        (AB, (Link("a", "b", 1, price=-0.1),), "price is -0.1"),
        (AB, (Link("a", "b", 1, capacity_per_s=-5),), "capacity_per_s is -5"),
        (AB, (Link("a", "b", 1, capacity_per_s=math.nan),), "capacity_per_s is nan"),
        (AB, (Link("a", "b", 1, capacity_per_s=0),), "capacity_per_s is 0: nothing can pass"),
        ((Site("a", channel_per_s=0),), (), "channel_per_s is 0: nothing can pass"),
        ((Site("a", channel_per_s=-1),), (), "channel_per_s is -1"),
        ((Site("a", channel_per_s=math.nan),), (), "channel_per_s is nan"),
        ((Site("a", channel_per_s=math.inf),), (), "channel_per_s is inf"),
        ((Site("a", x=1.0),), (), "site 'a': has one coordinate only"),
        ((Site("a", math.nan, 0.0),), (), "site 'a': lies at"),
        ((Site("a", operators=-1),), (), "operators is -1"),
        ((Site("a", load_per_s=math.nan),), (), "load_per_s is nan"),
    ],
)
def test_errors(sites: tuple[Site, ...], links: tuple[Link, ...], message: str) -> None:
    with pytest.raises(NetworkError, match=message) as error:
        Network(sites, links)
    assert error.value.remedy


def test_parts_of_a_disconnected_network_are_named() -> None:
    sites = tuple(map(Site, "abcdef"))
    with pytest.raises(NetworkError, match=r"falls into 3 parts: 3 with 'b', 2 with 'a', 1 with 'e'") as error:
        Network(sites, (Link("a", "d", 1), Link("b", "c", 1), Link("c", "f", 1)))
    assert "Add links" in error.value.remedy


def test_old_ways_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    network = line(1, 1, 1)
    monkeypatch.setattr(module, "CACHED_BYTES", 2 * 32 * 4)
    first = network.ways_from(0)
    network.ways_from(1)
    assert network.ways_from(0) is first
    network.ways_from(2)
    assert network.ways_from(0) is not first
    assert network.ways_from(0).latency_ns.tolist() == first.latency_ns.tolist()


def test_a_network_can_be_sent_to_another_process() -> None:
    network = line(1, 2)
    network.ways_from(0)
    again = pickle.loads(pickle.dumps(network))
    assert again == network
    assert again.ways_from(2).latency_ns.tolist() == [3_000_000, 2_000_000, 0]
