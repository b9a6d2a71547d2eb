"""A plan as a picture (SVG): the network, where events occur and operators run, what is pushed and what is pulled."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from xml.sax.saxutils import escape

import numpy as np

from situ.kernel.arrays import F64
from situ.placement.evaluate import evaluate
from situ.placement.finish import naive_placement
from situ.placement.link_load import LinkFlow, flows_of, way_of
from situ.placement.picture_labels import Label, Labels, text_width
from situ.placement.plan import Plan
from situ.placement.problem import Problem
from situ.placement.site_places import places

MARGIN, LEGEND = 46.0, 270.0
PLOT, HIGHEST, LOWEST = 900.0, 820.0, 420.0

#: Of a strand, in pixels; the square root of its share of the largest traffic lies between.
THINNEST, THICKEST = 1.3, 7.0

#: Of so many sites all names are shown; of more, those of operators and the root, and of sources while they are few.
NAMED_SITES, NAMED_SOURCES = 60, 25

COLOURS = (
    "#2f73ad", "#d9730d", "#3a9150", "#b8397a", "#7a5cc0", "#0f9ba8", "#a87f12", "#c8402f", "#5c6573", "#6b8e23",
)  # fmt: skip

STYLE_SHEET = """
  text { font-family: "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; fill: #22262c }
  .site { font-size: 10px; fill: #5c6573 }
  .halo { font-size: 10px; fill: none; stroke: #fbfbfc; stroke-width: 3; stroke-linejoin: round }
  .operator { font-size: 12.5px; font-weight: 600 }
  .steps, .legend { font-size: 11px }
  .steps { fill: #5c6573 }
  .heading { font-size: 11px; font-weight: 600; fill: #5c6573 }
  .title { font-size: 15px; font-weight: 600 }
  .link { stroke: #d8dce2; stroke-width: 1 }
"""


@dataclass(frozen=True, slots=True)
class Strand:
    """Events of one type that cross a link in one direction."""

    event: str
    pulled: bool
    start: int
    to: int


@dataclass(frozen=True)
class Scene:
    """All that is drawn, with every site's place in pixels."""

    problem: Problem
    plan: Plan
    at: F64
    width: float
    height: float
    flows: tuple[LinkFlow, ...]

    @cached_property
    def colour(self) -> dict[str, str]:
        """The colour of every event type."""
        events = [*self.problem.sources, *self.problem.number]
        return {event: COLOURS[number % len(COLOURS)] for number, event in enumerate(events)}

    @cached_property
    def strands(self) -> dict[Strand, float]:
        """Messages per second, requests included, of everything that moves."""
        load_of: defaultdict[Strand, float] = defaultdict(float)
        for flow in self.flows:
            for start, to in pairwise(way_of(self.problem.network, flow)):
                load_of[Strand(flow.event, flow.pulled, start, to)] += flow.load_per_s
        return dict(load_of)

    @cached_property
    def dot(self) -> float:
        """The radius of a site: small where there are many."""
        return min(4.0, max(1.1, 40.0 / math.sqrt(len(self.at))))

    @cached_property
    def events_at(self) -> dict[int, list[str]]:
        """Sites at which primitive events occur."""
        events: defaultdict[int, list[str]] = defaultdict(list)
        for event, sources in self.problem.sources.items():
            for site in sources.sites.tolist():
                events[site].append(event)
        return dict(events)

    @cached_property
    def operators_at(self) -> dict[int, list[int]]:
        operators: defaultdict[int, list[int]] = defaultdict(list)
        for number, placed in enumerate(self.plan.placed):
            operators[placed.site].append(number)
        return dict(operators)

    def line_width(self, load: float) -> float:
        most = max(self.strands.values(), default=0.0)
        return THINNEST + (THICKEST - THINNEST) * math.sqrt(load / most) if most > 0 else THINNEST


def plan_to_svg(problem: Problem, plan: Plan) -> str:
    """The plan as an SVG document that needs nothing else; the same plan gives the same text."""
    unit = places(problem.network)
    size = unit.max(axis=0)
    scale = min(PLOT, HIGHEST / size[1] if size[1] > 0 else PLOT)
    height = max(scale * float(size[1]), LOWEST, 150.0 + 18.0 * (len(problem.rates) + len(problem.operators)))
    room = np.array([PLOT, height]) - scale * size
    at = unit * scale + room / 2 + MARGIN
    flows = tuple(flow for flow in flows_of(problem, plan.placed) if flow.start != flow.to)
    scene = Scene(problem, plan, at, PLOT + 2 * MARGIN + LEGEND, height + 2 * MARGIN, flows)
    return "\n".join(_document(scene)) + "\n"


def _document(scene: Scene) -> Iterator[str]:
    size = f'width="{scene.width:.0f}" height="{scene.height:.0f}" viewBox="0 0 {scene.width:.0f} {scene.height:.0f}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    yield f"<title>{escape(_title(scene))}</title>"
    yield f"<style>{STYLE_SHEET}</style>"
    yield f'<rect width="{scene.width:.0f}" height="{scene.height:.0f}" fill="#fbfbfc"/>'
    yield from _links(scene)
    yield from _strands(scene)
    yield from _sites(scene)
    yield from _labels(scene)
    yield from _legend(scene)
    yield "</svg>"


def _title(scene: Scene) -> str:
    return f"{scene.plan.mechanism}: cost {scene.plan.cost:.4g}, latency {scene.plan.latency_ms:.4g} ms"


# ---- network and flows


def _links(scene: Scene) -> Iterator[str]:
    network = scene.problem.network
    lines = []
    for link in network.links:
        (x1, y1), (x2, y2) = scene.at[network.number(link.a)], scene.at[network.number(link.b)]
        lines.append(f"M{x1:.1f},{y1:.1f}L{x2:.1f},{y2:.1f}")
    if lines:
        yield f'<path class="link" d="{"".join(lines)}"/>'


def _strands(scene: Scene) -> Iterator[str]:
    """Side by side where a link carries several."""
    beside: defaultdict[tuple[int, int], list[Strand]] = defaultdict(list)
    for strand in sorted(scene.strands, key=lambda s: (s.event, s.pulled, s.start, s.to)):
        beside[min(strand.start, strand.to), max(strand.start, strand.to)].append(strand)
    for (low, high), strands in sorted(beside.items()):
        widths = [scene.line_width(scene.strands[strand]) for strand in strands]
        across = -(sum(widths) + len(widths) - 1) / 2
        for strand, width in zip(strands, widths, strict=True):
            yield from _strand(scene, strand, width, scene.at[low], scene.at[high], across + width / 2)
            across += width + 1


def _strand(scene: Scene, strand: Strand, width: float, low: F64, high: F64, across: float) -> Iterator[str]:
    """A line beside the link, with an arrow in its middle where there is room for one."""
    length = float(np.hypot(*(high - low)))
    if length == 0:
        return
    along = (high - low) / length
    aside = np.array([-along[1], along[0]]) * across
    start, end = (low + aside, high + aside) if strand.start < strand.to else (high + aside, low + aside)
    colour = scene.colour[strand.event]
    dashes = ' stroke-dasharray="6 4"' if strand.pulled else ""
    yield (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" stroke="{colour}" '
        f'stroke-width="{width:.1f}"{dashes}><title>{escape(_tells(scene, strand))}</title></line>'
    )
    size = 3.0 + width
    if length < 2.5 * size:
        return
    ahead = (end - start) / length
    tip, back = (start + end) / 2 + ahead * size, (start + end) / 2 - ahead * size * 0.6
    wing = np.array([-ahead[1], ahead[0]]) * size * 0.75
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (tip, back + wing, back - wing))
    yield f'<polygon points="{points}" fill="{colour}"/>'


def _tells(scene: Scene, strand: Strand) -> str:
    names = scene.problem.network.names
    how = "pulled" if strand.pulled else "pushed"
    load = scene.strands[strand]
    return f"{strand.event}, {how}, {names[strand.start]} to {names[strand.to]}: {load:.4g} messages per s"


# ---- sites


def _sites(scene: Scene) -> Iterator[str]:
    for number, (x, y) in enumerate(scene.at):
        if number not in scene.events_at and number not in scene.operators_at:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{scene.dot:.1f}" fill="#b4bac4"/>'
    radius = _source_radius(scene)
    for site, events in scene.events_at.items():
        yield from _pie(scene.at[site], radius, [scene.colour[event] for event in events])
    for site in scene.operators_at:
        x, y = scene.at[site] - radius - 2.5
        side = 2 * radius + 5
        yield (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" height="{side:.1f}" rx="3" fill="none" '
            'stroke="#22262c" stroke-width="2"/>'
        )
    x, y = scene.at[scene.problem.root]
    yield _ring(x, y, radius + 7)


def _source_radius(scene: Scene) -> float:
    return min(6.5, scene.dot + 2.8)


def _pie(at: Sequence[float] | F64, radius: float, colours: Sequence[str]) -> Iterator[str]:
    """A source, with a sector for each of its event types."""
    x, y = at
    if len(colours) == 1:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colours[0]}" stroke="#fff"/>'
        return
    for number, colour in enumerate(colours):
        begin, end = (2 * math.pi * (number + k) / len(colours) for k in (0, 1))
        ends = [f"{x + radius * math.sin(angle):.1f},{y - radius * math.cos(angle):.1f}" for angle in (begin, end)]
        sector = f"M{x:.1f},{y:.1f}L{ends[0]}A{radius:.1f},{radius:.1f} 0 0 1 {ends[1]}z"
        yield f'<path d="{sector}" fill="{colour}" stroke="#fff" stroke-width="0.7"/>'


def _ring(x: float, y: float, radius: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="none" stroke="#c8402f" stroke-width="2.5"/>'


# ---- labels


def _labels(scene: Scene) -> Iterator[str]:
    """Operators first: where there is no room, a name is left out."""
    names = scene.problem.network.names
    labels = Labels(scene.width - LEGEND, scene.height, _points_on_lines(scene))
    radius = _source_radius(scene)
    used_sites = [*scene.events_at, *scene.operators_at, scene.problem.root]
    for site in range(len(scene.at)) if len(scene.at) <= NAMED_SITES else dict.fromkeys(used_sites):
        labels.keep_free(scene.at[site], radius + 3)
    for site, numbers in scene.operators_at.items():
        lines = [("heading", names[site]), *(line for k in numbers for line in _operator_lines(scene, k))]
        width = max(text_width(text, 12.5 if style == "operator" else 11) for style, text in lines) + 14
        box = labels.place(scene.at[site], radius + 12, width, 15.0 * len(lines) + 7)
        yield from _box(box, lines, scene.at[site])
    for site in _named(scene):
        gap = radius + (10 if site == scene.problem.root else 3.5)
        label = labels.place_if_free(scene.at[site], gap, text_width(names[site], 10), 11.0)
        if label is not None:
            text = escape(names[site])
            for style in ("halo", "site"):
                yield f'<text class="{style}" x="{label.x:.1f}" y="{label.y + 9:.1f}">{text}</text>'


def _points_on_lines(scene: Scene) -> F64:
    """A point every few pixels."""
    lines = {(min(strand.start, strand.to), max(strand.start, strand.to)) for strand in scene.strands}
    shares = np.linspace(0.0, 1.0, 24)[:, None]
    points = [scene.at[low] * (1 - shares) + scene.at[high] * shares for low, high in sorted(lines)]
    return np.concatenate([np.zeros((0, 2)), *points])


def _named(scene: Scene) -> list[int]:
    """Sites with a name beside them. Those of operators are named in their boxes."""
    named = [scene.problem.root, *scene.events_at]
    if len(scene.at) <= NAMED_SITES:
        named += range(len(scene.at))
    elif len(scene.events_at) > NAMED_SOURCES:
        named = named[:1]
    return [site for site in dict.fromkeys(named) if site not in scene.operators_at]


def _operator_lines(scene: Scene, number: int) -> list[tuple[str, str]]:
    operator, placed = scene.problem.operators[number], scene.plan.placed[number]
    steps = [", ".join(dict.fromkeys(operator.inputs[k].event for k in step)) for step in placed.steps]
    text = "; ".join(f"{'pull' if order else 'push'} {step}" for order, step in enumerate(steps))
    return [("operator", operator.name), ("steps", text if len(text) <= 44 else f"{text[:43]}…")]


def _box(label: Label, lines: Sequence[tuple[str, str]], site: F64) -> Iterator[str]:
    x, y = label.x + label.width / 2, label.y + label.height / 2
    yield f'<line x1="{site[0]:.1f}" y1="{site[1]:.1f}" x2="{x:.1f}" y2="{y:.1f}" stroke="#22262c" stroke-width="0.8"/>'
    yield (
        f'<rect x="{label.x:.1f}" y="{label.y:.1f}" width="{label.width:.1f}" height="{label.height:.1f}" rx="5" '
        'fill="#ffffff" stroke="#22262c"/>'
    )
    for number, (style, text) in enumerate(lines):
        at = f'x="{label.x + 7:.1f}" y="{label.y + 15 * number + 15:.1f}"'
        yield f'<text class="{style}" {at}>{escape(text)}</text>'


# ---- legend


def _legend(scene: Scene) -> Iterator[str]:
    problem, plan = scene.problem, scene.plan
    x, y = scene.width - LEGEND + 8, MARGIN
    naive = evaluate(problem, naive_placement(problem)).cost
    share = f" ({plan.cost / naive:.1%} of naive)" if naive else ""
    yield f'<text class="title" x="{x:.0f}" y="{y:.0f}">{escape(plan.mechanism)}</text>'
    for text in (f"cost {plan.cost:.4g} per s{share}", f"latency {plan.latency_ms:.4g} ms"):
        y += 17
        yield f'<text class="legend" x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>'
    y += 28
    yield f'<text class="heading" x="{x:.0f}" y="{y:.0f}">events per s</text>'
    for event, rate in problem.rates.items():
        y += 18
        sources = problem.sources.get(event)
        where = "" if sources is None else f", {len(sources.sites)} site" + "s" * (len(sources.sites) != 1)
        yield from _pie((x + 6, y - 4), 5.0 if sources is not None else 2.5, [scene.colour[event]])
        text = escape(_short(f"{event}  {rate:.3g}{where}"))
        yield f'<text class="legend" x="{x + 20:.0f}" y="{y:.0f}">{text}</text>'
    yield from _legend_of_signs(scene, x, y + 28)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def _legend_of_signs(scene: Scene, x: float, y: float) -> Iterator[str]:
    most = max(scene.strands.values(), default=0.0)
    names = scene.problem.network.names
    signs: Mapping[str, str] = {
        "pushed": f'<line x1="{x:.0f}" y1="-4" x2="{x + 26:.0f}" y2="-4" stroke="#22262c" stroke-width="2.5"/>',
        "pulled, on request": f'<line x1="{x:.0f}" y1="-4" x2="{x + 26:.0f}" y2="-4" stroke="#22262c" '
        'stroke-width="2.5" stroke-dasharray="6 4"/>',
        f"{most:.3g} messages per s": f'<line x1="{x:.0f}" y1="-4" x2="{x + 26:.0f}" y2="-4" stroke="#98a0ac" '
        f'stroke-width="{THICKEST}"/>',
        "operator": f'<rect x="{x + 6:.0f}" y="-11" width="14" height="14" rx="3" fill="none" stroke="#22262c" '
        'stroke-width="2"/>',
        f"root: {names[scene.problem.root]}": _ring(x + 13, -4, 7),
    }
    for text, sign in signs.items():
        yield f'<g transform="translate(0 {y:.0f})">{sign}'
        yield f'<text class="legend" x="{x + 36:.0f}" y="0">{escape(_short(text))}</text></g>'
        y += 20
