"""The placement mechanisms by name. Each is a pure function: problem -> plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from situ.core.errors import did_you_mean
from situ.placement.auto import auto
from situ.placement.cpp import cpp
from situ.placement.exhaustive import exhaustive
from situ.placement.greedy import greedy, greedy_plus
from situ.placement.grin import grin
from situ.placement.heuristic import heuristic, heuristic_plus
from situ.placement.naive import naive
from situ.placement.optimal import optimal
from situ.placement.plan import Plan
from situ.placement.problem import PlacementError, Problem
from situ.placement.sbon import sbon

Mechanism: TypeAlias = Callable[[Problem], Plan]

MECHANISMS: dict[str, Mechanism] = {
    "naive": naive,
    "cpp": cpp,
    "grin": grin,
    "sbon": sbon,
    "exhaustive": exhaustive,
    "optimal": optimal,
    "greedy": greedy,
    "greedy+": greedy_plus,
    "heuristic": heuristic,
    "heuristic+": heuristic_plus,
    "auto": auto,
}


def mechanism(name: str) -> Mechanism:
    """
    >>> mechanism("greedy+").__name__
    'greedy_plus'
    """
    if name not in MECHANISMS:
        raise PlacementError(f"there is no mechanism {name!r}", remedy=did_you_mean(name, MECHANISMS))
    return MECHANISMS[name]
