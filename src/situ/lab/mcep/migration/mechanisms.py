"""The mechanisms that plan migrations, by name: they place operators step by step, for consumers and sources that move,
so their problem has time in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from situ.core.errors import did_you_mean
from situ.lab.mcep.migration.greedy_migration import greedy_migration
from situ.lab.mcep.migration.migcep import migcep
from situ.lab.mcep.migration.migcep_plan import Migrations
from situ.lab.mcep.migration.migcep_problem import MigrationProblem
from situ.placement.problem import PlacementError

MigrationMechanism: TypeAlias = Callable[[MigrationProblem], Migrations]

MIGRATION_MECHANISMS: dict[str, MigrationMechanism] = {"greedy migration": greedy_migration, "migcep": migcep}


def migration_mechanism(name: str) -> MigrationMechanism:
    """
    >>> migration_mechanism("migcep").__name__
    'migcep'
    """
    if name not in MIGRATION_MECHANISMS:
        remedy = did_you_mean(name, MIGRATION_MECHANISMS)
        raise PlacementError(f"there is no mechanism {name!r} that plans migrations", remedy=remedy)
    return MIGRATION_MECHANISMS[name]
