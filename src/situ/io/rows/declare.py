"""A `stream` declaration for columns that were found: the attributes, and a guess at time, place and key.

The guesses are plain rules about names and types, and the text says in comments what was guessed, so that a person
changes what is wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from situ.core.errors import InputError
from situ.core.types import INT, STRING, TIMESTAMP, is_numeric
from situ.graph.query import AttributeDeclaration, Stream, TimeUnit
from situ.io.rows.found_columns import FoundColumn
from situ.lang.unparse import unparse_attribute, unparse_name, unparse_stream_clauses

LINE_LENGTH = 100

#: Words in the names of columns that hold times, the best first.
TIME_WORDS = ("ts", "timestamp", "time", "datetime", "date", "epoch", "when", "at", "t")
UNITS: dict[str, TimeUnit] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "usec", "micros", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nsec", "nanos", "nanoseconds"), "ns"),
}
#: What is larger than this many since the epoch counts the unit: the year 5138 in s is 1973 in ms.
SMALLEST_OF_UNIT: tuple[tuple[float, TimeUnit], ...] = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"))

LONGITUDES, LATITUDES = ("lon", "lng", "long", "longitude"), ("lat", "latitude")


@dataclass(frozen=True, slots=True)
class Declaration:
    """A stream, and what a person should know about how it came about."""

    stream: Stream
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """The declaration as a text that parses, with the notes as comments."""
        attributes = [unparse_attribute(attribute) for attribute in self.stream.attributes]
        head = f"stream {unparse_name(self.stream.name)}("
        on_one_line = f"{head}{', '.join(attributes)})"
        declared = on_one_line if len(on_one_line) <= LINE_LENGTH else head + "\n  " + ",\n  ".join(attributes) + "\n)"
        lines = [
            *(f"-- {note}" for note in self.notes),
            declared,
            f"  {'  '.join(unparse_stream_clauses(self.stream))}",
        ]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class _Named:
    """A column under the name of its attribute, and the words that the name of the column is made of."""

    name: str
    column: FoundColumn

    @property
    def words(self) -> tuple[str, ...]:
        return words_of(self.column.path[-1])


def declare_columns(columns: Sequence[FoundColumn], name: str) -> Declaration:
    """The declaration of a stream with these columns; InputError where none of them can be its time."""
    named, left_out = _attributes(columns)
    time, unit, about_time = _time(named)
    location, degrees, about_place = _location(named, time)
    key, about_key = _key(named, name, {time.name, *(location or ())})
    attributes = tuple(_declaration(attribute) for attribute in named)
    stream = Stream(name, attributes, time.name, unit, location=location, key=key, degrees=degrees)
    return Declaration(stream, (about_time, *about_place, *about_key, *left_out))


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, in small letters.

    >>> words_of("eventTime_ms"), words_of("GPS position")
    (('event', 'time', 'ms'), ('gps', 'position'))
    """
    return tuple(word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|\d+", name))


def stream_name(stem: str) -> str:
    """What the events of a file are called: `harbour_vehicles` hold a `HarbourVehicle` each.

    >>> stream_name("harbour_vehicles"), stream_name("2024-05"), stream_name("Status")
    ('HarbourVehicle', 'Event', 'Status')
    """
    words = [*words_of(stem)]
    while words and words[0].isdigit():
        del words[0]
    if not words:
        return "Event"
    last = words[-1]
    if last.endswith("s") and len(last) > 3 and not last.endswith(("ss", "us", "is")):
        words[-1] = last[:-1]
    return "".join(word.capitalize() for word in words)


# ---- attributes


def _attributes(columns: Sequence[FoundColumn]) -> tuple[list[_Named], list[str]]:
    """The columns that can be declared, and a note for each of the others."""
    times = Counter(column.path for column in columns)
    names_in_use = {column.path[0].lower() for column in columns if _is_plain(column)}
    named: list[_Named] = []
    left_out: dict[str, None] = {}
    for column in columns:
        shown = repr(".".join(column.path))
        if column.type is None:
            left_out[f"left out: {shown}, which is {column.found}, and situ does not read it"] = None
        elif times[column.path] > 1:
            left_out[f"left out: {shown}, which is there {times[column.path]} times"] = None
        elif not all(column.path):
            left_out["left out: a column without a name"] = None
        else:
            named.append(_Named(column.path[0] if _is_plain(column) else _free_name(column.path, names_in_use), column))
    return named, [note.replace("\n", " ") for note in left_out]


def _is_plain(column: FoundColumn) -> bool:
    """Whether the column's own name can be the attribute's, and needs no quotes."""
    return len(column.path) == 1 and re.fullmatch(r"(?!_)[^\W\d]\w*", column.path[0]) is not None


def _free_name(path: Iterable[str], names_in_use: set[str]) -> str:
    """A name that needs no quotes, for a column whose own does; `names_in_use` are names in small letters."""
    plain = re.sub(r"\W+", "_", "_".join(path)).strip("_")
    base = plain if re.match(r"[^\W\d]", plain) else f"column_{plain}".rstrip("_")
    name, number = base, 2
    while name.lower() in names_in_use:
        name, number = f"{base}_{number}", number + 1
    names_in_use.add(name.lower())
    return name


def _declaration(named: _Named) -> AttributeDeclaration:
    assert named.column.type is not None, "others are left out"
    path = () if named.column.path == (named.name,) else named.column.path
    return AttributeDeclaration(named.name, named.column.type, path)


# ---- time, place, key


def _time(named: Sequence[_Named]) -> tuple[_Named, TimeUnit | None, str]:
    timestamps = [attribute for attribute in named if attribute.column.type is TIMESTAMP]
    if timestamps:
        best = min(timestamps, key=_time_rank)
        alternatives = f"; also a timestamp: {', '.join(o.name for o in timestamps if o is not best)}"
        return best, None, f"time: {best.name} is a timestamp" + alternatives * (len(timestamps) > 1)
    numbers = [
        attribute for attribute in named if attribute.column.type is not None and is_numeric(attribute.column.type)
    ]
    if not numbers:
        raise InputError(
            "no column can be the time of an event: there is neither a timestamp nor a number",
            remedy="Add one, or convert a column of text to timestamps.",
        )
    called = [attribute for attribute in numbers if _time_rank(attribute) < len(TIME_WORDS)]
    if not called:
        first = next((attribute for attribute in numbers if attribute.column.type is INT), numbers[0])
        return first, "s", f"time: NOTHING LOOKS LIKE A TIME. {first.name} in s is a mere placeholder: change it"
    best = min(called, key=_time_rank)
    unit, why = _unit(best)
    return best, unit, f"time: {best.name} is called like a time; {unit} {why}"


def _time_rank(named: _Named) -> int:
    ranks = [TIME_WORDS.index(word) for word in named.words if word in TIME_WORDS]
    return min(ranks, default=len(TIME_WORDS))


def _unit(named: _Named) -> tuple[TimeUnit, str]:
    for word in reversed(named.words):
        if word in UNITS:
            return UNITS[word], "by its name"
    largest = named.column.largest
    if largest is None:
        return "s", "is a guess: nobody looked at the values"
    unit: TimeUnit = next((unit for smallest, unit in SMALLEST_OF_UNIT if largest >= smallest), "s")
    return unit, "by the size of its values"


def _location(named: Sequence[_Named], time: _Named) -> tuple[tuple[str, str] | None, bool, tuple[str, ...]]:
    """The first pair of numbers that are called like coordinates, of one struct or of none."""
    numbers = {
        (attribute.column.path[:-1], attribute.column.path[-1].lower()): attribute.name
        for attribute in named
        if attribute is not time and attribute.column.type is not None and is_numeric(attribute.column.type)
    }
    for outer, _ in numbers:
        for longitude in LONGITUDES:
            for latitude in LATITUDES:
                if (outer, longitude) in numbers and (outer, latitude) in numbers:
                    x, y = numbers[outer, longitude], numbers[outer, latitude]
                    return (x, y), True, (f"at: {x} and {y} are called like degrees",)
        if (outer, "x") in numbers and (outer, "y") in numbers:
            x, y = numbers[outer, "x"], numbers[outer, "y"]
            return (x, y), False, (f"at: {x} and {y} are taken for metres",)
    return None, False, ()


def _key(named: Sequence[_Named], stream: str, used_elsewhere: set[str]) -> tuple[str | None, tuple[str, ...]]:
    """Whom an event is about: a column called like the stream, or like an identifier."""
    candidates = [
        attribute
        for attribute in named
        if attribute.column.type in (STRING, INT) and attribute.name not in used_elsewhere
    ]
    about = words_of(stream)
    for attribute in candidates:
        if attribute.words and attribute.words == about[-len(attribute.words) :]:
            return attribute.name, (f"key: {attribute.name} is called like the stream",)
    for attribute in candidates:
        if attribute.words and attribute.words[-1] in ("id", "key", "uuid"):
            return attribute.name, (f"key: {attribute.name} is called like an identifier",)
    return None, ()
