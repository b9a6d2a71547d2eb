"""How an operator goes from one selection manager to another: its open selections go along (RECEP, section 4.2.1).

The controller tells the old manager that an operator goes, and the new one that it comes. Each tells its messages in
order, but nothing is known of the order between managers: events of the operator, and even its next departure, may
reach the new manager before the open selections do. Whatever is about an operator that is still awaited therefore waits
in a queue. Hand-overs carry the number of the transfer, since an operator may leave and join again meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from situ.core.errors import SituError


@dataclass(frozen=True, slots=True)
class Joins:
    """An operator is new, and has no open selections."""

    operator: int


@dataclass(frozen=True, slots=True)
class Comes:
    """An operator comes from another manager."""

    operator: int
    transfer: int


@dataclass(frozen=True, slots=True)
class Goes:
    """An operator goes to another manager."""

    operator: int
    transfer: int
    target: int


@dataclass(frozen=True, slots=True)
class Leaves:
    """An operator ends; its open selections are closed as they are."""

    operator: int


@dataclass(frozen=True, slots=True)
class Opens:
    """Selections begin."""

    operator: int
    selections: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Closes:
    """Selections are complete."""

    operator: int
    selections: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HandedOver:
    """From manager to manager: the open selections of an operator."""

    operator: int
    transfer: int
    selections: tuple[int, ...]


Told = Joins | Comes | Goes | Leaves | Opens | Closes
Message = Told | HandedOver


@dataclass(frozen=True, slots=True)
class Send:
    """Hand an operator over to the manager of a group."""

    target: int
    message: HandedOver


@dataclass(frozen=True, slots=True)
class Complete:
    """Selections are ready for the processing phase."""

    operator: int
    selections: tuple[int, ...]


Action = Send | Complete


@dataclass(frozen=True, slots=True)
class SelectionManager:
    """Open selections of the operators that are here, what waits for those that are awaited, and hand-overs that are
    not yet due."""

    open: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    queues: Mapping[int, tuple[Told, ...]] = field(default_factory=dict)
    arrived: Mapping[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)


def receive(manager: SelectionManager, message: Message) -> tuple[SelectionManager, tuple[Action, ...]]:
    """The manager after a message, and what it does about it.

    >>> manager, _ = receive(SelectionManager(), Comes(7, transfer=1))
    >>> manager, actions = receive(manager, Closes(7, (40,)))  # of which it does not know yet
    >>> actions
    ()
    >>> receive(manager, HandedOver(7, 1, (40, 41)))[1]
    (Complete(operator=7, selections=(40,)),)
    """
    operator = message.operator
    if isinstance(message, HandedOver):
        manager = replace(manager, arrived={**manager.arrived, (operator, message.transfer): message.selections})
        queue = manager.queues.get(operator, ())
    else:
        queue = (*manager.queues.get(operator, ()), message)
    actions: list[Action] = []
    while queue and _is_due(manager, queue[0]):
        manager, done = _perform(manager, queue[0])
        actions += done
        queue = queue[1:]
    queues = {one: waits for one, waits in manager.queues.items() if one != operator}
    return replace(manager, queues={**queues, operator: queue} if queue else queues), tuple(actions)


def _is_due(manager: SelectionManager, message: Told) -> bool:
    return not isinstance(message, Comes) or (message.operator, message.transfer) in manager.arrived


def _perform(manager: SelectionManager, message: Told) -> tuple[SelectionManager, list[Action]]:
    operator = message.operator
    others = {one: selections for one, selections in manager.open.items() if one != operator}
    match message:
        case Joins():
            return replace(manager, open={**others, operator: ()}), []
        case Comes(_, transfer):
            arrived = dict(manager.arrived)
            return replace(manager, open={**others, operator: arrived.pop((operator, transfer))}, arrived=arrived), []
        case Goes(_, transfer, target):
            return replace(manager, open=others), [
                Send(target, HandedOver(operator, transfer, _open(manager, operator)))
            ]
        case Leaves():
            return replace(manager, open=others), [Complete(operator, _open(manager, operator))]
        case Opens(_, selections):
            return replace(manager, open={**others, operator: _open(manager, operator) + selections}), []
        case Closes(_, selections):
            mine = _open(manager, operator)
            still = tuple(one for one in mine if one not in selections)
            assert len(still) + len(selections) == len(mine), f"selections {selections} of {operator} are not open"
            return replace(manager, open={**others, operator: still}), [Complete(operator, selections)]


def _open(manager: SelectionManager, operator: int) -> tuple[int, ...]:
    if operator not in manager.open:
        raise SituError(f"operator {operator} is not here", remedy="An operator joins or comes first.")
    return manager.open[operator]
