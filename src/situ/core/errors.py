"""Errors that name the place, the cause and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a query text something stands; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class SituError(Exception):
    """Base of everything situ raises for a user's mistake.

    >>> str(SituError("no such stream 'Vehicl'", place=Place("q.situ", 4, 13), remedy="Did you mean 'Vehicle'?"))
    "q.situ:4:13: no such stream 'Vehicl'.\\n  Did you mean 'Vehicle'?"
    """

    def __init__(self, cause: str, *, place: Place | str | None = None, remedy: str = "") -> None:
        self.cause = cause.rstrip(".")
        self.place = place
        self.remedy = remedy
        where = f"{place}: " if place else ""
        super().__init__(f"{where}{self.cause}." + (f"\n  {remedy}" if remedy else ""))


class QuerySyntaxError(SituError):
    """The text is not a query."""


class QueryError(SituError):
    """The query is well formed but means nothing: an unknown name, a wrong type, a cycle."""


class InputError(SituError):
    """The data does not fit the query: a missing file, a missing column, a column of the wrong type."""


class StateError(SituError):
    """A snapshot cannot be restored: another version, another program."""


class MemoryExceeded(SituError):
    """A query needs more memory than it may use."""


class SituWarning(UserWarning):
    """What a query says runs, but not as one may expect."""


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """The remedy line for an unknown name.

    >>> did_you_mean("sped", ["speed", "lane"])
    "known: lane, speed. Did you mean 'speed'?"
    """
    names = sorted(candidates)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"known: {', '.join(names) or '(none)'}.{hint}"
