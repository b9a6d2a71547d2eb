"""Partial matches whose window passed (docs/language.md, "Timed out")."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import combinations

from oracle.events import Event
from oracle.matches import (
    Assignment,
    Group,
    Placed,
    Slot,
    choices,
    deadline,
    events_of_alias,
    in_window,
    last_position,
    place,
    satisfied,
    slots_of,
    whole,
)
from oracle.patterns import PatternMatch, all_matches, is_paused, skip_point
from oracle.words import Block, Word, least_rest, without, words
from situ.graph.patterns import Contiguity, Pattern
from situ.graph.query import AfterMatch, Case, Pause


@dataclass(frozen=True, slots=True)
class Way:
    """A beginning of a word, of which all blocks but the last are placed, and of the last some steps or none."""

    beginning: Word
    placed: Assignment

    @property
    def goal(self) -> Block:
        return blocks_of(self.beginning)[-1]

    @property
    def begun(self) -> Placed | None:
        """What of the last block is placed already: some steps of an `and`."""
        return self.placed[-1] if len(self.placed) == len(blocks_of(self.beginning)) else None


def timed_out(
    case: Case, after_match: AfterMatch | Pause, standing: list[PatternMatch], group: Group
) -> list[PatternMatch]:
    """The partial matches to report, given the matches that stand."""
    complete = all_matches(case, group)
    partials: dict[tuple[Slot, ...], list[Way]] = {}
    for way in ways(case.detect, group):
        if satisfied(way.beginning, way.placed, group) and in_window(case.within, way.placed, group):
            partials.setdefault(slots_of(way.placed), []).append(way)
    reported = []
    for slots, alike in partials.items():
        placed = alike[0].placed
        limit = deadline(case.within, placed, group)
        if limit is None or slots in complete:
            continue
        if any(is_continued(way, case, group) for way in alike) or not any(
            can_go_on(way, limit, group) for way in alike
        ):
            continue
        partial = PatternMatch(slots, placed, limit, (limit, 1, 0))
        if not any(removes(match, partial, case, after_match, group) for match in standing):
            reported.append(partial)
    return reported


def ways(pattern: Pattern, group: Group) -> Iterator[Way]:
    for beginning in beginnings(pattern, len(group.events)):
        *full, goal = blocks_of(beginning)
        for placed in place(full, (), group):
            if placed:
                yield Way(beginning, placed)
            for size in range(1, len(goal.steps)):
                for steps in combinations(goal.steps, size):
                    some = some_steps(goal, [step.alias for step in steps])
                    yield from (Way(beginning, (*placed, Placed(some, p))) for p in choices(some, placed, group))


def blocks_of(word: Word) -> list[Block]:
    return [item for item in word if isinstance(item, Block)]


def some_steps(block: Block, aliases: Container[str]) -> Block:
    """Some steps of an `and`, which reads every combination; or the only step of a slot.

    Conditions that read a step of the `and` which is missing wait for it.
    """
    missing = {step.alias for step in block.steps if step.alias not in aliases}
    steps = tuple(without(step, missing) for step in block.steps if step.alias in aliases)
    every = len(block.steps) > 1 and block.contiguity is Contiguity.NEXT
    return Block(steps, Contiguity.EACH if every else block.contiguity, block.path)


def beginnings(pattern: Pattern, events: int) -> Iterator[Word]:
    """Every beginning of a word that ends with a block, and in which all blocks but that one can have events."""
    seen: set[Word] = set()
    for word in words(pattern, events + least_rest(pattern)):
        for end in (i + 1 for i, item in enumerate(word) if isinstance(item, Block)):
            taking = [block for block in blocks_of(word[:end]) if any(s.silence_us is None for s in block.steps)]
            if word[:end] not in seen and len(taking) <= events + 1:
                seen.add(word[:end])
                yield word[:end]


def is_continued(way: Way, case: Case, group: Group) -> bool:
    """Whether some event, or a silence that is over, takes the partial match one step further."""
    begun = by_alias(way.begun.block, way.begun.positions) if way.begun else {}
    placed = way.placed[:-1] if way.begun else way.placed
    for step in way.goal.steps:
        if step.alias in begun:
            continue
        some = some_steps(way.goal, [*begun, step.alias])
        for positions in choices(some, placed, group):
            taken = by_alias(some, positions)
            longer = (*placed, Placed(some, positions))
            keeps = all(taken[alias] == position for alias, position in begun.items())
            if keeps and satisfied(way.beginning, longer, group) and in_window(case.within, longer, group):
                return True
    return False


def by_alias(block: Block, positions: tuple[int, ...]) -> dict[str, int]:
    return {step.alias: position for step, position in zip(block.steps, positions, strict=True)}


def can_go_on(way: Way, limit: int, group: Group) -> bool:
    """Whether an event that came last of all before the deadline could have taken it further. A silence could not: it
    would have been over by then.

    Such an event is imagined: of a type that no test accepts, so that it can only fill the next slot.
    """
    if way.begun:
        return True  # an `and` takes its events in any order
    if way.goal.steps[0].silence_us is not None:
        return False
    seen = [event for event in group.events if event.time <= limit]
    imagined = Group([*seen, Event("", {}, limit)], group.key, group.start_us)
    next_step = some_steps(way.goal, [way.goal.steps[0].alias])
    if next_step.contiguity is Contiguity.IMMEDIATELY and whole(last_position(way.placed)) + 1 < len(seen):
        return False
    if next_step.contiguity is Contiguity.NEXT and choices(next_step, way.placed, imagined):
        return False
    return satisfied(way.beginning, (*way.placed, Placed(next_step, (len(seen),))), imagined)


def removes(
    match: PatternMatch, partial: PatternMatch, case: Case, after_match: AfterMatch | Pause, group: Group
) -> bool:
    """Whether a match that stands consumed an event of the partial match, or skips its start, or pauses then."""
    consumed = {position for alias in case.consuming for position in events_of_alias(match.placed, alias)}
    if match.fires < partial.fires and consumed & partial.events:
        return True
    if isinstance(after_match, Pause):
        return match.fires <= partial.fires and is_paused(after_match, match, partial, group)
    return match.positions[0] <= partial.positions[0] <= skip_point(after_match, match)
