"""The operator graph as a picture (SVG): streams on the left, what is made of them to the right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf
from xml.sax.saxutils import escape

from situ.core.time import format_duration
from situ.graph.describe import kind_of, stream_clauses, window_of
from situ.graph.layout import Layout, Node, lay_out
from situ.graph.operators import Operator, OperatorGraph
from situ.graph.patterns import silences_of, tests_of
from situ.graph.query import Definition, Join, Pause, Query, Rule, Stream, Subscription

MARGIN, COLUMN_GAP, ROW_GAP = 24.0, 88.0, 26.0
PADDING = 14.0
MIN_WIDTH, MAX_WIDTH = 160.0, 260.0
MAX_ATTRIBUTES = 8

Style = OneOf["role", "name", "attribute", "clause"]

#: Font size and height of a line of each style.
SIZES: dict[Style, tuple[float, float]] = {
    "role": (10.5, 15.0),
    "name": (15.0, 20.0),
    "attribute": (11.5, 16.0),
    "clause": (11.5, 16.0),
}

#: Fill, border and accent of the three kinds of boxes.
COLOURS = {
    "stream": ("#eef5fb", "#a9c6df", "#2f73ad"),
    "definition": ("#ffffff", "#c3c8d0", "#5c6573"),
    "subscription": ("#fff6e8", "#e3b876", "#c2740c"),
}

STYLE_SHEET = """
  text { font-family: "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; fill: #22262c }
  .role { font-size: 10.5px; font-weight: 600 }
  .name { font-size: 15px; font-weight: 600 }
  .attribute, .clause { font-size: 11.5px }
  .type, .clause { fill: #6a717d }
  .edge { fill: none; stroke: #98a0ac; stroke-width: 1.5 }
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text in a box; `aside` stands at its right end."""

    style: Style
    text: str
    aside: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """What is written in the box of one event type: heading, attributes, clauses."""

    kind: OneOf["stream", "definition", "subscription"]
    layer: int
    inputs: tuple[str, ...]
    sections: tuple[tuple[Line, ...], ...]

    @property
    def width(self) -> float:
        widths = (_width(line) for section in self.sections for line in section)
        return min(MAX_WIDTH, max(MIN_WIDTH, *widths) + 2 * PADDING)

    @property
    def height(self) -> float:
        return sum(PADDING + sum(SIZES[line.style][1] for line in section) for section in self.sections)


def to_svg(graph: OperatorGraph) -> str:
    """The graph as an SVG document; the same graph gives the same text.

    >>> from situ.graph.query import Query
    >>> to_svg(OperatorGraph(Query(), (), ())).splitlines()[0]
    '<svg xmlns="http://www.w3.org/2000/svg" width="48" height="48" viewBox="0 0 48 48" role="img">'
    """
    boxes = {stream.name: _stream_box(stream) for stream in graph.streams}
    boxes |= {operator.name: _operator_box(operator) for operator in graph.operators}
    return _picture(boxes)


def query_to_svg(query: Query) -> str:
    """The same for a query in which nothing has been looked up yet: attributes have no types, and event types that
    nobody declares, or that would read themselves, are left out."""
    boxes = {stream.name: _stream_box(stream) for stream in query.streams}
    rules: dict[str, Definition | Subscription] = {definition.name: definition for definition in query.definitions}
    rules |= {subscription.name: subscription for subscription in query.subscriptions}
    rules = {name: item for name, item in rules.items() if name not in boxes}
    while placed := [name for name, item in rules.items() if not (_event_types(item) & rules.keys())] or [*rules][:1]:
        for name in placed:
            boxes[name] = _unresolved_box(rules.pop(name), boxes)
    return _picture(boxes)


def _picture(boxes: dict[str, Box]) -> str:
    edges = [(name, read) for name, box in boxes.items() for read in box.inputs]
    layout = lay_out(
        {name: box.layer for name, box in boxes.items()},
        edges,
        {name: box.height for name, box in boxes.items()},
        ROW_GAP,
    )
    return "\n".join(_document(boxes, layout)) + "\n"


def _document(boxes: dict[str, Box], layout: Layout) -> Iterator[str]:
    columns = _columns(boxes)
    top = min((layout.middle[name] - box.height / 2 for name, box in boxes.items()), default=0.0)
    bottom = max((layout.middle[name] + box.height / 2 for name, box in boxes.items()), default=0.0)
    middle = {node: y - top + MARGIN for node, y in layout.middle.items()}
    width = max((x + w for x, w in columns), default=MARGIN) + MARGIN
    height = bottom - top + 2 * MARGIN
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    yield "<title>Operator graph</title>"
    yield f"<style>{STYLE_SHEET}</style>"
    yield (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0.5 L7.5,4 L0,7.5 z" fill="#98a0ac"/></marker></defs>'
    )
    yield f'<rect width="{width:g}" height="{height:g}" fill="#fbfbfc"/>'
    for path in layout.paths.values():
        yield _edge(path, boxes, columns, middle, layout)
    for name, box in boxes.items():
        x, column_width = columns[box.layer]
        yield from _box(box, x, middle[name] - box.height / 2, column_width)
    yield "</svg>"


def _columns(boxes: dict[str, Box]) -> list[tuple[float, float]]:
    """Left edge and width of every layer."""
    columns: list[tuple[float, float]] = []
    x = MARGIN
    for layer in range(1 + max((box.layer for box in boxes.values()), default=-1)):
        width = max((box.width for box in boxes.values() if box.layer == layer), default=0.0)
        columns.append((x, width))
        x += width + COLUMN_GAP
    return columns


def _edge(
    path: tuple[Node, ...],
    boxes: dict[str, Box],
    columns: list[tuple[float, float]],
    middle: dict[Node, float],
    layout: Layout,
) -> str:
    """A curve from the right side of what is read to the left side of its reader, past the layers between them."""
    read, reader = path[0], path[-1]
    assert isinstance(read, str)
    assert isinstance(reader, str)
    x, width = columns[boxes[read].layer]
    x, y = x + width, middle[read]
    curve = f"M{x:g},{y:g}"
    for layer, node in enumerate(path[1:], start=boxes[read].layer + 1):
        left, width = columns[layer]
        end = middle[node] + (_port(path, reader, boxes, middle, layout) if node == reader else 0.0)
        half = (left - x) / 2
        curve += f" C{x + half:g},{y:g} {left - half:g},{end:g} {left:g},{end:g}"
        x, y = left, end
        if node != reader:
            x = left + width
            curve += f" H{x:g}"
    return f'<path class="edge" d="{curve}" marker-end="url(#arrow)"/>'


def _port(
    path: tuple[Node, ...], reader: str, boxes: dict[str, Box], middle: dict[Node, float], layout: Layout
) -> float:
    """How far from its middle an edge enters a box: edges keep the order in which they come."""
    coming = sorted((layout.paths[reader, read] for read in boxes[reader].inputs), key=lambda other: middle[other[-2]])
    distance = min(16.0, boxes[reader].height / (len(coming) + 1))
    return (coming.index(path) - (len(coming) - 1) / 2) * distance


def _box(box: Box, x: float, y: float, width: float) -> Iterator[str]:
    fill, border, accent = COLOURS[box.kind]
    frame = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{box.height:g}" rx="7"'
    weight = 2 if box.kind == "subscription" else 1.2
    yield f'<rect {frame} fill="{fill}" stroke="{border}" stroke-width="{weight:g}"/>'
    for i, section in enumerate(box.sections):
        if i > 0:
            yield f'<line x1="{x:g}" y1="{y:g}" x2="{x + width:g}" y2="{y:g}" stroke="{border}" stroke-width="0.8"/>'
        y += PADDING / 2
        for line in section:
            y += SIZES[line.style][1]
            baseline = y - SIZES[line.style][1] * 0.27
            colour = f' style="fill: {accent}"' if line.style == "role" else ""
            at = f'class="{line.style}" x="{x + PADDING:g}" y="{baseline:g}"{colour}'
            yield f"<text {at}>{escape(line.text)}</text>"
            if line.aside:
                at = f'class="{line.style} type" x="{x + width - PADDING:g}" y="{baseline:g}" text-anchor="end"'
                yield f"<text {at}>{escape(line.aside)}</text>"
        y += PADDING / 2


def _stream_box(stream: Stream) -> Box:
    attributes = tuple((attribute.name, str(attribute.type)) for attribute in stream.attributes)
    clauses = _wrapped("clause", stream_clauses(stream))
    return Box("stream", 0, (), _sections("stream", stream.name, attributes, clauses))


def _operator_box(operator: Operator) -> Box:
    kind: OneOf["definition", "subscription"] = "definition" if operator.subscription is None else "subscription"
    attributes = tuple((name, str(type_)) for name, type_ in operator.schema.attributes)
    return _rule_box(kind, operator.name, operator.rule, attributes, operator.depth, operator.inputs)


def _unresolved_box(item: Definition | Subscription, boxes: dict[str, Box]) -> Box:
    kind: OneOf["definition", "subscription"] = "definition" if isinstance(item, Definition) else "subscription"
    assigned = (assignment.name for case in item.rule.cases[:1] for assignment in case.assign)
    names = item.attributes if isinstance(item, Definition) else tuple(assigned)
    inputs = tuple(name for name in boxes if name in _event_types(item))
    depth = 1 + max((boxes[name].layer for name in inputs), default=-1)
    return _rule_box(kind, item.name, item.rule, tuple((name, "") for name in names), depth, inputs)


def _event_types(item: Definition | Subscription) -> set[str]:
    return {test.event_type for case in item.rule.cases for test in tests_of(case.detect)}


def _rule_box(
    kind: OneOf["definition", "subscription"],
    name: str,
    rule: Rule,
    attributes: tuple[tuple[str, str], ...],
    layer: int,
    inputs: tuple[str, ...],
) -> Box:
    clauses = [
        f"no {silence.test.event_type} for {format_duration(silence.silence_us or 0)}"
        for case in rule.cases
        for silence in silences_of(case.detect)
    ]
    clauses += [window_of(rule, case) for case in rule.cases]
    if isinstance(rule.kind, Join):
        clauses.append(f"on {', '.join(rule.kind.on)}")
    if rule.group_by:
        clauses.append(f"group by {', '.join(rule.group_by)}")
    if any(case.once for case in rule.cases):
        clauses.append("once")
    if isinstance(rule.after_match, Pause):
        clauses.append(f"pause {format_duration(rule.after_match.micros)}")
    lines = tuple(line for clause in dict.fromkeys(clauses) if clause for line in _wrapped("clause", clause))
    return Box(kind, layer, inputs, _sections(f"{kind} · {kind_of(rule)}", name, attributes, lines))


def _sections(
    role: str, name: str, attributes: tuple[tuple[str, str], ...], clauses: tuple[Line, ...]
) -> tuple[tuple[Line, ...], ...]:
    heading = (Line("role", role), *_wrapped("name", name))
    shown = attributes if len(attributes) <= MAX_ATTRIBUTES else attributes[: MAX_ATTRIBUTES - 1]
    lines = tuple(_attribute(attribute, type_) for attribute, type_ in shown)
    if hidden := len(attributes) - len(shown):
        lines += (Line("clause", f"and {hidden} more"),)
    return tuple(section for section in (heading, lines, clauses) if section)


def _attribute(name: str, type_: str) -> Line:
    room = MAX_WIDTH - 2 * PADDING - _text_width(f"  {type_}", "attribute")
    while _text_width(name, "attribute") > room:
        name = name.removesuffix("…")[:-1] + "…"
    return Line("attribute", name, type_)


def _wrapped(style: Style, text: str) -> tuple[Line, ...]:
    """Lines that fit the widest box, broken where words begin: after spaces and `_`, before capitals."""
    room = MAX_WIDTH - 2 * PADDING
    lines = [""]
    for word in re.findall(r"[A-Z]?[^\sA-Z_]*[\s_]*|.", text):
        if lines[-1] and _text_width(lines[-1] + word.rstrip(), style) > room:
            lines.append("")
        for character in word:
            if _text_width(lines[-1] + character, style) > room:
                lines.append("")
            lines[-1] += character
    return tuple(Line(style, line.rstrip()) for line in lines)


def _width(line: Line) -> float:
    aside = _text_width(f"   {line.aside}", line.style) if line.aside else 0.0
    return _text_width(line.text, line.style) + aside


def _text_width(text: str, style: Style) -> float:
    """A careful estimate for Helvetica and its kin: no font is at hand where the picture is made."""
    em = sum(0.32 if c in " ,.;:!|'()[]{}ijltfI" else 0.92 if c in "mwMW…@%" or ord(c) > 0x2E7F else 0.62 for c in text)
    return em * SIZES[style][0] * (1.14 if style in ("name", "role") else 1.02)
