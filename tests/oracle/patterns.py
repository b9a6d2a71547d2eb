"""From matches to complex events, for one case and one group (docs/language.md, "From matches to complex events")."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias, assert_never

from oracle.matches import (
    Assignment,
    Group,
    Over,
    Position,
    Slot,
    all_positions,
    assignments,
    deadline,
    events_of_alias,
    in_window,
    last_position,
    place,
    satisfied,
    slots_of,
    whole,
)
from oracle.words import Block, Not, Word, least_rest, words
from situ.graph.patterns import Selector, steps_of
from situ.graph.query import AfterMatch, Case, From, Pause, Skip, Within

#: When a match fires: (time, 0, position of the event that completes it), or (time, 1, 0) once time has passed.
Firing: TypeAlias = tuple[float, int, int]


#: A position before that of a silence that is over before the first event.
BEFORE_ALL = -2


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """A match, or a timed-out partial match."""

    slots: tuple[Slot, ...]
    placed: Assignment
    time: int
    fires: Firing

    @property
    def positions(self) -> list[int]:
        """By which matches are put in order; a silence has that of the last event before it was over."""
        return [whole(position) for position in all_positions(self.placed)]

    @property
    def events(self) -> set[int]:
        """The positions of its events."""
        return {position for position in all_positions(self.placed) if isinstance(position, int)}


def pattern_matches(case: Case, after_match: AfterMatch | Pause, group: Group) -> list[PatternMatch]:
    """The matches that become complex events."""
    found = all_matches(case, group)
    selected = select(list(found.values()))
    aliases = [step.alias for step in steps_of(case.detect)]
    if case.once:
        return once(case, aliases, selected, group)
    if isinstance(after_match, Pause):
        return pause(after_match, aliases, selected, group)
    return skip(after_match, aliases, consume(case.consuming, selected))


def all_matches(case: Case, group: Group) -> dict[tuple[Slot, ...], PatternMatch]:
    return {
        slots_of(placed): to_match(word, placed, case.within, group)
        for word, placed in assignments(case.detect, case.within, group)
    }


def to_match(word: Word, placed: Assignment, within: Within | None, group: Group) -> PatternMatch:
    """When it fires and what time it has: those of its last event, unless the passing of time decides."""
    last = last_position(placed)
    time = group.time(last)
    fires: Firing = (time, 1, 0) if isinstance(last, Over) else (time, 0, last)
    limits: list[float] = []
    if any(isinstance(item, Not) and item.at_end for item in word):
        limits.append(or_never(deadline(within, placed, group)))
    limits += [or_never(limit) for limit in deadlines_of_last(placed, within, group)]
    limit = max(limits, default=-math.inf)
    if limit >= time:
        fires = (limit, 1, 0)
        time = time if limit == math.inf else int(limit)
    return PatternMatch(slots_of(placed), placed, time, fires)


def or_never(limit: int | None) -> float:
    return math.inf if limit is None else limit


def deadlines_of_last(placed: Assignment, within: Within | None, group: Group) -> Iterator[int | None]:
    """For each `last X` that can be the last event in time: the latest time that X could have."""
    final = placed[-1]
    for step, position in zip(final.block.steps, final.positions, strict=True):
        if step.selector is not Selector.LAST:
            continue
        others = [group.time(other) for other in all_positions(placed) if other != position]
        if within is None or not others:
            yield None
        elif within.anchor is From.FIRST:
            yield min(others) + within.micros
        elif within.anchor is From.PREVIOUS:
            yield max(others) + within.micros
        elif within.anchor == step.alias:
            yield min(others)
        else:
            yield group.time(events_of_alias(placed, within.anchor)[0]) + within.micros


# Selectors


def select(matches: list[PatternMatch]) -> list[PatternMatch]:
    """All selectors judge the same set of matches."""
    return [match for match in matches if not any(is_better(other, match) for other in matches)]


def is_better(other: PatternMatch, match: PatternMatch) -> bool:
    """Whether some selector prefers `other`, which gives all other slots the same events."""
    mine, theirs = set(match.slots) - set(other.slots), set(other.slots) - set(match.slots)
    if len(mine) != 1 or len(theirs) != 1:
        return False
    (my_step, my_alias, my_position), (their_step, their_alias, their_position) = *mine, *theirs
    if (my_step, my_alias) != (their_step, their_alias):
        return False
    selectors = {step.alias: step.selector for placed in match.placed for step in placed.block.steps}
    match selectors[my_alias]:
        case Selector.FIRST:
            return their_position < my_position
        case Selector.LAST:
            return their_position > my_position
        case None:
            return False
        case selector:
            assert_never(selector)


# Consumption and skipping


def consume(aliases: tuple[str, ...], matches: list[PatternMatch]) -> list[PatternMatch]:
    """Matches that fire together stand together; then the events of `consuming` are gone."""
    gone: set[int] = set()
    standing: list[PatternMatch] = []
    for moment in sorted({match.fires for match in matches}):
        together = [match for match in matches if match.fires == moment and not gone & match.events]
        standing += together
        gone |= {p for match in together for alias in aliases for p in events_of_alias(match.placed, alias)}
    return standing


def skip(after_match: AfterMatch, aliases: list[str], matches: list[PatternMatch]) -> list[PatternMatch]:
    """Matches in turn; each that stays removes the later ones that start at or before its skip point."""
    waiting = sorted(
        matches,
        key=lambda match: (
            match.positions[0],
            match.fires,
            match.positions,
            [aliases.index(alias) for _, alias, _ in match.slots],
        ),
    )
    standing = []
    while waiting:
        match, *waiting = waiting
        standing.append(match)
        point = skip_point(after_match, match)
        waiting = [later for later in waiting if later.positions[0] > point]
    return standing


def skip_point(after_match: AfterMatch, match: PatternMatch) -> int:
    """Matches that start up to this position go; BEFORE_ALL for none."""
    events = events_of_alias(match.placed, after_match.alias) if after_match.alias is not None else []
    match after_match.skip:
        case Skip.NONE:
            return BEFORE_ALL
        case Skip.TO_NEXT:
            return match.positions[0]
        case Skip.PAST_LAST:
            return match.positions[-1]
        case Skip.TO_FIRST:
            return whole(events[0]) - 1 if events else BEFORE_ALL
        case Skip.TO_LAST:
            return whole(events[-1]) - 1 if events else BEFORE_ALL
        case _:
            assert_never(after_match.skip)


# Fewer alerts


def in_turn(matches: list[PatternMatch], aliases: list[str]) -> list[PatternMatch]:
    """Matches as they fire; those that fire together by their positions in turn, then by the steps in the text."""
    return sorted(
        matches,
        key=lambda match: (match.fires, match.positions, [aliases.index(alias) for _, alias, _ in match.slots]),
    )


def pause(after: Pause, aliases: list[str], matches: list[PatternMatch], group: Group) -> list[PatternMatch]:
    """Matches as they fire; each that stays removes the later ones that start before its pause is over."""
    waiting = in_turn(matches, aliases)
    standing = []
    while waiting:
        match, *waiting = waiting
        standing.append(match)
        waiting = [later for later in waiting if not is_paused(after, match, later, group)]
    return standing


def is_paused(after: Pause, match: PatternMatch, later: PatternMatch, group: Group) -> bool:
    return group.time(all_positions(later.placed)[0]) <= match.time + after.micros


def once(case: Case, aliases: list[str], matches: list[PatternMatch], group: Group) -> list[PatternMatch]:
    """Of the start that lives, the match that fires first."""
    start = living_start(case, group)
    return in_turn([match for match in matches if match.positions[0] == start], aliases)[:1]


def living_start(case: Case, group: Group) -> int | None:
    """The position of the start that is the first one to get past its first step; of several, the earliest."""
    past: set[tuple[Position, Position]] = set()
    for word in words(case.detect, len(group.events) + least_rest(case.detect)):
        blocks = [item for item in word if isinstance(item, Block)]
        first_step = [*takewhile(lambda block, steps=blocks[0].steps: block.steps == steps, blocks)]
        for placed in place(first_step, (), group):
            if satisfied(word, placed, group) and may_be_in_window(case.within, placed, group):
                positions = all_positions(placed)
                past.add((positions[-1], positions[0]))
    return whole(min(past)[1]) if past else None


def may_be_in_window(within: Within | None, placed: Assignment, group: Group) -> bool:
    """Whether the events of a beginning leave room: where the alias that the window is counted from is still to come,
    it comes after them, and they have its time."""
    if within is None or isinstance(within.anchor, From) or events_of_alias(placed, within.anchor):
        return in_window(within, placed, group)
    return len({group.time(position) for position in all_positions(placed)}) == 1
