"""Networks from GraphML as the Internet Topology Zoo writes it (Knight et al., JSAC 2011).

A site is a node, under its label; a link takes the time of light in fibre along the great circle. What such files
also hold:

- nodes of one label are told apart by their ids: `Trenton (17)`; a node without a label goes by its id;
- several edges between two nodes are one link, an edge from a node to itself is none;
- a node without any edge is left out;
- a node without coordinates is put in the middle of its neighbours that have some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import numpy as np

from situ.network.near import KM_PER_MS, great_circle_km
from situ.network.network import Link, Network, NetworkError, Site


def read_graphml(path: Path) -> Network:
    """NetworkError if it is no GraphML, or no node has coordinates."""
    graph = _graph(path)
    places = _places(graph, path)
    names = _names(graph)
    links = [
        Link(names[a], names[b], great_circle_km(*places[a], *places[b]) / KM_PER_MS) for a, b in graph.edges()
    ]  # fmt: skip
    return Network(tuple(Site(names[node], *places[node]) for node in graph), tuple(links))


def _graph(path: Path) -> Any:
    """Reads a graph, and drops directions, parallel edges, loops and nodes without an edge."""
    import networkx as nx  # which takes long, and most networks are JSON

    try:
        read = nx.read_graphml(path)
    except ParseError as error:
        line, column = error.position
        raise NetworkError("is not XML", place=f"{path}:{line}:{column + 1}", remedy="Mend the text there.") from None
    except (nx.NetworkXException, KeyError, ValueError) as error:
        raise NetworkError(f"is not GraphML: {error}", place=str(path), remedy="Give a file with a <graph>.") from None
    graph = nx.Graph()
    graph.add_nodes_from(read.nodes(data=True))
    graph.add_edges_from((a, b) for a, b in read.edges() if a != b)
    if len(graph) > 1:
        graph.remove_nodes_from(list(nx.isolates(graph)))
    return graph


def _names(graph: Any) -> dict[str, str]:
    labels = {node: str(data.get("label", "")).strip() or str(node) for node, data in graph.nodes(data=True)}
    count = Counter(labels.values())
    return {node: label if count[label] == 1 else f"{label} ({node})" for node, label in labels.items()}


def _places(graph: Any, path: Path) -> dict[str, tuple[float, float]]:
    """Longitude and latitude of each node."""
    places = {node: place for node, data in graph.nodes(data=True) if (place := _place(data, node, path)) is not None}
    while len(places) < len(graph):
        # Round by round, outwards from the nodes that have coordinates: the order of nodes plays no part.
        beside = {node: [places[n] for n in graph[node] if n in places] for node in graph if node not in places}
        interpolated = {node: _middle(around) for node, around in beside.items() if around}
        if not interpolated:
            raise NetworkError(
                f"nodes without Latitude and Longitude, and none beside them that has both: {', '.join(beside)[:200]}",
                place=str(path),
                remedy="Add coordinates, or write the network as JSON with latency_ms on every link.",
            )
        places |= interpolated
    return places


def _place(data: Mapping[str, Any], node: str, path: Path) -> tuple[float, float] | None:
    if "Longitude" not in data or "Latitude" not in data:
        return None
    try:
        longitude, latitude = float(data["Longitude"]), float(data["Latitude"])
    except ValueError:
        longitude = latitude = np.nan
    if not (abs(latitude) <= 90 and abs(longitude) <= 360):
        raise NetworkError(
            f"lies at latitude {data['Latitude']}, longitude {data['Longitude']}",
            place=f"{path}: node {node!r}",
            remedy="Give both in degrees.",
        )
    return longitude, latitude


def _middle(places: list[tuple[float, float]]) -> tuple[float, float]:
    """The middle of some places on the globe, so that it also holds across 180 degrees."""
    east, north = np.radians(places).T
    x, y, z = np.mean([np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)], axis=1)
    return float(np.degrees(np.arctan2(y, x))), float(np.degrees(np.arctan2(z, np.hypot(x, y))))
