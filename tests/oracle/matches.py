"""The matches of a pattern in the events of one group (docs/language.md, "Matches")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import total_ordering
from itertools import pairwise, permutations
from typing import Any, TypeAlias, assert_never

from oracle.events import Event
from oracle.expressions import Scope, holds
from oracle.words import Block, GreedyEnd, Not, Path, Repetition, Word, words
from situ.graph.patterns import Contiguity, EventTest, Pattern, Step
from situ.graph.query import From, Within

#: The alias that a `not` or `until` test has for its own event.
THIS = "this"


@total_ordering
@dataclass(frozen=True, slots=True)
class Over:
    """Where a silence is over: at a time, after the event at the position `after` and before the next one."""

    after: int
    time: int

    def __lt__(self, other: Position) -> bool:
        if isinstance(other, Over):
            return (self.after, self.time) < (other.after, other.time)
        return self.after < other


Position: TypeAlias = int | Over


def whole(position: Position) -> int:
    """The position of the event, or of the last one before the silence was over."""
    return position.after if isinstance(position, Over) else position


@dataclass(frozen=True, slots=True)
class Placed:
    """A block and the positions of the events that its steps take, step by step."""

    block: Block
    positions: tuple[Position, ...]


Assignment: TypeAlias = tuple[Placed, ...]

#: A step of the text, and the position of the event that it takes.
Slot: TypeAlias = tuple[Path, str, Position]


@dataclass(frozen=True, slots=True)
class Group:
    """The events of one group in their order, so that an event's index is its position; and the group's key."""

    events: Sequence[Event]
    key: Mapping[str, Any]
    start_us: int | None = None  # when silences that come first begin, if not with the first event

    def time(self, position: Position) -> int:
        return self.event(position).time

    def event(self, position: Position) -> Event:
        """The event at a position; a silence is an event of nothing but a time."""
        return Event("", {}, position.time) if isinstance(position, Over) else self.events[position]

    def taken(self, placed: Assignment, before: int | None = None) -> dict[str | None, list[Event]]:
        """The events of each alias, in order; only those at positions before `before`, if given."""
        pairs = sorted(
            (position, step.alias)
            for p in placed
            for step, position in zip(p.block.steps, p.positions, strict=True)
            if before is None or position < before
        )
        taken: dict[str | None, list[Event]] = {}
        for position, alias in pairs:
            taken.setdefault(alias, []).append(self.event(position))
        return taken

    def satisfies(self, position: int, test: EventTest, alias: str, taken: Mapping[str | None, list[Event]]) -> bool:
        event = self.events[position]
        return event.type == test.event_type and holds(test.condition, Scope(taken, self.key, (alias, event)))


def assignments(pattern: Pattern, within: Within | None, group: Group) -> Iterator[tuple[Word, Assignment]]:
    """All assignments of events to words that the chapter "Matches" allows; one match may come several times."""
    for word in words(pattern, len(group.events)):
        blocks = [item for item in word if isinstance(item, Block)]
        for placed in place(blocks, (), group):
            if (
                satisfied(word, placed, group)
                and in_window(within, placed, group)
                and absent_at_end(word, placed, within, group)
            ):
                yield word, placed


def place(blocks: Sequence[Block], placed: Assignment, group: Group) -> Iterator[Assignment]:
    """All ways to give the blocks events, after those already placed: order, conditions and contiguity."""
    if not blocks:
        yield placed
        return
    for positions in choices(blocks[0], placed, group):
        yield from place(blocks[1:], (*placed, Placed(blocks[0], positions)), group)


def choices(block: Block, placed: Assignment, group: Group) -> list[tuple[Position, ...]]:
    """The positions that a block can take after what is placed."""
    if any(step.silence_us is not None for step in block.steps):
        return [choice for begin in begins(block, placed, group) for choice in silent(block, begin, placed, group)]
    after = whole(last_position(placed))
    later = range(after + 1, len(group.events))
    accepted: list[tuple[Position, ...]] = [
        positions for positions in permutations(later, len(block.steps)) if accepts(block, positions, placed, group)
    ]
    if not placed or block.contiguity is Contiguity.EACH:
        return accepted
    if block.contiguity is Contiguity.IMMEDIATELY:
        return [positions for positions in accepted if min(positions) == after + 1]
    return accepted[:1] if len(block.steps) == 1 else accepted


def begins(block: Block, placed: Assignment, group: Group) -> list[Position]:
    """Where the silences of a block begin: at the end of what is before; if it comes first, with the first event, and
    anew with every one that breaks it."""
    if placed:
        return [last_position(placed)]
    tests = [step.test for step in block.steps if step.silence_us is not None]
    anew = [
        position
        for position in range(len(group.events))
        if any(group.satisfies(position, test, THIS, {}) for test in tests)
    ]
    if group.start_us is not None:
        return [Over(-1, group.start_us), *anew]
    return [0, *(position for position in anew if position > 0)] if group.events else []


def silent(block: Block, begin: Position, placed: Assignment, group: Group) -> Iterator[tuple[Position, ...]]:
    """The positions of a block with silences that begin at `begin`: each is over, or nothing is found; its events are
    any later ones, in any order."""
    overs = {step.alias: over(step, block.contiguity, begin, placed, group) for step in block.steps
             if step.silence_us is not None}  # fmt: skip
    if None in overs.values():
        return
    steps = tuple(step for step in block.steps if step.silence_us is None)
    for positions in permutations(range(whole(begin) + 1, len(group.events)), len(steps)):
        if accepts(Block(steps, block.contiguity, block.path), positions, placed, group):
            taken = dict(zip((step.alias for step in steps), positions, strict=True)) | overs
            yield tuple(taken[step.alias] for step in block.steps)  # type: ignore[misc]


def over(step: Step, contiguity: Contiguity, begin: Position, placed: Assignment, group: Group) -> Over | None:
    """Where a silence is over that begins at `begin`; None if an event breaks it."""
    assert step.silence_us is not None
    end, last = group.time(begin) + step.silence_us, whole(begin)
    for position in range(whole(begin) + 1, len(group.events)):
        if group.time(position) > end:
            break
        last = position
        immediately = bool(placed) and contiguity is Contiguity.IMMEDIATELY
        if immediately or group.satisfies(position, step.test, THIS, group.taken(placed)):
            return None
    return Over(last, end)


def accepts(block: Block, positions: tuple[Position, ...], placed: Assignment, group: Group) -> bool:
    """Whether each step's condition holds, given what is placed and the steps of the block before it."""
    taken = group.taken(placed)
    for step, position in zip(block.steps, positions, strict=True):
        if not group.satisfies(whole(position), step.test, step.alias, taken):
            return False
        taken = {**taken, step.alias: [*taken.get(step.alias, []), group.event(position)]}
    return True


def all_positions(placed: Assignment) -> list[Position]:
    return sorted(position for p in placed for position in p.positions)


def last_position(placed: Assignment) -> Position:
    return max(all_positions(placed), default=-1)


# What a word asks beyond order, conditions and contiguity


def satisfied(word: Word, placed: Assignment, group: Group) -> bool:
    """Absence, until and greedy. Of a word that is placed only in part, its placed part is judged."""
    done = 0  # blocks of the word so far
    for item in word:
        before, after = placed[:done], placed[done:]
        match item:
            case Block():
                done += 1
            case Not():
                if after and not item.at_end and not absent(item, before, after[0], group):
                    return False
            case Repetition():
                if after and not not_ended(item, before, min(after[0].positions), group):
                    return False
            case GreedyEnd():
                if after and before and still_accepts(item, before, min(after[0].positions), group):
                    return False
            case _:
                assert_never(item)
    return True


def is_in(placed: Placed, path: Path) -> bool:
    return placed.block.path[: len(path)] == path


def part_before(item: Not, before: Assignment) -> Assignment:
    """The last part of the same sequence before a `not` that has a slot in this word."""
    sequence = item.path[:-1]
    if not before or not is_in(before[-1], sequence):
        return ()
    part = before[-1].block.path[: len(item.path)]
    return tuple(p for p in before if is_in(p, part))


def absent(item: Not, before: Assignment, after: Placed, group: Group) -> bool:
    part = part_before(item, before)
    if not part or not is_in(after, item.path[:-1]):
        return True  # it does not bind
    placed = (*before, after)
    if item.absence.immediately:
        until = whole(min(after.positions))  # the next event may come after a silence that is over by then
        suspects = [whole(position) + 1 for position in all_positions(part) if whole(position) < until]
    else:
        suspects = list(range(whole(min(all_positions(part))) + 1, whole(min(after.positions)) + 1))
    return not any(is_absent_event(item, position, placed, group) for position in suspects)


def is_absent_event(item: Not, position: int, placed: Assignment, group: Group) -> bool:
    """Whether the event is an X of `not X`, given the events of the slots at positions before it."""
    if position >= len(group.events):
        return False
    return group.satisfies(position, item.absence.test, THIS, group.taken(placed, before=position))


def absent_at_end(word: Word, placed: Assignment, within: Within | None, group: Group) -> bool:
    limit = deadline(within, placed, group)
    for item in word:
        if isinstance(item, Not) and item.at_end:
            start = whole(min(all_positions(part_before(item, placed))))
            for position in range(start + 1, len(group.events)):
                in_time = limit is None or group.time(position) <= limit
                if in_time and is_absent_event(item, position, placed, group):
                    return False
    return True


def not_ended(item: Repetition, before: Assignment, head: Position, group: Group) -> bool:
    """`until U`: the head is no U; and none lies between the repetition before and the head."""
    assert item.loop.until is not None
    suspects: Sequence[int] = range(whole(last_position(before)) + 1, whole(head) + 1)
    if item.first:
        suspects = [] if isinstance(head, Over) else [head]
    taken = group.taken(before)
    return not any(group.satisfies(position, item.loop.until, THIS, taken) for position in suspects)


def still_accepts(item: GreedyEnd, before: Assignment, following: Position, group: Group) -> bool:
    """Whether a greedy loop would take an event after its last one, up to that of the following slot."""
    if item.loop.high is not None and item.repetitions >= item.loop.high:
        return False
    begin, taken = Repetition(item.loop, first=item.repetitions == 0), group.taken(before)
    for head in item.heads:
        for (position,) in choices(Block((head.step,), head.contiguity, ()), before, group):
            ended = item.loop.until is not None and not not_ended(begin, before, position, group)
            ended |= any(group.satisfies(position, until, THIS, taken) for until in head.untils)
            if position <= following and not ended:
                return True
    return False


# Windows


def events_of_alias(placed: Assignment, alias: str) -> list[Position]:
    return sorted(
        position
        for p in placed
        for step, position in zip(p.block.steps, p.positions, strict=True)
        if step.alias == alias
    )


def in_window(within: Within | None, placed: Assignment, group: Group) -> bool:
    if within is None:
        return True
    times = [group.time(position) for position in all_positions(placed)]
    if within.anchor is From.FIRST:
        return times[-1] - times[0] <= within.micros
    if within.anchor is From.PREVIOUS:
        return all(right - left <= within.micros for left, right in pairwise(times))
    anchors = events_of_alias(placed, within.anchor)
    if not anchors:
        return False
    start = group.time(anchors[0])
    return all(start <= time <= start + within.micros for time in times)


def deadline(within: Within | None, placed: Assignment, group: Group) -> int | None:
    """The latest time that one more event could have; None if nothing says so."""
    if within is None:
        return None
    positions = all_positions(placed)
    if within.anchor is From.FIRST:
        return group.time(positions[0]) + within.micros
    if within.anchor is From.PREVIOUS:
        return group.time(positions[-1]) + within.micros
    anchors = events_of_alias(placed, within.anchor)
    return group.time(anchors[0]) + within.micros if anchors else None


def slots_of(placed: Assignment) -> tuple[Slot, ...]:
    """Which step took which event, in order of position: two words that agree in this give one match."""
    return tuple(
        sorted(
            (
                (tuple(edge for edge in p.block.path if edge[0] != "repetition"), step.alias, position)
                for p in placed
                for step, position in zip(p.block.steps, p.positions, strict=True)
            ),
            key=lambda slot: slot[2],
        )
    )
