"""What a case of a pattern rule holds between two steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from situ.core.memory import MemoryBudget
from situ.kernel.matching.matcher import Matcher, Reserve
from situ.kernel.matching.policies import Policies, Waiting
from situ.kernel.operator import RULE, Context
from situ.kernel.program.compiled_case import CompiledCase
from situ.kernel.program.shape import is_of_template
from situ.kernel.state.groups import GroupIndex
from situ.kernel.state.rule_groups import RuleGroupIndex
from situ.kernel.state.store import Store, empty_store

#: Forget idle groups when there are this many, and they are most of all groups.
MANY_GROUPS = 4096
#: So many events may wait to be looked through for those that nobody holds any more, beside as many as are held.
FEW_EVENTS = 64


@dataclass
class CaseState:
    """Partial matches, matches that wait for their policies, the events that both hold, and the numbers of groups.
    `retained` may have events that nobody holds any more, until `compact` leaves them out.

    `remembers_groups`: a group in which a silence that comes first has begun is not forgotten. Nor is the only one of a
    rule without groups, in which it may have begun at a start, before any event.
    """

    matcher: Matcher
    policies: Policies
    groups: GroupIndex | RuleGroupIndex
    retained: Store
    remembers_groups: bool
    _most_retained: int = 0

    @classmethod
    def empty(cls, context: Context, case: CompiledCase, shards: int, memory: MemoryBudget) -> CaseState:
        rule = context.operator.rule
        return cls(
            Matcher.empty(case.program, shards if rule.group_by else 1, _reserve(context.operator.name, memory)),
            Policies.of(case.program, rule.after_match),
            _groups_of(context),
            empty_store(context, case.stored),
            case.program.remembers_groups or not rule.group_by,
        )

    def make_room_for_groups(self) -> None:
        """After groups have been numbered: let every part have a place for each of them."""
        self.matcher.add_groups(len(self.groups))
        self.policies.add_groups(len(self.groups))

    def marked_groups(self) -> np.ndarray:
        """By group, whether it must be remembered although it may hold no event: a pause, a start that lives, or that
        it had an event with which a silence began."""
        self.make_room_for_groups()
        groups = self.matcher.groups
        marked = self.policies.paused | (groups["living"] >= 0)
        if self.remembers_groups:
            marked |= groups["begun"] > 0
        return marked

    def retain(self, store: Store) -> bool:
        """Keep of `store` the events that partial and waiting matches hold. Where few more have come since the others
        were left out, they stay for now, so that a step with few events costs by these. Whether they were left out."""
        self.retained = store
        is_full = len(store) > self._most_retained or len(self.groups) > MANY_GROUPS
        if not is_full and isinstance(store.columns, dict):
            return False
        self.compact()
        return True

    def compact(self) -> None:
        """Leave out the events that nobody holds any more, and number the others anew."""
        store, waiting = self.retained, self.policies.waiting
        held = np.zeros(len(store), np.bool_)
        self.matcher.mark_held(held)
        held[waiting.matches.path_event] = True
        kept = np.flatnonzero(held)
        number = np.empty(len(store), np.int64)  # by event, the number that it gets if it is kept
        number[kept] = np.arange(len(kept))
        self.matcher.renumber_events(number)
        if len(waiting.matches):
            events, completing = number[waiting.matches.path_event], number[waiting.matches.completing]
            waiting.matches = replace(waiting.matches, path_event=events, completing=completing)
        if len(kept) < len(store) or not isinstance(store.columns, dict):
            self.retained = store.take(kept)
        self._most_retained = 2 * len(kept) + FEW_EVENTS

    def forget_idle_groups(self) -> None:
        """Where there are many, groups without a partial or waiting match start afresh with their next event."""
        if len(self.groups) <= MANY_GROUPS:
            return
        idle = self.groups.used
        used = np.count_nonzero(idle)
        idle[self.retained.group] = False
        idle &= self.matcher.groups["live"][: len(idle)] == 0  # what waits for a silence may hold no event
        idle &= ~self.marked_groups()
        if used >= MANY_GROUPS and 2 * np.count_nonzero(idle) >= used:
            self._forget(idle)

    def remove(self, gone: np.ndarray) -> None:
        """Remove the groups that are marked in `gone`, by number, with all that they hold."""
        self.make_room_for_groups()
        self.matcher.remove_groups(gone)
        waiting = self.policies.waiting
        stays = np.flatnonzero(~gone[waiting.matches.group])
        self.policies.waiting = Waiting(
            waiting.matches.take(stays), waiting.status[stays], waiting.fires[stays], waiting.moment[stays]
        )
        self.compact()
        self._forget(gone)

    def _forget(self, groups: np.ndarray) -> None:
        """These groups, which hold nothing, start afresh; their numbers are given to others."""
        self.groups.release(groups)
        self.matcher.groups["positions"][groups] = 0
        self.matcher.groups["selections"][groups] = 0
        self.matcher.groups["living"][groups] = -1
        self.matcher.groups["begun"][groups] = 0
        self.policies.forget(groups)


def _groups_of(context: Context) -> GroupIndex | RuleGroupIndex:
    if RULE not in context.group_by:
        return GroupIndex()
    return RuleGroupIndex(sum(map(is_of_template, context.group_by)) - 1)  # the others of the template are constants


def _reserve(rule: str, memory: MemoryBudget) -> Reserve:
    """Asks for memory on behalf of a rule's partial matches and matches."""

    def reserve(more_bytes: int) -> None:
        memory.require(
            more_bytes,
            rule,
            "there are too many matches, or partial ones, at once",
            "Shorten its window, group it by a key, or say `then` or `greedy` where every combination counts now.",
        )

    return reserve
