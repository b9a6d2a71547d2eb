"""A plan as a picture."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from situ.lab.panorama.experiments.cases import CaseShape, random_case
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.generate import antennas, broker_tree, random_geometric
from situ.network.network import Link, Network, Site
from situ.network.statistics import Statistics
from situ.placement.coverage import Coverage
from situ.placement.from_graph import problem_of
from situ.placement.mechanisms import mechanism
from situ.placement.picture import COLOURS, LEGEND, THICKEST, plan_to_svg
from situ.placement.plan import Placed, Plan
from situ.placement.problem import Problem
from situ.placement.site_places import places

SVG = "{http://www.w3.org/2000/svg}"

TEXT = """
stream `A <1> & "2"`(ts timestamp) time ts
stream B(ts timestamp) time ts
define C(ts) detect `A <1> & "2"` as a then each B as b within 1 s assign ts = a.ts
subscribe Found detect C as c
"""


def problem() -> Problem:
    """edge - hub - root - far, where nothing happens at far."""
    sites = Site("edge <1>", 0.0, 0.0), Site("hub", 10.0, 5.0), Site("root", 20.0, 0.0), Site("far", 30.0, 0.0)
    links = Link("edge <1>", "hub", 1.0), Link("hub", "root", 1.0), Link("root", "far", 1.0)
    rates = {'A <1> & "2"': {"edge <1>": 2.0, "hub": 1.0}, "B": {"hub": 1000.0, "edge <1>": 1.0}}
    given = Statistics(rates, {"C": 0.001})
    return problem_of(resolve(parse(TEXT)), Network(sites, links), given, Coverage(), root="root")


def plan() -> Plan:
    return Plan("ours", (Placed(1, ((0,), (1,))), Placed(2, ((0,),))), 12.0, 3.5)


def drawn(picture: str, kind: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(picture).iter(f"{SVG}{kind}"))


def titled_lines(picture: str) -> dict[str, ElementTree.Element]:
    return {
        title.text or "": line for line in drawn(picture, "line") if (title := line.find(f"{SVG}title")) is not None
    }


def test_the_same_plan_gives_the_same_picture() -> None:
    assert plan_to_svg(problem(), plan()) == plan_to_svg(problem(), plan())


def test_it_needs_nothing_else() -> None:
    picture = plan_to_svg(problem(), plan())
    assert "href" not in picture
    assert "url(" not in picture
    assert re.findall(r"https?://[^\"]*", picture) == ["http://www.w3.org/2000/svg"]


def test_what_is_pushed_is_solid_and_what_is_pulled_is_dashed() -> None:
    lines = titled_lines(plan_to_svg(problem(), plan()))
    assert [text.partition(":")[0] for text in lines] == [
        'A <1> & "2", pushed, edge <1> to hub',
        "B, pulled, edge <1> to hub",
        "C, pushed, hub to root",
    ]
    assert [line.get("stroke-dasharray") for line in lines.values()] == [None, "6 4", None]
    assert len({line.get("stroke") for line in lines.values()}) == 3


def test_lines_are_as_wide_as_their_traffic() -> None:
    lines = titled_lines(plan_to_svg(problem(), plan()))
    load = {text: float(text.split(": ")[1].split()[0]) for text in lines}
    width = {text: float(line.get("stroke-width", "0")) for text, line in lines.items()}
    assert sorted(load, key=lambda text: load[text]) == sorted(width, key=lambda text: width[text])
    assert max(width.values()) == THICKEST


def test_arrows_point_to_the_reader() -> None:
    picture = plan_to_svg(problem(), plan())
    for (text, line), arrow in zip(titled_lines(picture).items(), drawn(picture, "polygon"), strict=True):
        start, end = (np.array([float(line.get(f"{axis}{n}", "0")) for axis in "xy"]) for n in (1, 2))
        tip, *back = (np.array([*map(float, point.split(","))]) for point in arrow.get("points", "").split())
        assert float((tip - sum(back) / 2) @ (end - start)) > 0, text
        assert arrow.get("fill") == line.get("stroke")


def test_operators_sources_sites_and_root_are_named() -> None:
    texts = [element.text for element in drawn(plan_to_svg(problem(), plan()), "text")]
    for expected in (
        "C",
        "Found",
        'push A <1> & "2"; pull B',
        "push C",
        "edge <1>",
        "hub",
        "far",
        "root: root",
        "ours",
    ):
        assert expected in texts
    assert 'A <1> & "2"  3, 2 sites' in texts


def test_a_source_has_a_sector_for_each_event_type() -> None:
    sectors = [path.get("fill") for path in drawn(plan_to_svg(problem(), plan()), "path") if path.get("fill")]
    assert sectors == [COLOURS[0], COLOURS[1]] * 2


@pytest.mark.parametrize(
    "generate",
    [
        lambda rng: random_geometric(10, rng),
        lambda rng: broker_tree(4, 4, rng),
        lambda rng: antennas(2_000, rng),
    ],
    ids=["10 sites", "a tree without coordinates", "2,000 sites"],
)
def test_networks_of_all_sizes(generate: Callable[[np.random.Generator], Network]) -> None:
    """Every source, operator and line lies in the picture, left of the legend; and no box covers another."""
    case = random_case(
        generate(np.random.default_rng(1)), np.random.default_rng(3), CaseShape(complex_events=2, sources=4)
    )
    asked = case.problem()
    picture = plan_to_svg(asked, mechanism("greedy")(asked))
    root = ElementTree.fromstring(picture)
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    for line in titled_lines(picture).values():
        assert min(float(line.get("x1", "-1")), float(line.get("x2", "-1"))) >= 0
        assert max(float(line.get("x1", "inf")), float(line.get("x2", "inf"))) <= width - LEGEND
        assert 0 <= float(line.get("y1", "-1")) <= height
    boxes = [[float(box.get(k, "0")) for k in ("x", "y", "width", "height")] for box in drawn(picture, "rect")[1:]]
    labels = [box for box in boxes if box[2] > 30]
    for number, (x, y, wide, high) in enumerate(labels):
        for other in labels[:number]:
            apart = x + wide <= other[0] or other[0] + other[2] <= x or y + high <= other[1] or other[1] + other[3] <= y
            assert apart


def test_a_network_of_one_site() -> None:
    network = Network((Site("all"),), ())
    asked = problem_of(
        resolve(parse("stream A(ts timestamp) time ts subscribe S detect A")),
        network,
        Statistics({"A": {"all": 1.0}}),
        Coverage(),
    )
    picture = plan_to_svg(asked, mechanism("naive")(asked))
    assert "all" in [element.text for element in drawn(picture, "text")]
    assert not titled_lines(picture)


# ---- places of sites


def test_sites_without_coordinates_lie_as_their_ways_do() -> None:
    """A line stays a line, with its ends at the ends."""
    names = [f"s{n}" for n in range(12)]
    links = tuple(Link(a, b, 1.0) for a, b in pairwise(names))
    found = places(Network(tuple(map(Site, names)), links))
    along = found[:, 0]
    assert (np.diff(along) > 0).all() or (np.diff(along) < 0).all()


def test_sites_without_coordinates_do_not_cover_each_other() -> None:
    found = places(broker_tree(4, 4, np.random.default_rng(1)))
    distance = np.hypot(*(found[:, None] - found[None]).transpose(2, 0, 1))
    np.fill_diagonal(distance, 1.0)
    assert distance.min() > 0.2 / np.sqrt(len(found))


def test_links_among_clustered_sites_can_be_seen() -> None:
    network = antennas(500, np.random.default_rng(1))
    points = np.array([(site.x, -(site.y or 0.0)) for site in network.sites])
    ends = np.array([(network.number(link.a), network.number(link.b)) for link in network.links])

    def median_link(at: np.ndarray) -> float:
        return float(np.median(np.hypot(*(at[ends[:, 0]] - at[ends[:, 1]]).T)))

    found = places(network)
    assert median_link(found) > 3 * median_link((points - points.min(axis=0)) / np.ptp(points, axis=0).max())
    for axis in (0, 1):
        order = np.argsort(points[:, axis], kind="stable")
        assert (np.diff(found[order, axis]) >= 0).all()
