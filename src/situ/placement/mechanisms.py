"""The placement mechanisms by name. Each is a pure function: problem -> plan.

There are two kinds. Those of MECHANISMS place operators once, for sources that stay where they are. Those of
MIGRATION_MECHANISMS place them step by step, for consumers and sources that move: their problem has time in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from situ.core.errors import did_you_mean
from situ.placement.auto import auto
from situ.placement.cpp import cpp
from situ.placement.exhaustive import exhaustive
from situ.placement.greedy import greedy, greedy_plus
from situ.placement.greedy_migration import greedy_migration
from situ.placement.grin import grin
from situ.placement.heuristic import heuristic, heuristic_plus
from situ.placement.migcep import migcep
from situ.placement.migcep_plan import Migrations
from situ.placement.migcep_problem import MigrationProblem
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

MigrationMechanism: TypeAlias = Callable[[MigrationProblem], Migrations]

MIGRATION_MECHANISMS: dict[str, MigrationMechanism] = {"greedy migration": greedy_migration, "migcep": migcep}


def mechanism(name: str) -> Mechanism:
    """
    >>> mechanism("greedy+").__name__
    'greedy_plus'
    """
    if name in MIGRATION_MECHANISMS:
        raise PlacementError(
            f"{name!r} plans migrations: it needs to know where consumers will be",
            remedy="Give migration_mechanism(name) a MigrationProblem, or choose another mechanism.",
        )
    if name not in MECHANISMS:
        raise PlacementError(f"there is no mechanism {name!r}", remedy=did_you_mean(name, MECHANISMS))
    return MECHANISMS[name]


def migration_mechanism(name: str) -> MigrationMechanism:
    """
    >>> migration_mechanism("migcep").__name__
    'migcep'
    """
    if name not in MIGRATION_MECHANISMS:
        remedy = did_you_mean(name, MIGRATION_MECHANISMS)
        raise PlacementError(f"there is no mechanism {name!r} that plans migrations", remedy=remedy)
    return MIGRATION_MECHANISMS[name]
