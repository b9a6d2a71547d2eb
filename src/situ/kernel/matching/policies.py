"""From matches to complex events: selectors, consumption, what comes after a match, `once` (docs/language.md).

The kernel finds every match; policies decide which of them stay. A match waits here until that is certain: a later
choice may still win (`last`), an earlier partial match may still complete (`after match`). What waits is part of the
operator's state, as matches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from situ.core.time import BEGINNING, END, LIMIT
from situ.graph.patterns import And, Follow, Loop, Or, Pattern, Selector, Seq, Step
from situ.graph.query import AfterMatch, From, Pause, Skip
from situ.kernel.arrays import I64, U8, U64, Firings, Paths
from situ.kernel.matching.machine import jit
from situ.kernel.matching.matcher import NO_MATCHES, Matches, concat_matches
from situ.kernel.matching.order import lexical_order
from situ.kernel.program.program import Program

UNDECIDED, DECIDED, GHOST = range(3)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(slots=True)
class Waiting:
    """Matches that are not settled. UNDECIDED: a rival may still come; DECIDED: won, but an earlier match is not yet
    settled; GHOST: settled, kept because it may still be another's rival. A match counts at the time `fires`, and among
    those of one time at `moment`: the position of the event that completed it, or after all events (END)."""

    matches: Matches
    status: U8
    fires: I64
    moment: I64

    @property
    def times(self) -> I64:
        """The times of the complex events: when they fire, but for those that only the end of input decides."""
        return np.where(self.fires == END, self.matches.time, self.fires)

    @property
    def firings(self) -> Firings:
        """What the kernels of consumption and skipping read of each match."""
        matches = self.matches
        return Firings(matches.group, matches.first_position, matches.timed_out, self.fires, self.moment)


class JudgedEvents(NamedTuple):
    """What policies read of events, by event: time, position, whether it is a silence, and whether it is consumed. They
    write the last."""

    time: I64
    position: I64
    silent: np.ndarray
    consumed: U8


@dataclass
class Policies:
    """The policies of one case.

    Per group, `skip_past` is the position up to which matches may not start, and `paused_until` the time. No event
    before `passed` will come, so pauses that end before it are over.
    """

    program: Program
    after_match: AfterMatch | Pause
    waiting: Waiting
    skip_past: I64
    paused_until: I64
    passed: int = BEGINNING

    @classmethod
    def of(cls, program: Program, after_match: AfterMatch | Pause) -> Policies:
        nothing = Waiting(NO_MATCHES, np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))
        return cls(program, after_match, nothing, np.zeros(0, np.int64), np.zeros(0, np.int64))

    @cached_property
    def needed(self) -> bool:
        """Whether there is anything to decide about matches."""
        automaton = self.program.automaton
        return bool(
            automaton.selectors
            or automaton.ambiguous
            or self.program.case.consuming
            or self.program.case.once
            or self.after_match != AfterMatch()
        )

    @property
    def paused(self) -> np.ndarray:
        """By group, whether a pause is not over yet."""
        return self.paused_until >= max(self.passed, BEGINNING + 1)

    def settle(self, new: Matches, before: int, events: JudgedEvents, oldest: I64, living: I64) -> Matches:
        """The matches, new or waiting, that are certain now that no event before `before` will come.

        What has been consumed is marked in `events`. Per group, `oldest` is where its earliest partial match starts,
        and `living` where the only match starts that may stay (with `once`).
        """
        time, position = events.time, events.position
        if self.program.automaton.ambiguous:
            new = new.take(np.flatnonzero(~_repeated(new)))
        at_deadline = (new.timed_out != 0) | self.program.automaton.ends_in_absence | events.silent[new.completing]
        moment = np.where(at_deadline, END, position[new.completing])
        all_ = Waiting(
            concat_matches([self.waiting.matches, new]),
            np.concatenate([self.waiting.status, np.zeros(len(new), np.uint8)]),
            np.concatenate([self.waiting.fires, new.time]),
            np.concatenate([self.waiting.moment, moment]),
        )
        keep_until = self._select(all_, before, time, position)
        settled = self._settled(all_, before, events, oldest, living)
        chosen = np.flatnonzero(settled == 1)
        result = replace(all_.matches.take(chosen), time=all_.times[chosen])
        all_.status[settled > 0] = GHOST
        remain = np.flatnonzero((all_.status != GHOST) | (keep_until >= before))
        self.waiting = Waiting(all_.matches.take(remain), all_.status[remain], all_.fires[remain], all_.moment[remain])
        return result

    @property
    def low_watermark(self) -> int:
        """No waiting match becomes a complex event with an earlier time."""
        if not len(self.waiting.matches):
            return END
        return int(self.waiting.times[self.waiting.status != GHOST].min(initial=END))

    # --- selectors

    def _select(self, all_: Waiting, before: int, time: I64, position: I64) -> I64:
        """Decide what can be decided. Returns until when each match must be remembered as a rival."""
        matches, status, fires = all_.matches, all_.status, all_.fires
        selectors = self.program.automaton.selectors
        lost = np.zeros(len(matches), np.bool_)
        decidable_at = np.full(len(matches), BEGINNING)
        for alias, selector in selectors:
            variable = self.program.variables.index(alias)
            chosen = first_events(matches, variable)
            there = chosen >= 0
            places = np.where(there, position[np.maximum(chosen, 0)], 0)
            if selector is Selector.FIRST:
                places = -places
            lost |= there & _outdone(matches, variable, places)
            deadline = self._decision(matches, variable, time)
            final = there & self._in_final_block(matches, variable)
            decidable_at = np.where(final, np.maximum(decidable_at, deadline), decidable_at)
            if selector is Selector.LAST:
                later = final & (status == UNDECIDED) & (deadline >= fires)
                fires[later], all_.moment[later] = deadline[later], END
        now = (status == UNDECIDED) & ((decidable_at < before) | (before == END))
        status[now & lost] = GHOST
        status[now & ~lost] = DECIDED
        if len(selectors) < 2:  # all rivals are decided together
            return np.full(len(matches), BEGINNING)
        within = self.program.case.within
        if within is None:
            return np.full(len(matches), END)
        return np.minimum(decidable_at, END - within.micros) + within.micros

    def _decision(self, matches: Matches, variable: int, time: I64) -> I64:
        """The latest time that another choice for `variable` could have, given the other events."""
        within = self.program.case.within
        if within is None:
            return np.full(len(matches), END)
        least, most = _other_times(matches, variable, time)
        if within.anchor is From.FIRST:
            base = least
        elif within.anchor is From.PREVIOUS:
            base = most
        elif within.anchor == self.program.variables[variable]:
            return least
        else:
            anchor = first_events(matches, self.program.variables.index(str(within.anchor)))
            base = time[np.maximum(anchor, 0)]
        return np.where(least == END, END, base + within.micros)

    def _in_final_block(self, matches: Matches, variable: int) -> np.ndarray:
        """Whether the step is the last of its match in time, or could be: a step of the `and` at its end."""
        blocks = _blocks(self.program.case.detect)
        of_variable = np.array([blocks[alias] for alias in self.program.variables])
        last = matches.path_variable[matches.offsets[1:] - 1] if len(matches) else np.zeros(0, np.int64)
        return of_variable[last] == of_variable[variable]

    # --- consumption and skipping

    def _settled(self, all_: Waiting, before: int, events: JudgedEvents, oldest: I64, living: I64) -> U8:
        """1: a complex event, 2: removed, 0: not yet certain."""
        matches, status, fires, moment = all_.matches, all_.status, all_.fires, all_.moment
        time, position, consumed = events.time, events.position, events.consumed
        settled = np.zeros(len(matches), np.uint8)
        decided = status == DECIDED
        pending = status == UNDECIDED
        # Matches that are judged in the order in which they fire wait for those that may fire before them.
        limit = min(before, fires[pending].min(initial=END))
        may_fire = decided & ((fires < limit) | (before == END))
        if self.program.case.consuming:
            chosen = np.flatnonzero(may_fire)
            order = chosen[lexical_order((moment[chosen], fires[chosen], matches.group[chosen]))]
            variables = np.isin(np.arange(len(self.program.variables)), self._variables(self.program.case.consuming))
            consume(order, all_.firings, matches.paths, variables, consumed, settled)
        elif self.program.case.once:
            self.add_groups(len(oldest))
            order = firing_order(np.flatnonzero(may_fire), all_.firings, matches.paths, position)
            keep_once(order, all_.firings, living, self.skip_past, settled)
        elif isinstance(self.after_match, Pause):
            self.add_groups(len(oldest))
            order = firing_order(np.flatnonzero(may_fire), all_.firings, matches.paths, position)
            starts = time[matches.path_event[matches.offsets[:-1]]]
            ends = np.minimum(all_.times, LIMIT - self.after_match.micros) + self.after_match.micros
            pause(order, all_.firings, starts, ends, self.paused_until, settled)
        elif self.after_match.skip is not Skip.NONE:
            self.add_groups(len(oldest))
            waits = oldest.copy()
            np.minimum.at(waits, matches.group[pending], matches.first_position[pending])
            # What timed out is removed by any match of the same start, so it waits until none can come any more.
            earliest_waiting = waits[matches.group] - (matches.timed_out != 0)
            chosen = np.flatnonzero(decided & (matches.first_position <= earliest_waiting))
            order = skip_order(chosen, all_.firings, matches.paths, position)
            alias = self.program.variables.index(self.after_match.alias) if self.after_match.alias else -1
            strategy = list(Skip).index(self.after_match.skip)
            skip(order, all_.firings, matches.paths, position, strategy, alias, self.skip_past, settled)
        else:
            settled[decided] = 1
        return settled

    def _variables(self, aliases: tuple[str, ...]) -> list[int]:
        return [self.program.variables.index(alias) for alias in aliases]

    def forget(self, groups: np.ndarray) -> None:
        """These groups start afresh."""
        self.skip_past[groups[: len(self.skip_past)]] = -1
        self.paused_until[groups[: len(self.paused_until)]] = BEGINNING

    def add_groups(self, groups: int) -> None:
        """Make room for so many groups in all."""
        if groups > len(self.skip_past):
            more = groups - len(self.skip_past)
            self.skip_past = np.concatenate([self.skip_past, np.full(more, -1, np.int64)])
            self.paused_until = np.concatenate([self.paused_until, np.full(more, BEGINNING, np.int64)])


def first_events(matches: Matches, variable: int) -> I64:
    """The first event of a variable in every match; -1 where it has none."""
    result = np.full(len(matches), -1, np.int64)
    _first_events(matches.paths, variable, result)
    return result


def _blocks(pattern: Pattern) -> dict[str, int]:
    """Numbers the steps of a pattern; those of one `and` have one number."""
    blocks: dict[str, int] = {}

    def visit(part: Pattern) -> None:
        match part:
            case Step(alias=alias):
                blocks[alias] = len(blocks)
            case And(steps):
                number = len(blocks)
                blocks.update({step.alias: number for step in steps})
            case Loop(body):
                visit(body)
            case Seq(parts):
                for item in parts:
                    if isinstance(item, Follow):
                        visit(item.pattern)
            case Or(alternatives):
                for alternative in alternatives:
                    visit(alternative)

    visit(pattern)
    return blocks


def _repeated(matches: Matches) -> np.ndarray:
    """Matches that another one before them equals in all events."""
    hashes = _hashes(matches, -1)
    repeated = np.zeros(len(matches), np.bool_)
    _mark_repeated(np.argsort(hashes, kind="stable"), hashes, matches.paths, repeated)
    return repeated


def _outdone(matches: Matches, variable: int, places: I64) -> np.ndarray:
    """Matches of which another one agrees in all events but the variable's, and has it at a higher place."""
    hashes = _hashes(matches, variable)
    outdone = np.zeros(len(matches), np.bool_)
    _mark_outdone(np.argsort(hashes, kind="stable"), hashes, matches.paths, variable, places, outdone)
    return outdone


def _hashes(matches: Matches, without: int) -> U64:
    """A hash of the events and variables of each match, but for those of one variable (-1: of none)."""
    hashes = np.zeros(len(matches), np.uint64)
    with np.errstate(over="ignore"):  # wraps, as hashes do; compiled code does not say so
        _hash_paths(matches.paths, without, hashes)
    return hashes


def _other_times(matches: Matches, variable: int, time: I64) -> tuple[I64, I64]:
    """The least and the largest time of the events of each match, but for those of one variable."""
    least = np.full(len(matches), END)
    most = np.full(len(matches), BEGINNING)
    _times(matches.paths, variable, time, least, most)
    return least, most


@jit
def _first_events(paths: Paths, variable: int, result: I64) -> None:
    for match in range(len(result)):
        for at in range(paths.offsets[match], paths.offsets[match + 1]):
            if paths.variable[at] == variable:
                result[match] = paths.event[at]
                break


@jit
def _times(paths: Paths, without: int, time: I64, least: I64, most: I64) -> None:
    for match in range(len(least)):
        for at in range(paths.offsets[match], paths.offsets[match + 1]):
            if paths.variable[at] != without:
                least[match] = min(least[match], time[paths.event[at]])
                most[match] = max(most[match], time[paths.event[at]])


@jit
def _hash_paths(paths: Paths, without: int, hashes: U64) -> None:
    for match in range(len(hashes)):
        value = np.uint64(paths.offsets[match + 1] - paths.offsets[match])
        for at in range(paths.offsets[match], paths.offsets[match + 1]):
            if paths.variable[at] != without:
                value ^= np.uint64(paths.event[at] * 64 + paths.variable[at])
                value = (value ^ (value >> np.uint64(29))) * _MIX
        hashes[match] = value


@jit
def _agree(a: int, b: int, without: int, paths: Paths) -> bool:
    """Whether two matches have the same events for the same variables, but for one variable."""
    i, j = paths.offsets[a], paths.offsets[b]
    while True:
        while i < paths.offsets[a + 1] and paths.variable[i] == without:
            i += 1
        while j < paths.offsets[b + 1] and paths.variable[j] == without:
            j += 1
        if i == paths.offsets[a + 1] or j == paths.offsets[b + 1]:
            return i == paths.offsets[a + 1] and j == paths.offsets[b + 1]
        if paths.event[i] != paths.event[j] or paths.variable[i] != paths.variable[j]:
            return False
        i += 1
        j += 1


@jit
def _mark_repeated(order: I64, hashes: U64, paths: Paths, repeated: np.ndarray) -> None:
    begin = 0
    for at in range(len(order)):
        if hashes[order[at]] != hashes[order[begin]]:
            begin = at
        for other in range(begin, at):
            if _agree(order[other], order[at], -1, paths):
                repeated[order[at]] = True
                break


@jit
def _mark_outdone(order: I64, hashes: U64, paths: Paths, variable: int,
                  places: I64, outdone: np.ndarray) -> None:  # fmt: skip
    begin = 0
    while begin < len(order):
        end = begin + 1
        while end < len(order) and hashes[order[end]] == hashes[order[begin]]:
            end += 1
        # Equal hashes nearly always mean equal events: one pass finds the best; a collision costs a second look.
        best, same = order[begin], True
        for at in range(begin + 1, end):
            if not _agree(order[begin], order[at], variable, paths):
                same = False
            elif places[order[at]] > places[best]:
                best = order[at]
        for at in range(begin, end):
            row = order[at]
            if same:
                outdone[row] = places[best] > places[row]
            else:
                for other in range(begin, end):
                    if places[order[other]] > places[row] and _agree(row, order[other], variable, paths):
                        outdone[row] = True
        begin = end


@jit
def consume(order: I64, firings: Firings, paths: Paths, consuming: np.ndarray, consumed: U8, settled: U8) -> None:
    """Settle matches in the order of group and time: those of one moment stand together, then their events are gone."""
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and _fire_together(order[begin], order[end], firings):
            row = order[end]
            settled[row] = 1
            for at in range(paths.offsets[row], paths.offsets[row + 1]):
                if consumed[paths.event[at]] != 0:
                    settled[row] = 2
            end += 1
        for number in range(begin, end):
            row = order[number]
            if settled[row] == 1 and firings.timed_out[row] == 0:
                for at in range(paths.offsets[row], paths.offsets[row + 1]):
                    if consuming[paths.variable[at]]:
                        consumed[paths.event[at]] = 1
        begin = end


@jit
def _fire_together(a: int, b: int, firings: Firings) -> bool:
    """Whether two matches of one group fire at the same moment."""
    return (
        firings.group[a] == firings.group[b]
        and firings.time[a] == firings.time[b]
        and firings.moment[a] == firings.moment[b]
    )


def skip_order(chosen: I64, firings: Firings, paths: Paths, position: I64) -> I64:
    """The chosen matches by group, first position, completion, and the positions of their events in turn.

    What timed out comes after all matches of its first position.
    """
    group, first, timed_out, time, moment = (column[chosen] for column in firings)
    order = chosen[lexical_order((moment, time, timed_out, first, group))]
    _sort_ties(order, firings, paths, position)
    return order


def firing_order(chosen: I64, firings: Firings, paths: Paths, position: I64) -> I64:
    """The chosen matches by group, the moment at which they fire, and the positions of their events in turn.

    What timed out comes after all matches of its moment.
    """
    group, first, timed_out, time, moment = (column[chosen] for column in firings)
    order = chosen[lexical_order((first, timed_out, moment, time, group))]
    _sort_ties(order, firings, paths, position)
    return order


@jit
def _before(a: int, b: int, paths: Paths, position: I64) -> bool:
    """Whether match a comes before match b, by the positions of their events in turn.

    A match of the same events in other roles comes by the order of its steps in the text.
    """
    begin_a, begin_b = paths.offsets[a], paths.offsets[b]
    length_a, length_b = paths.offsets[a + 1] - begin_a, paths.offsets[b + 1] - begin_b
    for at in range(min(length_a, length_b)):
        p, q = position[paths.event[begin_a + at]], position[paths.event[begin_b + at]]
        if p != q:
            return p < q
    if length_a != length_b:
        return length_a < length_b
    for at in range(length_a):
        v, w = paths.variable[begin_a + at], paths.variable[begin_b + at]
        if v != w:
            return v < w
    return False


@jit
def _sort_ties(order: I64, firings: Firings, paths: Paths, position: I64) -> None:
    """Sort runs of equal keys, by insertion. Only the first of a run stays, so runs are short-lived."""
    first, timed_out = firings.first_position, firings.timed_out
    for at in range(1, len(order)):
        row = order[at]
        to = at
        while to > 0:
            other = order[to - 1]
            tied = first[other] == first[row] and timed_out[other] == timed_out[row]
            tied = tied and _fire_together(other, row, firings)
            if not tied or not _before(row, other, paths, position):
                break
            order[to] = other
            to -= 1
        order[to] = row


TO_NEXT, PAST_LAST, TO_FIRST, TO_LAST = (list(Skip).index(s) for s in list(Skip)[1:])


@jit
def skip(order: I64, firings: Firings, paths: Paths, position: I64, strategy: int, alias: int, skip_past: I64,
         settled: U8) -> None:  # fmt: skip
    """Settle matches in order: each one that stays removes the later ones that start at or before its skip point."""
    for row in order:
        group, first = firings.group[row], firings.first_position[row]
        if first <= skip_past[group]:
            settled[row] = 2
            continue
        settled[row] = 1
        if firings.timed_out[row] != 0:
            continue
        point = np.int64(-1)
        if strategy == TO_NEXT:
            point = first
        elif strategy == PAST_LAST:
            point = position[paths.event[paths.offsets[row + 1] - 1]]
        else:
            for at in range(paths.offsets[row], paths.offsets[row + 1]):
                if paths.variable[at] == alias:
                    point = position[paths.event[at]] - 1
                    if strategy == TO_FIRST:
                        break
        skip_past[group] = max(skip_past[group], point)


@jit
def pause(order: I64, firings: Firings, starts: I64, ends: I64, paused_until: I64, settled: U8) -> None:
    """Settle matches in the order in which they fire: each one that stays removes the later ones that start before its
    pause is over. `starts` has the time of a match's first event, `ends` the end of its pause."""
    for row in order:
        group = firings.group[row]
        if starts[row] <= paused_until[group]:
            settled[row] = 2
            continue
        settled[row] = 1
        if firings.timed_out[row] == 0:
            paused_until[group] = max(paused_until[group], ends[row])


@jit
def keep_once(order: I64, firings: Firings, living: I64, skip_past: I64, settled: U8) -> None:
    """Settle matches in the order in which they fire: of the start that lives, the first one stays."""
    for row in order:
        group, first = firings.group[row], firings.first_position[row]
        settled[row] = 2
        if first == living[group] and first > skip_past[group]:
            settled[row] = 1
            skip_past[group] = first
