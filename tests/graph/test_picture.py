"""The operator graph as a picture."""

import re
from xml.etree import ElementTree

from situ.graph.operators import OperatorGraph
from situ.graph.picture import MAX_WIDTH, to_svg
from situ.lang.parse import parse
from situ.lang.resolve import resolve

SVG = "{http://www.w3.org/2000/svg}"

TEXT = """
stream Vehicle(vehicle string, x double, y double, speed double, lane string, ts timestamp) time ts at (x, y)
stream `Loop <1> & "2"`(n int, ts timestamp) time ts
define Braking(lane, drop)
  detect Vehicle as a then Vehicle(speed < a.speed - 5) as b within 3 s assign lane = b.lane, drop = a.speed - b.speed
define AVeryLongNameThatNoBoxOfTheWidestKindCouldHoldInASingleLine(lane) detect Braking
subscribe Jam detect Braking+ as jam then AVeryLongNameThatNoBoxOfTheWidestKindCouldHoldInASingleLine as hard
  within 30 s
subscribe Direct detect Vehicle and Jammed within 1 min
define Jammed(lane) detect AVeryLongNameThatNoBoxOfTheWidestKindCouldHoldInASingleLine
"""


def graph() -> OperatorGraph:
    return resolve(parse(TEXT))


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def rectangles(svg: str) -> list[tuple[float, float, float, float]]:
    boxes = ElementTree.fromstring(svg).iter(f"{SVG}rect")
    return [tuple(float(box.get(key, "0")) for key in ("x", "y", "width", "height")) for box in boxes]  # type: ignore[misc]


def test_the_same_graph_gives_the_same_picture() -> None:
    assert to_svg(graph()) == to_svg(graph())


def test_every_event_type_is_named_and_escaped() -> None:
    shown = texts(to_svg(graph()))
    assert 'Loop <1> & "2"' in " ".join(shown)
    assert {"Vehicle", "Braking", "Jam", "Direct", "within 3 s", "time ts, at (x, y)"} <= set(shown)
    assert {"stream", "definition · sequence", "definition · filter", "subscription · and"} <= set(shown)
    assert "AVeryLongNameThatNoBoxOfTheWidestKindCouldHoldInASingleLine" in "".join(shown), "broken, not cut"


def test_silences_are_said() -> None:
    rule = "subscribe S detect once A as a then (no A for 90 s as q){1,3} assign n = count(q)"
    query = f"stream A(ts timestamp) time ts\n{rule}"
    assert {"no A for 90 s", "once"} <= set(texts(to_svg(resolve(parse(query)))))


def test_boxes_stand_inside_and_apart() -> None:
    (page, *boxes) = rectangles(to_svg(graph()))
    assert len(boxes) == 7
    for x, y, width, height in boxes:
        assert 0 < x < x + width < page[2]
        assert 0 < y < y + height < page[3]
        assert width <= MAX_WIDTH
    for i, (x, y, width, height) in enumerate(boxes):
        for u, v, other_width, other_height in boxes[i + 1 :]:
            assert x + width < u or u + other_width < x or y + height < v or v + other_height < y


def test_every_input_is_an_edge_from_left_to_right() -> None:
    svg = to_svg(graph())
    edges = [element.get("d", "") for element in ElementTree.fromstring(svg).iter(f"{SVG}path")][1:]  # after the arrow
    assert len(edges) == sum(len(operator.inputs) for operator in graph().operators) == 7
    for edge in edges:
        xs = [float(x) for x in re.findall(r"[MCH ](-?[\d.]+)(?:,|$| )", edge)]
        assert len(xs) >= 4
        assert xs == sorted(xs)


def test_long_schemas_are_cut_short() -> None:
    attributes = ", ".join(f"attribute_{i} int" for i in range(20))
    shown = texts(to_svg(resolve(parse(f"stream Wide({attributes}) time attribute_0 in s"))))
    assert "attribute_6" in shown
    assert "attribute_7" not in shown
    assert "and 13 more" in shown


def test_long_attributes_are_cut_short() -> None:
    shown = texts(to_svg(resolve(parse(f"stream Wide({'x' * 200} timestamp) time {'x' * 200}"))))
    assert any(text.startswith("xxx") and text.endswith("x…") for text in shown)
