"""Real topologies, and the odd things that such files hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import situ
from situ.network.graphml import read_graphml
from situ.network.load import load_network
from situ.network.near import great_circle_km
from situ.network.network import NetworkError

TOPOLOGIES = Path(situ.__file__).parent / "lab" / "panorama" / "topologies"


@pytest.mark.parametrize(
    ("name", "sites", "links"),
    [("AttMpls", 25, 56), ("Bellcanada", 48, 64), ("Geant2010", 37, 56), ("Iris", 51, 64), ("Uninett2010", 74, 101)],
)
def test_real_topologies(name: str, sites: int, links: int) -> None:
    network = load_network(TOPOLOGIES / f"{name}.graphml")
    assert (len(network.sites), len(network.links)) == (sites, links)
    assert all(site.x is not None for site in network.sites)
    latency_ms = network.ways_among(None).latency_ns / 1e6
    places = [(site.x, site.y) for site in network.sites]
    straight_ms = np.array([[great_circle_km(*a, *b) / 200 for b in places] for a in places])  # type: ignore[arg-type]
    assert (latency_ms >= straight_ms - 1e-4).all()  # nothing is faster than the straight way
    assert latency_ms.max() < 50


def test_a_link_takes_the_time_of_light_in_fibre() -> None:
    network = load_network(TOPOLOGIES / "Geant2010.graphml")
    ways = network.ways_from(network.number("DE"))
    assert network.number("CH") in network.neighbours(network.number("DE"))
    assert ways.latency_ns[network.number("CH")] / 1e6 == pytest.approx(2.3, abs=0.6)


def test_labels_that_occur_twice_are_told_apart() -> None:
    names = load_network(TOPOLOGIES / "Uninett2010.graphml").names
    assert {name for name in names if "(" in name} == {"UiO (0)", "UiO (1)", "UiTo (8)", "UiTo (26)"}
    assert "UiO" not in names
    assert "UiTo Karasjok" in names


def graphml(tmp_path: Path, body: str, kind: str = "undirected") -> Path:
    path = tmp_path / "net.graphml"
    keys = "".join(
        f'<key attr.name="{name}" attr.type="{type_}" for="node" id="{name}"/>'
        for name, type_ in (("label", "string"), ("Latitude", "double"), ("Longitude", "double"))
    )
    head = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    path.write_text(f'{head}{keys}<graph edgedefault="{kind}">{body}</graph></graphml>')
    return path


def node(number: int, label: str = "", place: tuple[float, float] | None = None) -> str:
    data = f'<data key="label">{label}</data>' if label else ""
    if place:
        data += f'<data key="Longitude">{place[0]}</data><data key="Latitude">{place[1]}</data>'
    return f'<node id="{number}">{data}</node>'


def edges(*pairs: tuple[int, int]) -> str:
    return "".join(f'<edge source="{a}" target="{b}"/>' for a, b in pairs)


def test_parallel_edges_loops_directions_and_isolated_nodes(tmp_path: Path) -> None:
    nodes = node(0, "a", (0, 0)) + node(1, "b", (1, 0)) + node(2, "lonely", (5, 5))
    path = graphml(tmp_path, nodes + edges((0, 1), (0, 1), (1, 0), (1, 1)), "directed")
    network = read_graphml(path)
    assert network.names == ("a", "b")
    assert [(link.a, link.b) for link in network.links] == [("a", "b")]


def test_a_node_without_coordinates_is_in_the_middle_of_its_neighbours(tmp_path: Path) -> None:
    nodes = node(0, "west", (179, 0)) + node(1, "east", (-177, 0)) + node(2) + node(3, "end")
    network = read_graphml(graphml(tmp_path, nodes + edges((0, 2), (2, 1), (2, 3))))
    assert network.names == ("west", "east", "2", "end")
    for name in ("2", "end"):
        site = network.sites[network.number(name)]
        assert (site.x, site.y) == (pytest.approx(-179), pytest.approx(0))
    assert network.ways_from(2).latency_ns[3] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<graphml", r"net.graphml:1:\d+: is not XML"),
        ("<svg/>", "net.graphml: is not GraphML"),
    ],
)
def test_what_is_no_graphml(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "net.graphml"
    path.write_text(text)
    with pytest.raises(NetworkError, match=message):
        read_graphml(path)


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r"nodes without Latitude and Longitude, .*: 0, 1\.\n.*JSON"):
        load_network(graphml(tmp_path, node(0, "a") + node(1, "b") + edges((0, 1))))
    with pytest.raises(NetworkError, match=r"node '1': lies at latitude 91.0"):
        load_network(graphml(tmp_path, node(0, "a") + node(1, "b", (0, 91)) + edges((0, 1))))
    apart = "".join(node(n, f"n{n}", (n, n)) for n in range(4)) + edges((0, 1), (2, 3))
    with pytest.raises(NetworkError, match=r"net.graphml: the network falls into 2 parts: 2 with 'n0', 2 with 'n2'"):
        load_network(graphml(tmp_path, apart))
    with pytest.raises(NetworkError, match=r"net.graphml: the network has no sites"):
        load_network(graphml(tmp_path, ""))
