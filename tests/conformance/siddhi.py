"""Siddhi's own pattern and sequence cases as situ text (siddhi_patterns.jsonl, Apache-2.0, from Siddhi's tests).

`read_app` reads the part of SiddhiQL that occurs in the cases, `to_situ` says a query of it as one subscription `M`.
The shape of a query decides how it is said, never its events. Some texts match more than Siddhi's query does, and agree
on the events of the cases: pairs of `every (e1 -> e2) -> e3` may overlap, and where `every` stands further behind, each
event that the first step takes has matches, not the first one only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_never

LONG = "1 min"  # longer than any of the cases
TYPES = {"string": "string", "float": "double", "double": "double", "int": "int", "long": "int"}
TOKEN = re.compile(r"\s*(->|[(),+*?\[\];=<>:]|\d+(?:\.\d+)?|\w+)")


class Unsayable(Exception):
    """Siddhi's query has no counterpart in one subscription."""


# ---- what SiddhiQL says


@dataclass(frozen=True, slots=True)
class Taken:
    """A step that takes events: `alias=stream[condition]<low:high>`."""

    alias: str
    stream: str
    condition: str | None
    low: int = 1
    high: int | None = 1

    @property
    def is_loop(self) -> bool:
        return (self.low, self.high) != (1, 1)


@dataclass(frozen=True, slots=True)
class Absent:
    """`not stream[condition] for duration`, or without a duration."""

    stream: str
    condition: str | None
    duration: str | None


@dataclass(frozen=True, slots=True)
class Both:
    left: Taken | Absent
    right: Taken | Absent


@dataclass(frozen=True, slots=True)
class Either:
    left: Taken | Absent
    right: Taken | Absent


@dataclass(frozen=True, slots=True)
class Chain:
    """Parts with `->` between them, or with `,`."""

    parts: tuple[Part, ...]
    strict: bool


@dataclass(frozen=True, slots=True)
class Every:
    part: Part


Part = Taken | Absent | Both | Either | Chain | Every


@dataclass(frozen=True, slots=True)
class App:
    """The streams with their attributes, and the one query over them."""

    streams: dict[str, list[tuple[str, str]]]
    pattern: Part
    within: str | None
    select: list[tuple[str, str]]
    key: str | None


@dataclass(frozen=True, slots=True)
class SiddhiCase:
    """`expected` are the rows that Siddhi gives until `end_ms`; where it is null, only their number is known."""

    name: str
    app: str
    events: list[dict[str, Any]]
    end_ms: int
    expected: list[list[Any]] | None
    expected_count: int | None


def load() -> list[SiddhiCase]:
    path = Path(__file__).parent / "siddhi_patterns.jsonl"
    return [to_case(json.loads(line)) for line in path.read_text().splitlines()]


def to_case(record: dict[str, Any]) -> SiddhiCase:
    file = record["source"].rsplit("/", 1)[1].removesuffix("TestCase.java")
    rest = {name: record[name] for name in ("app", "events", "end_ms", "expected", "expected_count")}
    return SiddhiCase(f"{file} {record['test']}", **rest)


# ---- reading SiddhiQL


def read_app(text: str) -> App:
    if "#window" in text:
        raise Unsayable("a window of its own leads up to the sequence")
    streams = {
        name: [(word.split()[0], word.split()[1]) for word in attributes.split(",")]
        for name, attributes in re.findall(r"define stream (\w+)\s*\(([^)]*)\)", text)
    }
    keys = re.findall(r"partition with \((\w+) of", text)
    pattern, select = re.search(r"\bfrom\b(.*?)\bselect\b(.*?)\binsert into", text, re.DOTALL).groups()  # type: ignore[union-attr]
    reader = Reader(pattern)
    return App(streams, reader.chain(), reader.within, list(read_select(select)), keys[0] if keys else None)


def read_select(text: str) -> Iterator[tuple[str, str]]:
    """The names of the columns, each with its expression."""
    for column in text.split(","):
        expression, _, name = column.strip().partition(" as ")
        yield name.strip() or expression.split(".")[-1], expression.strip()


class Reader:
    """Reads a pattern from left to right. `within` is the window, wherever it stands."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self._at = 0
        self._aliases: list[str] = []
        self.within: str | None = None

    def chain(self) -> Part:
        parts, strict = [self._part()], False
        while self._next() in ("->", ","):
            strict = self._take() == ","
            parts.append(self._part())
        self._window()
        return parts[0] if len(parts) == 1 else Chain(tuple(parts), strict)

    def _part(self) -> Part:
        if self._accept("every"):
            return Every(self._part())
        if self._accept("("):
            part = self.chain()
            assert self._accept(")")
            self._window()
            return part
        left = self._source()
        if self._accept("and"):
            return Both(left, self._source())
        if self._accept("or"):
            return Either(left, self._source())
        return left

    def _source(self) -> Taken | Absent:
        if self._accept("not"):
            stream, condition = self._take(), self._condition()
            return Absent(stream, condition, self._duration() if self._accept("for") else None)
        stream = alias = self._take()
        if self._accept("="):
            stream = self._take()
        return Taken(self._unused(alias), stream, self._condition(), *self._bounds())

    def _unused(self, alias: str) -> str:
        """Siddhi allows an alias twice, situ does not."""
        while alias in self._aliases:
            alias += "_again"
        self._aliases.append(alias)
        return alias

    def _condition(self) -> str | None:
        """The text between the brackets; indices in it have brackets, too."""
        if not self._accept("["):
            return None
        begin, depth = self._at, 1
        while depth:
            depth += {"[": 1, "]": -1}.get(self._text[self._at], 0)
            self._at += 1
        return self._text[begin : self._at - 1].strip()

    def _bounds(self) -> tuple[int, int | None]:
        for sign, bounds in {"+": (1, None), "*": (0, None), "?": (0, 1)}.items():
            if self._accept(sign):
                return bounds
        if not self._accept("<"):
            return 1, 1
        low = 0 if self._next() == ":" else int(self._take())
        high: int | None = low
        if self._accept(":"):
            high = None if self._next() == ">" else int(self._take())
        assert self._accept(">")
        return low, high

    def _window(self) -> None:
        if self._accept("within"):
            self.within = self._duration()

    def _duration(self) -> str:
        number, unit = re.match(r"\s*(\d+)\s*([a-z]+)", self._text[self._at :]).groups()  # type: ignore[union-attr]
        self._at = self._text.index(unit, self._at) + len(unit)
        return f"{number} {unit}"

    def _next(self) -> str | None:
        token = TOKEN.match(self._text, self._at)
        return token[1] if token else None

    def _take(self) -> str:
        token = TOKEN.match(self._text, self._at)
        assert token, self._text[self._at :]
        self._at = token.end()
        return token[1]

    def _accept(self, word: str) -> bool:
        return self._next() == word and bool(self._take())


# ---- saying it in situ's language


def to_situ(app: App) -> str:
    streams = [
        f"stream {name}({', '.join(f'{attribute} {TYPES[type_]}' for attribute, type_ in attributes)}, n int, t int)"
        " time t in ms order n shared"
        for name, attributes in app.streams.items()
    ]
    return "\n".join([*streams, "subscribe M", *to_rule(app)])


def to_rule(app: App) -> Iterator[str]:
    saying = Saying(app.pattern)
    once = "once " if not has_every(app.pattern) and app.key is None else ""
    yield f"  detect {once}{saying.text} within {app.within or LONG}"
    columns = [(name, saying.expression(text)) for name, text in app.select if name != "*"]
    yield "  assign " + ", ".join(f"{name} = {text}" for name, text in columns or [("found", "true")])
    if app.key is not None:
        yield f"  group by {app.key}"
    if after_match := to_after_match(app):
        yield f"  after match {after_match}"


def to_after_match(app: App) -> str | None:
    """With `every` before one step, each event that it takes has one match. With `every` around the whole pattern, the
    next begins when the last is over; in a sequence, with the event that ends the last. An `every` before a silence, or
    further behind, tells all matches."""
    pattern = app.pattern
    first = pattern.parts[0] if isinstance(pattern, Chain) else pattern
    if not has_every(pattern):
        return f"pause {LONG}" if app.key is not None else None
    if isinstance(pattern, Every) and isinstance(pattern.part, Chain | Both):
        return "skip past last"
    if not isinstance(first, Every) or has_silence(first):
        return None
    if isinstance(pattern, Chain) and pattern.strict and isinstance(pattern.parts[-1], Taken):
        return f"skip to first {pattern.parts[-1].alias}"
    return "skip to next"


def parts_of(part: Part) -> Iterator[Part]:
    """The part itself and all parts in it, in the order of the text."""
    yield part
    match part:
        case Taken() | Absent():
            return
        case Both(left, right) | Either(left, right):
            yield from (left, right)
        case Chain(parts):
            for inner in parts:
                yield from parts_of(inner)
        case Every(inner):
            yield from parts_of(inner)
        case _:
            assert_never(part)


def steps(pattern: Part) -> list[Taken]:
    return [part for part in parts_of(pattern) if isinstance(part, Taken)]


def has_every(pattern: Part) -> bool:
    return any(isinstance(part, Every) for part in parts_of(pattern))


def has_silence(pattern: Part) -> bool:
    return any(isinstance(part, Absent) and part.duration for part in parts_of(pattern))


def is_all_silence(part: Part) -> bool:
    """Whether the part takes no event: a silence, or two that are both to be over."""
    return isinstance(part, Absent | Both) and not steps(part)


def guarded(part: Part) -> tuple[Absent, Taken] | None:
    """What does not come before which step, where there is no duration: X and Y of `not X and e=Y`."""
    match part:
        case Both(Absent(duration=None) as absent, Taken() as step):
            return absent, step
        case Both(Taken() as step, Absent(duration=None) as absent):
            return absent, step
        case _:
            return None


class Saying:
    """A pattern in situ's words: `text`, and what its expressions are there.

    `every` is a loop wherever it does not come first, and before a silence: each length is a match, and the last
    repetition is the one that Siddhi tells of.
    """

    def __init__(self, pattern: Part) -> None:
        self._loops = {step.alias for step in steps(pattern) if step.high != 1}
        self._repeated: set[str] = set()
        self._strict = any(part.strict for part in parts_of(pattern) if isinstance(part, Chain))
        self._streams = list(dict.fromkeys(p.stream for p in parts_of(pattern) if isinstance(p, Taken | Absent)))
        parts = pattern.parts if isinstance(pattern, Chain) else (pattern,)
        self._last = parts[-1]
        self.text = self._chain(parts)
        if guard := guarded(parts[0]):
            self.text = self._or_broken(guard[0])

    def expression(self, text: str) -> str:
        return re.sub(
            r"\b([a-z]\w*)(?:\[([\w-]+)\])?\.([a-z]\w*)",
            lambda found: self._element(*found.groups()),
            re.sub(r"\b(\d+\.\d+)f\b", r"\1", text.replace("==", "=").replace("ifThenElse", "if")),
        )

    def _element(self, alias: str, index: str | None, attribute: str) -> str:
        """An event of a loop by its place, from the beginning or from the end; without a place it is the first."""
        if alias in self._repeated:
            return f"last({alias}.{attribute})"
        if alias not in self._loops:
            return f"{alias}.{attribute}"
        function = "last" if index and index.startswith("last") else "first"
        return f"{function}({alias}.{attribute}, {(index or '').removeprefix('last').removeprefix('-') or 0})"

    def _or_broken(self, absent: Absent) -> str:
        """What must not come before the first step is a start itself, which `once` lets live and which has no match."""
        return f"({self._test(absent)} as broken then {absent.stream}(false) as never) or ({self.text})"

    def _chain(self, parts: tuple[Part, ...]) -> str:
        first, rest = parts[0], parts[1:]
        if self._strict and rest and isinstance(first, Every) and is_all_silence(first.part):
            text = self._repeat(Chain((first.part, rest[0]), True))
            rest = rest[1:]
        elif isinstance(first, Every):
            text = self._first_every(first.part)
        else:
            guard = guarded(first)
            text = self._say(guard[1] if guard else first)
        return text + "".join(self._following(part) for part in rest)

    def _first_every(self, part: Part) -> str:
        match part:
            case Absent():
                return f"({self._say(part)})+"
            case Both() if is_all_silence(part):
                raise Unsayable("situ repeats no `and`")
            case Both() if guarded(part):
                raise Unsayable("no `not` comes before the first step of each match")
            case Either(left, right) if not self._strict:
                return f"({self._first_every(left)} or {self._first_every(right)})"
            case Chain(parts):
                return f"({self._chain(parts)})"
            case _:
                return self._say(part)

    def _following(self, part: Part) -> str:
        inner = part.part if isinstance(part, Every) else part
        then = " then immediately " if self._strict and not self._may_wait(inner) else " then "
        if self._strict and isinstance(part, Absent):
            return then + self._strict_silence(part)
        guard = guarded(inner)
        if guard is None:
            return then + (self._repeat(inner) if isinstance(part, Every) else self._say(inner))
        test, step = self._test(guard[0]), guard[1]
        if not isinstance(part, Every):
            return f" then not {test}{then}{self._say(step)}"
        self._repeated.add(step.alias)
        return f" then not {test}{then}{self._test(step)}+ until {test} as {step.alias}"

    def _strict_silence(self, absent: Absent) -> str:
        """In a sequence, events of the other streams break a silence, and those of its own that meet its condition."""
        others = [f"no {stream} for {absent.duration}" for stream in self._streams if stream != absent.stream]
        return f"({' and '.join([self._say(absent), *others])})"

    def _may_wait(self, part: Part) -> bool:
        """Events that do not break a silence may come in it."""
        return isinstance(part, Absent) or (isinstance(part, Both) and has_silence(part))

    def _repeat(self, part: Part) -> str:
        if isinstance(part, Both):  # situ repeats no `and`: each of its matches is told
            return self._say(part)
        self._repeated |= {step.alias for step in steps(part)}
        return f"{self._test(part)}+ as {part.alias}" if isinstance(part, Taken) else f"({self._say(part)})+"

    def _say(self, part: Part) -> str:
        match part:
            case Taken():
                return f"{self._test(part)}{self._loop(part)} as {part.alias}"
            case Absent(_, _, duration):
                return f"no {self._test(part)} for {duration}"
            case Both(left, right):
                return f"({self._say(left)} and {self._say(right)})"
            case Either(left, right):
                return f"({self._say(left)} or {self._say(right)})"
            case Chain(parts):
                return self._chain(parts)
            case Every(inner):
                return self._repeat(inner)
            case _:
                assert_never(part)

    def _loop(self, step: Taken) -> str:
        """Siddhi tells a match as soon as a loop at the end has its smallest length."""
        if not step.is_loop:
            return ""
        high = step.low if step is self._last and step.low else step.high
        return f"{{{step.low},{'' if high is None else high}}}{' immediately' if self._strict else ''}"

    def _test(self, part: Taken | Absent) -> str:
        return part.stream + (f"({self.expression(part.condition)})" if part.condition else "")
