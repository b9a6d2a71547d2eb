"""The words of a pattern (docs/language.md, "Words")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal as OneOf
from typing import TypeAlias, assert_never

from situ.graph.expressions import Binary, Expression, aliases_of, conjuncts
from situ.graph.patterns import Absence, And, Contiguity, EventTest, Follow, Loop, Or, Pattern, Seq, Step, steps_of

#: Where in the pattern something stands: the way down from its root. ("repetition", 2) is the third one.
Path: TypeAlias = tuple[tuple[OneOf["part", "alternative", "repetition"], int], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A slot; or the slots of an `and`, which take their events together."""

    steps: tuple[Step, ...]
    contiguity: Contiguity
    path: Path


@dataclass(frozen=True, slots=True)
class Not:
    """A `not` between the blocks around it; `at_end` where only other `not` stand after it in the pattern."""

    absence: Absence
    at_end: bool
    path: Path


@dataclass(frozen=True, slots=True)
class Repetition:
    """A repetition of a loop with `until` begins with the next block."""

    loop: Loop
    first: bool


@dataclass(frozen=True, slots=True)
class Head:
    """A slot that a repetition can begin with. `untils` are those of the loops inside the repetition that it begins."""

    step: Step
    contiguity: Contiguity
    untils: tuple[EventTest, ...] = ()


@dataclass(frozen=True, slots=True)
class GreedyEnd:
    """A greedy loop ends here, after `repetitions` repetitions. `heads` are the slots that could begin one more."""

    loop: Loop
    repetitions: int
    heads: tuple[Head, ...]


Item: TypeAlias = Block | Not | Repetition | GreedyEnd
Word: TypeAlias = tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """How many slots a word may have: of events, which there are so many of, and of silences."""

    events: int
    silences: int = 12  # more than the windows of any test have room for

    def without(self, word: Word) -> Room | None:
        """What a word leaves; None if it does not fit."""
        steps = [step for item in word if isinstance(item, Block) for step in item.steps]
        silences = sum(step.silence_us is not None for step in steps)
        left = Room(self.events - (len(steps) - silences), self.silences - silences)
        return left if left.events >= 0 and left.silences >= 0 else None


def slots(word: Word) -> int:
    return sum(len(item.steps) for item in word if isinstance(item, Block))


def words(pattern: Pattern, events: int) -> Iterator[Word]:
    """All words of at most so many events, without the empty word."""
    return (word for word in _words(pattern, Contiguity.NEXT, (), Room(events)) if slots(word))


def _words(pattern: Pattern, contiguity: Contiguity, path: Path, room: Room) -> Iterator[Word]:
    """The words of `pattern` in which the head of the pattern has the given contiguity."""
    match pattern:
        case Step():
            word: Word = (Block((pattern,), _read(pattern, contiguity), path),)
            if room.without(word) is not None:
                yield word
        case And(steps):
            word = (Block(steps, contiguity, path),)
            if room.without(word) is not None:
                yield word
        case Or(alternatives):
            for i, alternative in enumerate(alternatives):
                yield from _words(alternative, contiguity, (*path, ("alternative", i)), room)
        case Seq(parts):
            yield from _words_of_parts(parts, 0, contiguity, path, room)
        case Loop():
            for repetitions in count(0 if can_be_empty(pattern) else pattern.low):
                if repetitions > room.events + room.silences or (
                    pattern.high is not None and repetitions > pattern.high
                ):
                    break
                yield from _words_of_repetitions(pattern, 0, repetitions, contiguity, path, room)
        case _:
            assert_never(pattern)


def _read(step: Step, contiguity: Contiguity) -> Contiguity:
    """`then first X` and `then last X` read every later X, like `then each`."""
    return Contiguity.EACH if step.selector is not None and contiguity is Contiguity.NEXT else contiguity


def _words_of_parts(
    parts: tuple[Follow | Absence, ...], i: int, contiguity: Contiguity, path: Path, room: Room
) -> Iterator[Word]:
    if i == len(parts):
        yield ()
        return
    part, here = parts[i], (*path, ("part", i))
    match part:
        case Absence():
            at_end = all(isinstance(later, Absence) for later in parts[i:])
            heads: Iterator[Word] = iter([(Not(part, at_end, here),)])
        case Follow(pattern, own):
            heads = _words(pattern, contiguity if i == 0 else own, here, room)
        case _:
            assert_never(part)
    for head in heads:
        left = room.without(head)
        assert left is not None
        for tail in _words_of_parts(parts, i + 1, contiguity, path, left):
            yield head + tail


def _words_of_repetitions(
    loop: Loop, done: int, wanted: int, contiguity: Contiguity, path: Path, room: Room
) -> Iterator[Word]:
    own = contiguity if done == 0 else loop.inner
    if done == wanted:
        yield (GreedyEnd(loop, done, tuple(heads(loop.body, own))),) if loop.greedy else ()
        return
    begin: Word = (Repetition(loop, done == 0),) if loop.until is not None else ()
    for body in _words(loop.body, own, (*path, ("repetition", done)), room):
        if not slots(body):
            continue  # a repetition is never empty
        left = room.without(body)
        assert left is not None
        for rest in _words_of_repetitions(loop, done + 1, wanted, contiguity, path, left):
            yield begin + body + rest


def can_be_empty(pattern: Pattern) -> bool:
    match pattern:
        case Step() | And():
            return False
        case Loop(body, low):
            return low == 0 or can_be_empty(body)
        case Seq(parts):
            return all(can_be_empty(part.pattern) for part in parts if isinstance(part, Follow))
        case Or(alternatives):
            return any(map(can_be_empty, alternatives))
        case _:
            assert_never(pattern)


def heads(pattern: Pattern, contiguity: Contiguity) -> Iterator[Head]:
    """The slots that a word of the pattern can begin with."""
    match pattern:
        case Step():
            yield Head(pattern, _read(pattern, contiguity))
        case And(steps):
            every = Contiguity.EACH if contiguity is Contiguity.NEXT else contiguity
            for step in steps:
                yield Head(without(step, {other.alias for other in steps} - {step.alias}), every)
        case Or(alternatives):
            for alternative in alternatives:
                yield from heads(alternative, contiguity)
        case Loop(body, until=until):
            ends = () if until is None else (until,)
            for head in heads(body, contiguity):
                yield replace(head, untils=head.untils + ends)
        case Seq(parts):
            follows = [part for part in parts if isinstance(part, Follow)]
            for i, part in enumerate(follows):
                yield from heads(part.pattern, contiguity if i == 0 else part.contiguity)
                if not can_be_empty(part.pattern):
                    break
        case _:
            assert_never(pattern)


def without(step: Step, missing: set[str]) -> Step:
    """The step of an `and` without the conditions that read a step of it which is missing: they wait for that step."""
    condition: Expression | None = None
    for conjunct in conjuncts(step.test.condition):
        if not aliases_of(conjunct) & missing:
            condition = conjunct if condition is None else Binary("and", condition, conjunct)
    return replace(step, test=replace(step.test, condition=condition))


def least_rest(pattern: Pattern) -> int:
    """Slots enough to complete any beginning of a word without repeating more than a loop must."""
    match pattern:
        case Loop(body, low):
            return max(low, 1) * least_rest(body)
        case Seq(parts):
            return sum(least_rest(part.pattern) for part in parts if isinstance(part, Follow))
        case Step() | And() | Or():
            return len(list(steps_of(pattern)))
        case _:
            assert_never(pattern)
