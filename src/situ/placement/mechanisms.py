"""The placement mechanisms by name. Each is a pure function: problem -> plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from situ.core.errors import did_you_mean
from situ.placement.auto import auto
from situ.placement.central import central
from situ.placement.cpp import cpp
from situ.placement.edgecep import edgecep
from situ.placement.edgecep_optimal import edgecep_optimal
from situ.placement.exhaustive import exhaustive
from situ.placement.greedy import greedy, greedy_plus
from situ.placement.grin import grin
from situ.placement.heuristic import heuristic, heuristic_plus
from situ.placement.hop import hop
from situ.placement.mobile import mobile
from situ.placement.naive import naive
from situ.placement.optimal import optimal
from situ.placement.plan import Plan
from situ.placement.problem import PlacementError, Problem
from situ.placement.producer_consumer import producer_consumer
from situ.placement.random_sites import random_sites
from situ.placement.relaxation import relaxation
from situ.placement.sbon import sbon

Mechanism: TypeAlias = Callable[[Problem], Plan]

MECHANISMS: dict[str, Mechanism] = {
    "naive": naive,
    "cpp": cpp,
    "grin": grin,
    "sbon": sbon,
    "relaxation": relaxation,
    "mobile": mobile,
    "producer-consumer": producer_consumer,
    "random": random_sites,
    "central": central,
    "hop": hop,
    "edgecep": edgecep,
    "edgecep-optimal": edgecep_optimal,
    "exhaustive": exhaustive,
    "optimal": optimal,
    "greedy": greedy,
    "greedy+": greedy_plus,
    "heuristic": heuristic,
    "heuristic+": heuristic_plus,
    "auto": auto,
}

#: What each of them is good for: the words of demands, and `cost`, messages x hops. `auto` serves what the mechanism
#: does that it chooses.
OBJECTIVES: dict[str, tuple[str, ...]] = {
    "naive": ("latency", "overhead"),
    "cpp": ("cost",),
    "grin": ("cost",),
    "sbon": ("bandwidth-delay",),
    "relaxation": ("latency", "bandwidth-delay"),
    "mobile": ("overhead", "hops"),
    "producer-consumer": ("overhead",),
    "random": (),
    "central": ("overhead",),
    "hop": ("hops",),
    "edgecep": ("cost", "load"),
    "edgecep-optimal": ("cost", "load"),
    "exhaustive": ("cost", "latency"),
    "optimal": ("cost", "latency"),
    "greedy": ("cost", "latency"),
    "greedy+": ("cost", "latency"),
    "heuristic": ("cost", "latency"),
    "heuristic+": ("cost", "latency"),
    "auto": (),
}


def mechanism(name: str) -> Mechanism:
    """
    >>> mechanism("greedy+").__name__
    'greedy_plus'
    """
    if name not in MECHANISMS:
        raise PlacementError(f"there is no mechanism {name!r}", remedy=did_you_mean(name, MECHANISMS))
    return MECHANISMS[name]
