"""All orders in which an operator may take its inputs: its ordered partitions. There are 1, 3, 13, 75, 541, ... of them
(Fubini numbers; PaNORAMA, section 3.2, says Bell numbers, which count partitions without order)."""

from __future__ import annotations

from collections.abc import Iterator

from situ.placement.plan import Steps, pushed
from situ.placement.problem import PlannedOperator


def possible_steps(operator: PlannedOperator) -> tuple[Steps, ...]:
    """One push step, and where an operator can be pulled all others."""
    if not operator.can_pull:
        return (pushed(operator),)
    return tuple(ordered_partitions(tuple(range(len(operator.inputs)))))


def ordered_partitions(members: tuple[int, ...]) -> Iterator[Steps]:
    """
    >>> len(list(ordered_partitions((0, 1, 2)))), len(list(ordered_partitions((0, 1, 2, 3))))
    (13, 75)
    """
    if not members:
        yield ()
    for bits in range((1 << len(members)) - 1, 0, -1):
        first = tuple(member for k, member in enumerate(members) if bits >> k & 1)
        remaining = tuple(member for k, member in enumerate(members) if not bits >> k & 1)
        for later in ordered_partitions(remaining):
            yield first, *later
