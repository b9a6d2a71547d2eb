"""Pattern -> automaton: one state per slot, edges with their contiguity, and watches.

A position automaton (Glushkov): being in a state means "the last event taken was this slot's". What a pattern
forbids between two events (`not`, `greedy`, `until`) is a **watch**: a test on the events that pass while a partial
match waits. Once it has fired, the edges that forbid it are closed. An edge that stays inside the part that a
`not` watches keeps the watch's mark, so that `A+ then not X then B` counts X from the first A on.

docs/language.md, chapter "Patterns", is the definition that this file implements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import assert_never

from situ.core.errors import QueryError
from situ.graph.expressions import Expression, conjuncts
from situ.graph.patterns import (
    Absence,
    And,
    Contiguity,
    EventTest,
    Follow,
    Loop,
    Or,
    Pattern,
    Selector,
    Seq,
    Step,
    can_be_empty,
    decidable,
    steps_of,
)
from situ.graph.typing import THIS
from situ.kernel.program.fragments import (
    MOST_EDGES,
    Exit,
    Fragment,
    Head,
    Silence,
    easiest_exits,
    easiest_heads,
    easiest_ways,
    without_passing,
)

#: Watches are bits of one 64-bit word.
MOST_WATCHES = 62
MOST_STATES = 20_000


@dataclass(frozen=True, slots=True)
class State:
    """A slot: its alias, the type it reads, and the conjuncts that must hold of an event that it takes."""

    alias: str
    event_type: str
    conditions: tuple[Expression, ...]
    conjunction: int = 0  # states of one `and` have a number in common; 0 for all others
    silent: bool = False  # takes time, not an event; without an alias, it waits for a silence that comes first


@dataclass(frozen=True, slots=True)
class Start:
    """A slot that can come first. It passes over an event that fulfils its conditions and `refuses`: see Edge."""

    state: int
    refuses: tuple[Expression, ...] | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """From one slot to the next. Closed once a watch in `forbid` has fired; marks in `keep` travel along.

    `refuses` (from `until`, about the alias `this`): an event that fulfils the target's conditions and these is not
    taken, and counts as the first one for `then`. It is said of the edge, because the slot that begins a repetition
    of an outer loop may also go on an inner one, which the outer loop's `until` does not concern.

    With `length_us` it leads to a silence: it is taken when so much time has passed since the last slot was taken, or
    since that of an edge that `stays` was.
    """

    source: int
    target: int
    contiguity: Contiguity
    forbid: int = 0
    keep: int = 0
    refuses: tuple[Expression, ...] | None = None
    length_us: int = 0
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Watch:
    """A test on passing events. `immediately`: only on the very next event. It rests once one of `unless` fired.
    Without an event type, any event fires it.

    `refused` (True or False): whether it fires for events that `refuses` is true of, or for the others only.
    """

    event_type: str
    alias: str
    conditions: tuple[Expression, ...]
    immediately: bool = False
    unless: int = 0
    refuses: tuple[Expression, ...] | None = None
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Automaton:
    """`accepts[s]`: None, or the watches that must not have fired when a match ending in s fires (at the deadline,
    if there are any: absence at the end). `begins` are the states that wait for a silence that comes first."""

    states: tuple[State, ...]
    starts: tuple[Start, ...]
    edges: tuple[Edge, ...]
    watches: tuple[Watch, ...]
    accepts: tuple[int | None, ...]
    ends_in_absence: bool
    ambiguous: bool
    selectors: tuple[tuple[str, Selector], ...]
    begins: tuple[int, ...] = ()

    @property
    def has_silences(self) -> bool:
        return any(state.silent for state in self.states)

    def watched_in(self, state: int) -> int:
        """The watches that are on while a partial match waits in `state`."""
        mask = self.accepts[state] or 0
        for edge in self.edges:
            if edge.source == state:
                mask |= edge.forbid
            if edge.source == state or edge.target == state:
                mask |= edge.keep
        for bit, watch in enumerate(self.watches):
            if mask >> bit & 1:
                mask |= watch.unless
        return mask

    @property
    def counts_positions(self) -> bool:
        """Whether `immediately` or a silence occurs, so that events which no step accepts matter too."""
        return (
            self.has_silences
            or any(e.contiguity is Contiguity.IMMEDIATELY for e in self.edges)
            or any(w.immediately for w in self.watches)
        )


def pattern_to_automaton(pattern: Pattern) -> Automaton:
    """The automaton of a resolved pattern.

    >>> step = lambda name: Step(EventTest(name), name.lower())
    >>> a = pattern_to_automaton(Seq((Follow(step("A")), Follow(Loop(step("B"), 1, None)), Follow(step("C")))))
    >>> [(e.source, e.target) for e in a.edges]
    [(1, 1), (0, 1), (1, 2)]
    """
    builder = _Builder()
    parts = pattern.parts if isinstance(pattern, Seq) else (Follow(pattern),)
    last = max(i for i, part in enumerate(parts) if isinstance(part, Follow))
    fragment = builder.sequence(parts[: last + 1])
    # What the ways out forbid asks nothing where nothing follows; only a `not` at the very end does.
    final = [replace(exit_, forbid=0) for exit_ in fragment.exits]
    for part in parts[last + 1 :]:
        assert isinstance(part, Absence)
        final = builder.forbid_absence(part, final)
    begins = builder.begin(fragment.heads)
    accepts: list[int | None] = [None] * len(builder.states)
    for exit_ in final:
        accepts[exit_.state] = exit_.forbid
    return Automaton(
        states=tuple(builder.states),
        starts=tuple(Start(h.state, h.refuses) for h in without_passing(fragment.heads) if h.silence is None),
        edges=tuple(builder.edges),
        watches=tuple(builder.watches),
        accepts=tuple(accepts),
        ends_in_absence=last + 1 < len(parts),
        ambiguous=_is_ambiguous(pattern) or builder.has_parallel_edges,
        selectors=tuple((step.alias, step.selector) for step in steps_of(pattern) if step.selector is not None),
        begins=tuple(begins),
    )


class _Builder:
    def __init__(self) -> None:
        self.states: list[State] = []
        self.edges: list[Edge] = []
        self.watches: list[Watch] = []
        self.out_degree: Counter[int] = Counter()
        self.shared_watches: dict[Watch, int] = {}
        self.absences = 0  # the watches that stand for a `not`

    @property
    def has_parallel_edges(self) -> bool:
        """Whether two edges lead from one slot to another: both may be open, and give the same match."""
        return len({(edge.source, edge.target) for edge in self.edges}) < len(self.edges)

    def state(self, alias: str, event_type: str, conditions: Iterable[Expression], silent: bool = False) -> int:
        if len(self.states) >= MOST_STATES:
            raise QueryError(
                f"the pattern has more than {MOST_STATES:,} slots",
                remedy="Lower the upper bounds of its loops, or leave them open: {n,}.",
            )
        self.states.append(State(alias, event_type, tuple(conditions), silent=silent))
        return len(self.states) - 1

    def connect(self, into: Fragment, exits: Iterable[Exit], heads: Iterable[Head], entry: Contiguity) -> None:
        """Edges from all exits to all heads; heads that nothing precedes are starts by themselves."""
        for exit_ in exits:
            for head in heads if exit_.state >= 0 else ():
                self.out_degree[exit_.state] += 1
                if self.out_degree[exit_.state] > MOST_EDGES:
                    raise QueryError(
                        f"more than {MOST_EDGES} alternatives follow one step",
                        remedy="Split the pattern into several definitions.",
                    )
                into.edges.append(len(self.edges))
                forbid = exit_.forbid | self.accepted_next(head.passed, entry, 0)
                contiguity = head.contiguity(entry)
                edge = Edge(exit_.state, head.state, contiguity, forbid, refuses=head.refuses)
                self.edges.append(edge if head.silence is None else self.silent_edge(edge, head.silence))

    def silent_edge(self, edge: Edge, silence: Silence) -> Edge:
        """An edge on which silences have a say. Immediately after what was before, any event breaks one."""
        broken = silence.broken
        if edge.contiguity is Contiguity.IMMEDIATELY and silence.length_us:
            broken |= self.shared_watch(Watch("", THIS, ()))
        return replace(
            edge,
            forbid=edge.forbid | broken,
            keep=edge.keep | silence.kept,
            length_us=silence.length_us,
            stays=silence.stays,
        )

    def begin(self, heads: Iterable[Head]) -> list[int]:
        """States that wait for the silences with which a match can begin: one for each, and one for each `and`."""
        waiting: dict[tuple[int, int], int] = {}
        for head in without_passing(heads):
            if head.silence is None:
                continue
            conjunction = self.states[head.state].conjunction
            key = (conjunction, -1 if conjunction else head.state)
            if key not in waiting:
                waiting[key] = self.state("", "", (), silent=True)
            self.connect(Fragment(), [Exit(waiting[key])], [replace(head, own=None)], Contiguity.NEXT)
        return list(waiting.values())

    def shared_watch(self, watch: Watch) -> int:
        """The bit of a watch whose marks no edge keeps, so that all who ask for the same can read one."""
        if watch not in self.shared_watches:
            self.shared_watches[watch] = self.watch(watch)
        return self.shared_watches[watch]

    def watch(self, watch: Watch) -> int:
        """The bit of a new watch."""
        if len(self.watches) >= MOST_WATCHES:
            raise QueryError(
                f"the pattern has more than {MOST_WATCHES} tests for `not`, `greedy` and `until`",
                remedy="Split the pattern into several definitions, or lower the bounds of its loops.",
            )
        self.watches.append(watch)
        return 1 << (len(self.watches) - 1)

    def build(self, pattern: Pattern) -> Fragment:
        match pattern:
            case Step(test, alias, silence_us=int(length_us)):
                state = self.state(alias, "", (), silent=True)
                broken = self.shared_watch(Watch(test.event_type, THIS, conjuncts(test.condition)))
                return Fragment([Head(state, silence=Silence(broken, length_us=length_us))], [Exit(state)])
            case Step(test, alias, selector):
                state = self.state(alias, test.event_type, conjuncts(test.condition))
                return Fragment([Head(state, every=selector is not None)], [Exit(state)])
            case Loop():
                return self.loop(pattern)
            case Seq(parts):
                return self.sequence(parts)
            case And(steps):
                return self.conjunction(steps)
            case Or(alternatives):
                parts_ = [self.build(alternative) for alternative in alternatives]
                return Fragment(
                    [head for part in parts_ for head in part.heads],
                    [exit_ for part in parts_ for exit_ in part.exits],
                    easiest_ways(way for part in parts_ for way in part.left_out),
                    [edge for part in parts_ for edge in part.edges],
                )
            case _:
                assert_never(pattern)

    def sequence(self, parts: tuple[Follow | Absence, ...]) -> Fragment:
        whole, exits = Fragment(), [Exit(-1)]
        for number, part in enumerate(parts):
            if isinstance(part, Absence):
                exits = self.forbid_absence(part, exits)
                continue
            fragment = self.build(part.pattern)
            heads, left_out = fragment.heads, fragment.left_out
            if number > 0:  # only the first part inherits the contiguity that leads into the whole
                heads = [head.entered_by(part.contiguity) for head in heads]
                left_out = [tuple(head.entered_by(part.contiguity) for head in way) for way in left_out]
            whole.heads += [
                replace(head, passed=exit_.passed + head.passed) for exit_ in exits if exit_.state < 0 for head in heads
            ]
            whole.edges += fragment.edges
            self.connect(whole, exits, heads, part.contiguity)
            bypassed = [self.leave_out(way, exit_) for way in left_out for exit_ in exits]
            exits = easiest_exits([*(replace(exit_, part=fragment) for exit_ in fragment.exits), *bypassed])
        whole.heads = easiest_heads(whole.heads)
        # A `not` binds between slots of its own sequence: where nothing follows it here, it asks nothing.
        whole.exits = easiest_exits(replace(e, forbid=e.forbid & ~self.absences) for e in exits if e.state >= 0)
        whole.left_out = [exit_.passed for exit_ in exits if exit_.state < 0]
        return whole

    def leave_out(self, way: tuple[Head, ...], exit_: Exit) -> Exit:
        """Passing over greedy loops: forbidden if they would have accepted an event on the way."""
        if exit_.state < 0:
            return replace(exit_, passed=exit_.passed + way)
        return replace(exit_, forbid=exit_.forbid | self.accepted_next(way, Contiguity.NEXT, 0))

    def forbid_absence(self, absence: Absence, exits: list[Exit]) -> list[Exit]:
        """`not X` after `exits`: X is watched from the first event of each exit's part on.

        Every part has a watch of its own, since its marks travel along its own edges.
        """
        bits: dict[Fragment, int] = {}
        after = []
        for exit_ in exits:
            if exit_.part is None:  # no event before it: nothing to bind to
                after.append(exit_)
                continue
            if exit_.part not in bits:
                conditions = conjuncts(absence.test.condition)
                bit = self.watch(Watch(absence.test.event_type, THIS, conditions, absence.immediately))
                bits[exit_.part] = bit
                self.absences |= bit
                for edge in exit_.part.edges:
                    self.edges[edge] = replace(self.edges[edge], keep=self.edges[edge].keep | bit)
            after.append(replace(exit_, forbid=exit_.forbid | bits[exit_.part]))
        return after

    def conjunction(self, steps: tuple[Step, ...]) -> Fragment:
        """`A and B`: a state for every set of steps already taken and the one taken last."""
        fragment = Fragment()
        everything = frozenset(range(len(steps)))
        states: dict[tuple[frozenset[int], int], int] = {}
        number = 1 + max((state.conjunction for state in self.states), default=0)
        breaking = {
            i: self.watch(Watch(step.test.event_type, THIS, conjuncts(step.test.condition)))
            for i, step in enumerate(steps)
            if step.silence_us is not None
        }
        for size in range(1, len(steps) + 1):
            for taken in map(frozenset, combinations(everything, size)):
                for last in sorted(taken):
                    state = self.state_of_conjunction(steps, taken, last, number)
                    states[taken, last] = state
                    before = [
                        Exit(states[taken - {last}, other])
                        for other in sorted(taken - {last})
                        if not _together_later(steps, other, last)
                    ]
                    head = Head(state, silence=_silence_in(steps, breaking, taken - {last}, last))
                    self.connect(fragment, before, [head], Contiguity.EACH)
        fragment.heads = [
            Head(states[frozenset({i}), i], every=True, silence=_silence_in(steps, breaking, frozenset(), i))
            for i in sorted(everything)
        ]
        fragment.exits = [Exit(states[everything, i]) for i in sorted(everything)]
        return fragment

    def state_of_conjunction(self, steps: tuple[Step, ...], taken: frozenset[int], last: int, number: int) -> int:
        """The state in which the steps `taken` have their events, and `last` was the last one to get it."""
        step = steps[last]
        if step.silence_us is not None:
            state = self.state(step.alias, "", (), silent=True)
        else:
            bound = {steps[i].alias for i in taken}
            checks = [check for _, check in decidable(steps, bound, step.alias)]
            state = self.state(step.alias, step.test.event_type, checks)
        self.states[state] = replace(self.states[state], conjunction=number)
        return state

    def loop(self, loop: Loop) -> Fragment:
        """Repetitions written out one after another; an open end loops back onto the last one written."""
        ended = 0
        if loop.until is not None:
            ended = self.shared_watch(Watch(loop.until.event_type, THIS, conjuncts(loop.until.condition)))
        whole, exits = Fragment(), [Exit(-1)]
        written = loop.high if loop.high is not None else max(loop.low, 1)
        low = 0 if can_be_empty(loop.body) else loop.low
        still_accepted = 0
        for repetition in range(1, written + 1):
            part = self.build(loop.body)
            if repetition == 1:
                whole.heads = self.first_heads(part.heads, loop.until)
                if loop.greedy and loop.high != 1:
                    still_accepted = self.accepted_next(without_passing(part.heads), loop.inner, ended)
            whole.edges += part.edges
            self.connect(whole, exits, part.heads, loop.inner)
            exits = [replace(exit_, forbid=exit_.forbid | ended) for exit_ in part.exits]
            if loop.high is None and repetition == written:
                self.connect(whole, exits, part.heads, loop.inner)
            may_go_on = loop.high is None or repetition < loop.high
            if repetition >= low:
                closed = still_accepted if may_go_on else 0
                whole.exits += [replace(exit_, forbid=exit_.forbid | closed) for exit_ in part.exits]
        if low == 0:  # where it makes no repetition, loops inside it ask nothing
            whole.left_out = [without_passing(whole.heads) if loop.greedy else ()]
        return whole

    def first_heads(self, heads: list[Head], until: EventTest | None) -> list[Head]:
        """The heads of a loop's first repetition pass over an event that ends the loop.

        Those of the following ones need not: the watch for `until` closes their edges, at the event itself, too.
        """
        if until is None:
            return heads
        conditions = conjuncts(until.condition)
        return [
            head.refusing(conditions) if self.states[head.state].event_type == until.event_type else head
            for head in heads
        ]

    def accepted_next(self, heads: Iterable[Head], entry: Contiguity, unless: int) -> int:
        """Watches for what a greedy loop would still accept: what its head slots could take.

        By `then` a head can take only the first event that fulfils its conditions. If it refuses that one, it takes
        none: a second watch, which comes first, sets the one for the head to rest.
        """
        mask = 0
        for head in heads:
            state, contiguity = self.states[head.state], head.contiguity(entry)
            immediately = contiguity is Contiguity.IMMEDIATELY
            watch = Watch(state.event_type, state.alias, state.conditions, immediately, unless)
            if head.refuses is not None and contiguity is Contiguity.EACH:
                watch = replace(watch, refuses=head.refuses)
            elif head.refuses is not None:
                refused = replace(watch, refuses=head.refuses, refused=True)
                watch = replace(watch, unless=unless | self.shared_watch(refused))
            mask |= self.shared_watch(watch)
        return mask


def _together_later(steps: tuple[Step, ...], one: int, other: int) -> bool:
    """Whether two silences of an `and` are over together, and the first of them comes later in the text: of such, one
    order is enough."""
    return steps[one].silence_us is not None and steps[one].silence_us == steps[other].silence_us and one > other


def _silence_in(steps: tuple[Step, ...], breaking: dict[int, int], taken: frozenset[int], last: int) -> Silence | None:
    """What the silences of an `and`, with the watches that break them, ask of the way from `taken` to `last`.

    All of them count from where the `and` began. What breaks one that is not over ends the match.
    """
    if not breaking:
        return None
    open_ = sum(bit for i, bit in breaking.items() if i not in taken)
    rest = sum(bit for i, bit in breaking.items() if i not in taken and i != last)
    return Silence(open_, rest, stays=bool(rest), length_us=steps[last].silence_us or 0)


def _is_ambiguous(pattern: Pattern, in_loop: bool = False) -> bool:
    """Whether two ways through the automaton can give the same slots the same events: loops in loops."""
    match pattern:
        case Step() | And():
            return False
        case Loop(body):
            return in_loop or _is_ambiguous(body, True)
        case Seq(parts):
            return any(_is_ambiguous(part.pattern, in_loop) for part in parts if isinstance(part, Follow))
        case Or(alternatives):
            return any(_is_ambiguous(alternative, in_loop) for alternative in alternatives)
        case _:
            assert_never(pattern)
