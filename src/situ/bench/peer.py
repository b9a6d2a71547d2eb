"""What a peer did with a workload's events."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PeerRun:
    """How many events a peer has read and how many matches it has found, and its speed by its own clock."""

    name: str
    events: int
    matches: int
    events_per_s: float
