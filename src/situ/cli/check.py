"""`situ check`: is this file a query?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from situ.cli.query_file import import_functions, read_query, without_looking_for_garbage
from situ.lang.resolve import resolve, warnings
from situ.mobility.moving_query import moving_queries

#: So many warnings are shown; `--json` has all of them.
MOST_WARNINGS = 20


@dataclass(frozen=True, slots=True)
class Checked:
    """What a query file has in it.

    >>> print(Checked(1, 0, 2, ("q.situ:3:1: no window.",)))
    OK: 1 stream, 0 definitions, 2 subscriptions
    warning: q.situ:3:1: no window.
    """

    streams: int
    definitions: int
    subscriptions: int
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        parts = ("stream", self.streams), ("definition", self.definitions), ("subscription", self.subscriptions)
        counts = ", ".join(f"{n:,} {noun}" + ("" if n == 1 else "s") for noun, n in parts)
        shown = [f"warning: {warning}" for warning in self.warnings[:MOST_WARNINGS]]
        left = len(self.warnings) - len(shown)
        return "\n".join([f"OK: {counts}", *shown, *([f"... and {left:,} more warnings"] if left else [])])

    def to_json(self) -> dict[str, Any]:
        return {
            "streams": self.streams,
            "definitions": self.definitions,
            "subscriptions": self.subscriptions,
            "warnings": list(self.warnings),
        }


@without_looking_for_garbage()
def check_file(file: Path, functions: str | None) -> Checked:
    """The contents of a query file, or the error in it."""
    import_functions(functions)
    query = read_query(file)
    graph = resolve(query)
    moving_queries(graph)  # what moves needs windows: say so here, not when it runs
    messages = tuple(str(warning) for warning in warnings(graph))
    return Checked(len(query.streams), len(query.definitions), len(query.subscriptions), messages)
