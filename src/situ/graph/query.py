"""A query: streams, definitions and subscriptions, as a text or the builder gives them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal as OneOf
from typing import TypeAlias

from situ.core.errors import Place
from situ.core.types import Type
from situ.graph.expressions import Expression
from situ.graph.patterns import Pattern


@dataclass(frozen=True, slots=True)
class AttributeDeclaration:
    """`speed double`, or `x double from position.x`, which reads the field x of the column position."""

    name: str
    type: Type
    path: tuple[str, ...] = ()

    @property
    def source(self) -> tuple[str, ...]:
        """The column, and the fields within it, that the attribute comes from."""
        return self.path or (self.name,)

    @property
    def column(self) -> str:
        """The source in one word: as messages and the headers of CSV files name it.

        >>> from situ.core.types import DOUBLE
        >>> AttributeDeclaration("x", DOUBLE, ("position", "x")).column
        'position.x'
        """
        return ".".join(self.source)


TimeUnit: TypeAlias = OneOf["s", "ms", "us", "ns"]


@dataclass(frozen=True, slots=True)
class Stream:
    """`stream Vehicle(vehicle string, ..., ts timestamp) time ts [in ms] [order n] [at (x, y)] [key vehicle] ...`.

    `time_unit` says what a numeric time attribute counts since the epoch (None for a timestamp attribute). Rows of one
    time that agree in the attribute `unique` are one event, delivered more than once. With `shared`, the attribute
    `order` decides between events of equal time of all streams, before the streams' names do. A location is in metres
    or, with `degrees`, longitude and latitude. Of unbounded input, rows that lie further than `ahead_us` ahead of the
    wall clock are no events.
    """

    name: str
    attributes: tuple[AttributeDeclaration, ...]
    time: str
    time_unit: TimeUnit | None = None
    order: str | None = None
    location: tuple[str, str] | None = None
    key: str | None = None
    watermark_us: int = 0
    idle_after_us: int | None = None
    unique: str | None = None
    degrees: bool = False
    ahead_us: int | None = None
    shared: bool = False
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


class From(Enum):
    """The event from which a window is counted, unless an alias names it."""

    FIRST = "first"  # within T: last - first <= T
    PREVIOUS = "previous"  # within T from previous: between neighbours


@dataclass(frozen=True, slots=True)
class Within:
    """`within 30 s`, `within 30 s from previous`, `within 5 mins from PeopleCount` (anchor is the alias)."""

    micros: int
    anchor: From | str = From.FIRST
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Assignment:
    name: str
    expression: Expression
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


class Skip(Enum):
    """Which later matches are left out after a match."""

    NONE = "no skip"
    TO_NEXT = "to next"
    PAST_LAST = "past last"
    TO_FIRST = "to first"
    TO_LAST = "to last"


@dataclass(frozen=True, slots=True)
class AfterMatch:
    """`after match skip past last`, `after match skip to first b`. alias only for TO_FIRST and TO_LAST."""

    skip: Skip = Skip.NONE
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """`after match pause 1 h`: after a match, none that starts within that time."""

    micros: int


@dataclass(frozen=True, slots=True)
class Case:
    """One `detect [once] ... assign ... consuming ...`; number is None unless the text says `case n:`."""

    detect: Pattern
    within: Within | None = None
    assign: tuple[Assignment, ...] = ()
    consuming: tuple[str, ...] = ()
    number: int | None = None
    once: bool = False
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Window:
    """`every 2 mins`, `every 1 min over 10 mins`, `every 10 events over 100 events`. Tumbling where over == every.

    Both lengths are microseconds (unit "time") or numbers of events (unit "events").
    """

    every: int
    over: int
    unit: OneOf["time", "events"] = "time"


@dataclass(frozen=True, slots=True)
class Aggregation:
    """`aggr every T`: the window, and the `<post>` part's assignments (empty where there is none)."""

    window: Window
    post: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True)
class Join:
    """`join every T [over W] on k`: pairs of events of one window that agree in `on`."""

    window: Window
    on: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """What a definition and a subscription have in common.

    Exactly one of: a pattern rule (kind None), an aggregation, a window join. No text says `tallied`: instead of its
    matches, a pattern gives for each event that completes some what is counted and summed of them
    (`situ.graph.tallies`), and the aggregates in `assign` are over the matches.
    """

    cases: tuple[Case, ...]
    kind: Aggregation | Join | None = None
    group_by: tuple[str, ...] = ()
    after_match: AfterMatch | Pause = AfterMatch()
    timed_out: bool = False
    tallied: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """`define Name(attributes) ...`."""

    name: str
    attributes: tuple[str, ...]
    rule: Rule
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Around:
    """`around Consumer square 500 m`; sizes are metres. rectangle has two, the others one."""

    focal: str
    shape: OneOf["square", "rectangle", "circle"]
    sizes_m: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """`update basic | every T | moved D | when quality`; amount is microseconds or metres."""

    when: OneOf["basic", "every", "moved", "quality"]
    amount: int | float | None = None


@dataclass(frozen=True, slots=True)
class Quality:
    """`quality precision 0.9 recall 0.9 disparity 0.5`; `quality precision wanted`, where `wanted` is an attribute of
    the consumers' stream."""

    precision: float | str | None = None
    recall: float | str | None = None
    disparity: float | None = None


@dataclass(frozen=True, slots=True)
class Demand:
    """`demand latency < 100 ms, overhead < 10 KB, load < 500, hops < 4, bandwidth-delay < 2.5`.

    The limit is in microseconds, bytes of control messages per broker, input events per second at a site, hops, and
    events that are under way at a time.
    """

    metric: OneOf["latency", "overhead", "load", "hops", "bandwidth-delay"]
    limit: int | float


@dataclass(frozen=True, slots=True)
class Subscription:
    """`subscribe Name [for Consumer(id)] ...`, or EdgeCEP's `Subscription seq 1 from User1 to AirController`.

    An EdgeCEP subscription is named `<subscriber>_<sequence>`. A consumer leaves with a location update of which
    `leave_when` is true, and `leave_after_us` after the last one.
    """

    name: str
    rule: Rule
    consumer: tuple[str, str] | None = None
    around: Around | None = None
    lifetime_us: int | None = None
    update: Update | None = None
    deliver: OneOf["complete", "best effort"] | None = None
    quality: Quality | None = None
    demands: tuple[Demand, ...] = ()
    sequence: int | None = None
    subscriber: str | None = None
    actor: str | None = None
    leave_when: Expression | None = None
    leave_after_us: int | None = None
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, repr=False)
class Query:
    """Everything one file says.

    >>> Query((Stream("Door", (), "ts"), Stream("Bell", (), "ts")))
    Query(streams: Door, Bell)
    """

    streams: tuple[Stream, ...] = ()
    definitions: tuple[Definition, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()

    def __repr__(self) -> str:
        """The names alone: `situ.unparse` gives the text."""
        return f"Query({self.contents})"

    @property
    def contents(self) -> str:
        """The names of what the query declares."""
        names = {
            "streams": [stream.name for stream in self.streams],
            "definitions": [definition.name for definition in self.definitions],
            "subscriptions": [subscription.name for subscription in self.subscriptions],
        }
        return "; ".join(f"{kind}: {', '.join(of_kind)}" for kind, of_kind in names.items() if of_kind)

    def _repr_html_(self) -> str:
        from situ.graph.html import svg_to_image
        from situ.graph.picture import query_to_svg

        return svg_to_image(query_to_svg(self), repr(self))
