"""What sites say to each other: frozen dataclasses, and the small JSON header that each of them is on the wire.

A **log** is what one site makes of one type under one version of the plan, numbered once. Sites that read it keep a
position in it. Whatever is sent was committed before; so what comes twice, late or from a site's last life is still
true, and a receiver may drop whatever it has had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args, get_type_hints

from situ.core.errors import SituError
from situ.core.time import BEGINNING, END, FIRST_TIME_US, LAST_TIME_US, LIMIT
from situ.runtime.sites.ranges import Ranges, are_ranges

#: What a log has: events of a type, matches that timed out, rows that came too late, rows that were no events; or the
#: state of an operator, which a version takes over from the one before.
LogKind: TypeAlias = Literal["events", "timed out", "late", "rejected", "state"]

#: Sites that come one after the other.
Way: TypeAlias = tuple[str, ...]
#: No way is longer, and no message has more of them.
LONGEST_WAY, MOST_WAYS = 64, 10_000

#: The position in a log of which its reader wants nothing any more.
FINISHED = END
LONGEST_TEXT = 1 << 16
#: A request asks for so many ranges at most, and a greeting has so many positions.
MOST_RANGES, MOST_POSITIONS = 20_000, 100_000
#: Texts of queries, plans and reports may be longer.
LONGEST_DOCUMENT = 1 << 19


class MessageError(SituError):
    """What another site sent is no message: it is refused, and nothing has changed."""


@dataclass(frozen=True, slots=True, order=True)
class LogName:
    """Which log: what it has, of which type, made where, under which version of the plan.

    `selection` is the number of a selection of the plan: 0 has all events of the type.

    >>> str(LogName("events", "Braking", "north", 2)), LogName.parse("late/Vehicle/south/1").kind
    ('events/Braking/north/2', 'late')
    >>> str(LogName("events", "Flow", "rome", 1, selection=2)), LogName.parse("events/Flow.2/rome/1").selection
    ('events/Flow.2/rome/1', 2)
    """

    kind: LogKind
    type: str
    origin: str
    version: int
    selection: int = 0

    def __str__(self) -> str:
        selected = f".{self.selection}" if self.selection else ""
        return f"{self.kind}/{self.type}{selected}/{self.origin}/{self.version}"

    @property
    def whole(self) -> LogName:
        """The log of all events that a selection is taken of."""
        return LogName(self.kind, self.type, self.origin, self.version)

    @classmethod
    def parse(cls, text: str) -> LogName:
        """The log that `str` wrote; a site's name may have any characters."""
        try:
            kind, type_, rest = text.split("/", 2)
            origin, version = rest.rsplit("/", 1)
            type_, _, selection = type_.partition(".")
            return cls(_one_of(kind, LogKind), type_, origin, int(version), int(selection or 0))
        except ValueError:
            raise MessageError(f"{text[:80]!r} names no log") from None


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One life of a site: a word by chance, and how far the site's logs had come when that life began."""

    word: str
    ends: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LogBatch:
    """Events of a log, numbers `first` to `following - 1`, as Arrow IPC in `rows`.

    No event before `watermark` has a number from `following` on. A batch without numbers is a promise about time
    alone. Where the reader pulls, this holds of what it asked for with `request` and before. `life` is the incarnation
    of the sender. `is_repeat`: these events were sent before, and are counted apart.
    """

    log: LogName
    life: str
    first: int
    following: int
    watermark: int
    request: int = 0
    rows: bytes = b""
    is_repeat: bool = False


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader is in a log: an acknowledgement, and credit.

    `committed` numbers, the promise `watermark` and the answer to `request` survive the reader's end; up to `received`
    it has them in memory. `again`: send from `received` on once more. The reader takes `credit` bytes beyond
    `committed`. `life` is the incarnation of the sender.
    """

    log: LogName
    life: str
    received: int
    committed: int
    watermark: int
    credit: int
    again: bool = False
    request: int = 0


@dataclass(frozen=True, slots=True)
class Hello:
    """Introduces a site in its present life, the last of `lives`. `answer`: say hello, too.

    `version`, `digest` and `starts_us` are those of the newest plan that it runs (version 0: none). `positions` are its
    own in the logs of the receiver.
    """

    lives: tuple[Incarnation, ...]
    version: int
    digest: str
    starts_us: int
    answer: bool
    positions: tuple[Position, ...] = ()


@dataclass(frozen=True, slots=True)
class PullRequest:
    """All times of which a reader pulls events, by filter of its selection: what was asked for before, and more.

    Requests are numbered. The answer has the events that are there, and then those that still come. No event before
    `forget_us` will be asked for any more. The reader's `position` rides along.
    """

    log: LogName
    number: int
    forget_us: int
    ranges: tuple[Ranges, ...]
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """Asks a reader for its position, because it has been silent about what it was sent."""

    log: LogName


@dataclass(frozen=True, slots=True)
class Question:
    """A reader has something undecided: tell me when time has passed `until_us`, and in between whenever `pace_us` have
    passed. `reached_us` is how far other origins have come: an idle source need not hold them back up to there. The
    reader's `position` rides along."""

    log: LogName
    until_us: int
    pace_us: int
    reached_us: int
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A site will read nothing of the receiver any more, because of this."""

    reason: str


@dataclass(frozen=True, slots=True)
class Flood:
    """The record of a broker, as JSON; whoever gets it hands it on over `hops` more links."""

    record: str
    hops: int


@dataclass(frozen=True, slots=True)
class BrokerRequest:
    """A broker asks another one to prepare, begin or abort a plan: the message, as JSON. Answers have its number."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """What became of a broker's request."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class MonitorQuestion:
    """The coordinator of transitions asks a site how it is. `text`: the event times of which it wants to know when
    sources came to them, as JSON. The answer has its number."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class MonitorAnswer:
    """How a site is, as JSON."""

    number: int
    record: str


@dataclass(frozen=True, slots=True)
class Echo:
    """A word to a neighbour, which says it again, so that the way there and back is timed. `at_us` is by the clock of
    the one who asks."""

    at_us: int
    answer: bool


@dataclass(frozen=True, slots=True)
class Relayed:
    """What `origin` says, on its way. `onward` are the ways from the receiver on: the sites that come after it on each
    of them; the empty one ends here."""

    origin: str
    onward: tuple[Way, ...]
    message: (
        Hello
        | LogBatch
        | Position
        | PullRequest
        | Probe
        | Question
        | Refusal
        | Flood
        | BrokerRequest
        | BrokerAnswer
        | MonitorQuestion
        | MonitorAnswer
        | Echo
    )


@dataclass(frozen=True, slots=True)
class Prepare:
    """Get ready for a plan, which is to begin at its `starts_us`. `deployment` is the word of whoever deploys it."""

    plan: str
    deployment: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Whether a site is ready, or why not. `latest_us` is the largest event time that its sources have handed on."""

    version: int
    ready: bool
    reason: str
    latest_us: int


@dataclass(frozen=True, slots=True)
class Go:
    """A prepared plan begins."""

    version: int
    digest: str


@dataclass(frozen=True, slots=True)
class Abort:
    """What a deployment prepared does not begin, and comes too late if it is prepared after this."""

    version: int
    digest: str
    deployment: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """A control message was carried out, or why it was not."""

    done: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StatusQuestion:
    """How are you?"""


@dataclass(frozen=True, slots=True)
class StatusReport:
    """A site's state, as JSON."""

    report: str


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """Which plan do you run?"""


@dataclass(frozen=True, slots=True)
class RunningPlan:
    """The newest plan in which a site has a part, as JSON; nothing, if there is none."""

    plan: str


@dataclass(frozen=True, slots=True)
class Transit:
    """To the coordinator: move operators of the plan that runs, as `text` says (JSON, adapting/tasks.py)."""

    text: str


@dataclass(frozen=True, slots=True)
class ChangeDemands:
    """To the coordinator: a subscription demands this from now on, whatever its text says."""

    subscription: str
    text: str


@dataclass(frozen=True, slots=True)
class Adapt:
    """To the coordinator: move operators by yourself where demands are broken, or do not."""

    on: bool


#: Between sites.
PeerMessage: TypeAlias = (
    Hello
    | LogBatch
    | Position
    | PullRequest
    | Probe
    | Question
    | Refusal
    | Flood
    | BrokerRequest
    | BrokerAnswer
    | MonitorQuestion
    | MonitorAnswer
    | Echo
    | Relayed
)
#: From whoever may control a site, and its answers.
ControlMessage: TypeAlias = Prepare | Go | Abort | StatusQuestion | PlanQuestion | Transit | ChangeDemands | Adapt
ControlAnswer: TypeAlias = Prepared | Done | StatusReport | RunningPlan
Message: TypeAlias = PeerMessage | ControlMessage | ControlAnswer

_KINDS: dict[str, type[Any]] = {kind.__name__.lower(): kind for kind in get_args(Message)}
_TYPES = {kind: get_type_hints(kind) for kind in _KINDS.values()}
_DOCUMENTS = frozenset({"plan", "report", "record", "text"})


def message_to_parts(message: Message) -> tuple[dict[str, Any], bytes]:
    """The header and the body of a message.

    >>> message_to_parts(Probe(LogName("events", "A", "north", 1)))
    ({'kind': 'probe', 'log': 'events/A/north/1'}, b'')
    """
    if isinstance(message, Relayed):
        inner, body = message_to_parts(message.message)
        onward = [list(way) for way in message.onward]
        return {"kind": "relayed", "origin": message.origin, "onward": onward, "message": inner}, body
    header: dict[str, Any] = {"kind": type(message).__name__.lower()}
    body = b""
    for field in fields(message):
        value = getattr(message, field.name)
        if field.name == "rows":
            body = value
        else:
            header[field.name] = _to_json(value)
    return header, body


def message_of(header: Mapping[str, Any], body: bytes = b"") -> Message:
    """The message with this header and body; MessageError if it is none.

    >>> message_of({"kind": "probe", "log": "events/A/north/1"})
    Probe(log=LogName(kind='events', type='A', origin='north', version=1, selection=0))
    >>> message_of({"kind": "go", "version": -1, "digest": "x"})
    Traceback (most recent call last):
    situ.runtime.sites.messages.MessageError: go: version is -1.
    """
    named = header.get("kind")
    kind = _KINDS.get(named) if isinstance(named, str) else None
    if kind is None:
        raise MessageError(f"there is no message of kind {str(header.get('kind'))[:40]!r}")
    if kind is Relayed:
        return _relayed(header, body)
    types_of_fields = _TYPES[kind]
    stated = {name: value for name, value in header.items() if name != "kind"}
    needed = {field.name for field in fields(kind)} - {"rows"}
    if {*stated} != needed:
        raise MessageError(f"a message of kind {header['kind']} has other fields: {', '.join(sorted(stated))[:200]}")
    if body and kind is not LogBatch:
        raise MessageError(f"a message of kind {header['kind']} has a body")
    values = {name: _from_json(value, types_of_fields[name], name, header["kind"]) for name, value in stated.items()}
    message: Message = kind(**values, rows=body) if kind is LogBatch else kind(**values)
    _require_ranges(message)
    return message


def _relayed(header: Mapping[str, Any], body: bytes) -> Relayed:
    match header:
        case {"origin": str(origin), "onward": list(onward), "message": dict(inner), **others} if {*others} == {"kind"}:
            if not 0 < len(onward) <= MOST_WAYS or not all(map(_is_way, onward)):
                raise MessageError("relayed: ways are none")
            message = message_of(inner, body)
            if not isinstance(message, get_args(_TYPES[Relayed]["message"])):
                raise MessageError("relayed: what is handed on is no message between sites")
            return Relayed(origin, tuple(map(tuple, onward)), message)
        case _:
            raise MessageError("a message of kind relayed has other fields")


def _is_way(way: object) -> bool:
    return isinstance(way, list) and len(way) <= LONGEST_WAY and all(isinstance(site, str) for site in way)


def _to_json(value: object) -> Any:
    match value:
        case LogName():
            return str(value)
        case Incarnation(word, ends):
            return [word, dict(ends)]
        case Position():
            return {field.name: _to_json(getattr(value, field.name)) for field in fields(value)}
        case tuple():
            return [_to_json(each) for each in value]
        case _:
            return value


def _from_json(value: object, type_: Any, name: str, kind: str) -> Any:
    """The value of a field, if it has the field's type."""
    match value:
        case str() if type_ is LogName:
            return LogName.parse(value)
        case list() if type_ == tuple[Incarnation, ...] and 0 < len(value) <= 10_000:
            return tuple(_incarnation(each, kind) for each in value)
        case list() if name == "ranges":
            return _sets_of_ranges(value)
        case list() if name == "positions" and len(value) <= MOST_POSITIONS:
            return tuple(map(_position, value))
        case dict() if name == "position":
            return _position(value)
        case None if name == "position":
            return None
        case bool() if type_ is bool:
            return value
        case int() if type_ is int and not isinstance(value, bool) and BEGINNING <= value <= END:
            return value
        case str() if type_ is str and len(value) <= (LONGEST_DOCUMENT if name in _DOCUMENTS else LONGEST_TEXT):
            return value
        case _:
            raise MessageError(f"{kind}: {name} is {str(value)[:40]!r}, which is none")


def _position(value: object) -> Position:
    """A position that rides on another message."""
    message = message_of(value | {"kind": "position"}) if isinstance(value, dict) else None
    if not isinstance(message, Position):
        raise MessageError(f"{str(value)[:40]!r} is no position")
    return message


def _incarnation(value: object, kind: str) -> Incarnation:
    match value:
        case [str(word), dict(ends)] if all(
            isinstance(name, str) and isinstance(end, int) and 0 <= end <= END for name, end in ends.items()
        ):
            return Incarnation(word, ends)
        case _:
            raise MessageError(f"{kind}: lives are damaged")


def _sets_of_ranges(value: list[object]) -> tuple[Ranges, ...]:
    """The ranges of a request, if they are sets of times that events may have, and not too many."""
    sets: list[Ranges] = []
    for each in value:
        if not isinstance(each, list) or not all(_is_range(pair) for pair in each):
            raise MessageError("pullrequest: ranges are none")
        sets.append(tuple((first, last) for first, last in each))
    if sum(map(len, sets)) > MOST_RANGES:
        raise MessageError(f"pullrequest: more than {MOST_RANGES:,} ranges")
    if not all(map(are_ranges, sets)):
        raise MessageError("pullrequest: ranges are not in order, or not apart")
    return tuple(sets)


def _is_range(pair: object) -> bool:
    match pair:
        case [int(first), int(last)]:
            return first >= FIRST_TIME_US - LIMIT and last <= LAST_TIME_US + LIMIT
        case _:
            return False


#: Fields that are 0 at least, whatever message has them.
_NOT_NEGATIVE = (
    *("version", "first", "following", "received", "committed", "credit", "pace_us", "request", "number", "hops"),
)


def _require_ranges(message: Message) -> None:
    kind = type(message).__name__.lower()
    for name in _NOT_NEGATIVE:
        if getattr(message, name, 0) < 0:
            raise MessageError(f"{kind}: {name} is {getattr(message, name)}")
    log = getattr(message, "log", None)
    if log is not None and (log.version < 1 or log.selection < 0):
        raise MessageError(f"{kind}: there is no log {log}")
    match message:
        case LogBatch(first=first, following=following, rows=rows):
            if following < first or following == FINISHED or (first == following and rows):
                raise MessageError(f"batch: numbers {first} to {following} with {len(rows):,} bytes are none")
        case Position(received=received, committed=committed) if received < committed:
            raise MessageError(f"position: {committed} numbers are committed, and {received} received")
        case _:
            pass


def _one_of(value: str, choices: Any) -> Any:
    if value not in get_args(choices):
        raise ValueError(value)
    return value
