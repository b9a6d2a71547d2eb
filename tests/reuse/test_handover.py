"""Selections while operators move: none is lost and none is doubled, whatever arrives first."""

from __future__ import annotations

from collections import Counter, deque

import numpy as np
import pytest

from situ.core.errors import SituError
from situ.reuse.groups import Groups, Joined, Left, Moved, Region, Transfer, step
from situ.reuse.handover import (
    Closes,
    Comes,
    Complete,
    Goes,
    HandedOver,
    Joins,
    Leaves,
    Opens,
    SelectionManager,
    Send,
    Told,
    receive,
)  # fmt: skip


class World:
    """Managers, what they were told and have not heard yet, and hand-overs on their way."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.transfers = rng, 0
        self.managers: dict[int, SelectionManager] = {}
        self.told: dict[int, deque[Told]] = {}
        self.on_the_way: list[tuple[int, HandedOver]] = []
        self.completed: Counter[int] = Counter()

    def tell(self, group: int, message: Told) -> None:
        self.told.setdefault(group, deque()).append(message)

    def transfer(self, transfer: Transfer) -> None:
        operator, source, target = transfer.operator, transfer.source, transfer.target
        if source is None and target is not None:
            self.tell(target, Joins(operator))
        elif source is not None and target is None:
            self.tell(source, Leaves(operator))
        elif source is not None and target is not None:
            self.transfers += 1
            self.tell(source, Goes(operator, self.transfers, target))
            self.tell(target, Comes(operator, self.transfers))

    def hear(self) -> bool:
        """Some message arrives, any manager's next one or any hand-over; False if there is none."""
        groups = [group for group in self.told if self.told[group]]
        if not groups and not self.on_the_way:
            return False
        at = int(self.rng.integers(0, len(groups) + len(self.on_the_way)))
        if at < len(groups):
            group, message = groups[at], self.told[groups[at]].popleft()
            self._arrives(group, message)
        else:
            self._arrives(*self.on_the_way.pop(at - len(groups)))
        return True

    def _arrives(self, group: int, message: Told | HandedOver) -> None:
        self.managers[group], actions = receive(self.managers.get(group, SelectionManager()), message)
        for action in actions:
            match action:
                case Send(target, handed):
                    self.on_the_way.append((target, handed))
                case Complete(_, selections):
                    self.completed.update(selections)

    def everywhere(self) -> Counter[int]:
        """Every place at which a selection is, or will be opened."""
        found = Counter(self.completed)
        for manager in self.managers.values():
            for held in (*manager.open.values(), *manager.arrived.values()):
                found.update(held)
            for queue in manager.queues.values():
                found.update(s for message in queue if isinstance(message, Opens) for s in message.selections)
        found.update(s for _, handed in self.on_the_way for s in handed.selections)
        waiting = [message for queue in self.told.values() for message in queue]
        found.update(s for message in waiting if isinstance(message, Opens) for s in message.selections)
        return found


@pytest.mark.parametrize("seed", range(20))
def test_no_selection_is_lost_or_doubled(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, world = Groups.empty(Region(0.0, 0.0, 1.0, most=2, deepest=4)), World(rng)
    still_open: dict[int, list[int]] = {}
    opened = handed_over_early = 0
    for _ in range(250):
        x, y = rng.random(2).tolist()
        some = int(rng.integers(0, 9))
        what, known = rng.random(), some in still_open
        if known and what < 0.4:
            if what < 0.2 or not still_open[some]:
                world.tell(groups.group_of(some), Opens(some, (opened, opened + 1)))
                still_open[some] += [opened, opened + 1]
                opened += 2
            else:
                first = still_open[some].pop(0)
                world.tell(groups.group_of(some), Closes(some, (first,)))
        else:
            event = Joined(some, x, y) if not known else Moved(some, x, y) if what < 0.9 else Left(some)
            groups, transfers = step(groups, event)
            for transfer in transfers:
                world.transfer(transfer)
            if isinstance(event, Left):
                del still_open[some]
            elif not known:
                still_open[some] = []
        for _ in range(int(rng.integers(0, 4))):
            world.hear()
        handed_over_early += any(manager.queues for manager in world.managers.values())
        assert world.everywhere() == Counter(range(opened))
    for some in groups.operator.tolist():
        groups, transfers = step(groups, Left(some))
        for transfer in transfers:
            world.transfer(transfer)
    while world.hear():
        pass
    assert world.completed == Counter(range(opened))
    assert opened > 50
    assert handed_over_early > 5
    assert all(not (m.open or m.queues or m.arrived) for m in world.managers.values())


def test_leaving_and_joining_again_while_the_first_hand_over_is_on_its_way() -> None:
    manager = SelectionManager()
    for message in (Comes(7, 1), Leaves(7), Comes(7, 2), HandedOver(7, 2, (9,))):
        manager, actions = receive(manager, message)
        assert actions == ()
    manager, actions = receive(manager, HandedOver(7, 1, (3, 4)))
    assert actions == (Complete(7, (3, 4)),)
    assert manager.open == {7: (9,)}


def test_who_is_not_here_is_refused() -> None:
    with pytest.raises(SituError, match="operator 7 is not here"):
        receive(SelectionManager(), Opens(7, (1,)))
