"""What a paper says of a figure, part by part, and whether it is so here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """One thing that the paper says, what we see, and whether this is so here."""

    claim: str
    seen: str
    holds: bool


def verdict(parts: Sequence[CheckedClaim]) -> str:
    """
    >>> verdict([CheckedClaim("up", "down", False), CheckedClaim("steady", "steady", True)])
    'holds in part'
    """
    held = sum(part.holds for part in parts)
    return "holds" if held == len(parts) else "holds in part" if held else "does not hold"
