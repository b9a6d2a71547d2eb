"""Whether a figure that EdgeCEP states is ours, too."""

from __future__ import annotations

from situ.lab.claims import CheckedClaim

#: So far may ours be from a ratio that the paper states, below or above.
TOLERANCE = 0.25


def ratio_claim(claim: str, seen: str, stated: float, ours: float) -> CheckedClaim:
    """A ratio is held to from both sides: one that is better than the paper's is another one, too.

    >>> [ratio_claim("6.6 times", "", 6.6, ours).holds for ours in (4.9, 5.0, 8.2, 8.3)]
    [False, True, True, False]
    """
    return CheckedClaim(claim, seen, stated * (1 - TOLERANCE) <= ours <= stated * (1 + TOLERANCE))
