"""What a site reads from: rows with the position after them, so that reading goes on there after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from situ.core.errors import StateError
from situ.io.rows.conform import Conformed

#: Rows of one piece, at most: enough that columns pay, few enough that a commit is short.
PIECE_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Rows as they came, and the position after them, in the source's own words. `ended`: no more will come."""

    rows: Conformed | None
    position: str
    ended: bool = False


class SiteSource(Protocol):
    """Events of one stream at one site. It is read in a thread of its own."""

    def read(self, position: str | None) -> Iterator[SourceRows | None]:
        """Everything after a position (None: from the beginning). None: nothing came, although it waited a moment."""
        ...

    def taken(self, position: str) -> None:
        """All before a position is on the disk of the site: what keeps it for the source may forget it."""
        ...

    def close(self) -> None:
        """Ends connections."""
        ...


def position_to_text(position: dict[str, Any]) -> str:
    return json.dumps(position, sort_keys=True)


def position_of_text(text: str, place: str) -> dict[str, Any]:
    """What `position_to_text` wrote; StateError if a source of another kind did."""
    try:
        position = json.loads(text)
    except ValueError:
        position = None
    if not isinstance(position, dict):
        raise StateError("the position that is stored is none of this source", place=place, remedy=OTHER_SOURCE)
    return position


OTHER_SOURCE = "Give the source that was given before, or begin with a new directory."


def slices(rows: Conformed, most: int = PIECE_ROWS) -> Iterator[Conformed]:
    """Rows in pieces of a size that a site takes at once. What is rejected comes with the first."""
    count = len(rows.times)
    for start in range(0, max(count, 1), most):
        rejected = rows.rejected if start == 0 else rows.rejected.slice(0, 0)
        yield Conformed(rows.events.slice(start, most), rows.times[start : start + most], rejected)
