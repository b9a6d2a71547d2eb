"""Fragments of an automaton under construction: how one is entered, how it is left, and how it is left out.

A part that can be empty may be passed over. If it is a greedy loop, passing over it forbids what its heads could have
taken on the way. So whoever passes over parts takes along what they would have accepted: a head that stands behind
them (`Head.passed`), and a partial match that has taken no event of the sequence yet (`Exit.passed`). Where there are
several ways to pass, by alternatives or by loops around a loop, one of them has to be open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TypeVar

from situ.core.errors import QueryError
from situ.graph.expressions import Binary, Expression
from situ.graph.patterns import Contiguity

#: Edges of a state are bits of one 64-bit word.
MOST_EDGES = 62

Way = TypeVar("Way")


@dataclass(frozen=True, slots=True)
class Silence:
    """What silences ask of an edge.

    It is closed by the watches `broken`, whose marks travel along `kept`. If it `stays`, silences go on counting from
    where they began, as all of an `and` do. With `length_us` it is taken when so much time has passed.
    """

    broken: int
    kept: int = 0
    stays: bool = False
    length_us: int = 0


@dataclass(frozen=True, slots=True)
class Head:
    """A slot that can come first, with its own contiguity; None: whatever leads into the fragment.

    The heads of an `and`, and steps with a selector, read `every` event, unless they are to follow immediately.
    `refuses` (from `until`, about the alias `this`): an event that fulfils the slot's conditions and these is passed
    over. `passed` are the heads of the greedy loops before it that have to take nothing. `silence`: what a silence asks
    of the way to this slot, or the silences of the `and` that it belongs to.
    """

    state: int
    own: Contiguity | None = None
    every: bool = False
    refuses: tuple[Expression, ...] | None = None
    passed: tuple[Head, ...] = ()
    silence: Silence | None = None

    def contiguity(self, entry: Contiguity) -> Contiguity:
        if self.own is not None:
            return self.own
        return Contiguity.EACH if self.every and entry is Contiguity.NEXT else entry

    def entered_by(self, entry: Contiguity) -> Head:
        """The head where `entry` leads into it."""
        return replace(self, own=self.contiguity(entry), passed=tuple(head.entered_by(entry) for head in self.passed))

    def refusing(self, conditions: tuple[Expression, ...]) -> Head:
        """The head of a loop with `until`: it refuses what ends this loop, too."""
        return replace(self, refuses=_either(self.refuses, conditions))


@dataclass(frozen=True, slots=True)
class Exit:
    """A state from which the pattern can go on (-1: nothing taken yet), and what the way out forbids."""

    state: int
    forbid: int = 0
    part: Fragment | None = None  # the last part with a slot: what a `not` looks back on
    passed: tuple[Head, ...] = ()  # while nothing is taken: heads of the greedy loops that have to take nothing


@dataclass(slots=True, eq=False)
class Fragment:
    """A part of the automaton. `left_out` are the ways to be empty: for each, what its greedy loops would accept."""

    heads: list[Head] = field(default_factory=list)
    exits: list[Exit] = field(default_factory=list)
    left_out: list[tuple[Head, ...]] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)


def without_passing(heads: Iterable[Head]) -> tuple[Head, ...]:
    """Each head once, however it is reached.

    Where a greedy loop is judged by its heads, those of the greedy loops inside it are among them, so that what a
    head has passed is forbidden anyway.
    """
    return tuple(dict.fromkeys(replace(head, passed=()) for head in heads))


def easiest_heads(heads: Iterable[Head]) -> list[Head]:
    """The heads; of those of one slot, none that has to pass all that another one has to pass."""
    return _easiest(heads, lambda head: head.state, lambda head: frozenset(head.passed))


def easiest_exits(exits: Iterable[Exit]) -> list[Exit]:
    """The exits; of those of one state, none that forbids all that another one forbids."""
    return _easiest(exits, lambda exit_: exit_.state, lambda exit_: frozenset(exit_.passed) | bits(exit_.forbid))


def easiest_ways(ways: Iterable[tuple[Head, ...]]) -> list[tuple[Head, ...]]:
    """The ways to be empty; none that asks for all that another one asks for."""
    return _easiest(ways, lambda way: 0, frozenset)


def bits(mask: int) -> frozenset[int]:
    return frozenset(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def _easiest(ways: Iterable[Way], place: Callable[[Way], int], asked: Callable[[Way], frozenset[object]]) -> list[Way]:
    """The ways, without those that ask for as much as another one to the same place: one open way is enough."""
    kept: dict[int, dict[frozenset[object], Way]] = {}
    for way in ways:
        rivals, asks = kept.setdefault(place(way), {}), asked(way)
        if any(less <= asks for less in rivals):
            continue
        for more in [more for more in rivals if asks < more]:
            del rivals[more]
        rivals[asks] = way
        if len(rivals) > MOST_EDGES:
            raise QueryError(
                f"there are more than {MOST_EDGES} ways past the greedy loops before one step",
                remedy="Split the pattern into several definitions, or leave out `greedy`.",
            )
    return [way for rivals in kept.values() for way in rivals.values()]


def _either(refused: tuple[Expression, ...] | None, conditions: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """The conjuncts of `refused or conditions`. No conjuncts are always true, None never is."""
    if refused is None or not conditions:
        return conditions
    return (Binary("or", _all_of(refused), _all_of(conditions)),) if refused else ()


def _all_of(conjuncts: tuple[Expression, ...]) -> Expression:
    return reduce(lambda left, right: Binary("and", left, right), conjuncts)
