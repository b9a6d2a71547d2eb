"""Where events come in from outside."""

from __future__ import annotations

from dataclasses import dataclass

from situ.graph.query import Stream


@dataclass(frozen=True, slots=True)
class Port:
    """Where events of a type come in from outside, for some operators; `stream`, if they are a stream's."""

    type: str
    readers: tuple[str, ...]
    stream: Stream | None
