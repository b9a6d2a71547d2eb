"""Every sentence of docs/language.md, chapters "Words" and "Matches", on an example worked out by hand."""

from __future__ import annotations

import pytest

from oracle.examples import matches, times

WORDS = [
    ("a step is a word of one slot", "A", "a1 b2 a3", ["a1", "a3"]),
    ("or gives the words of each alternative", "A or B", "a1 b2 x3", ["a1", "b2"]),
    ("a sequence concatenates", "A then B", "a1 b2", ["a1 b2"]),
    ("the first slot of a part has its contiguity", "A then immediately (B then C)", "a1 b2 a3 c4", ["a1 b2 c4"]),
    ("...the part's, not its own", "A then immediately (B then C)", "a1 c2 b3 c4", []),
    ("a slot keeps its own contiguity", "A then immediately (B? as b then C) then X", "a1 x2 c3 x4", ["a1 c3 x4"]),
    ("a loop has every length", "A then B{1,2}", "a1 b2 b3 b4", ["a1 b2", "a1 b2 b3"]),
    ("+ is {1,}", "A then B+", "a1 b2 b3 b4", ["a1 b2", "a1 b2 b3", "a1 b2 b3 b4"]),
    ("* is {0,}", "A then B*", "a1 b2 b3", ["a1", "a1 b2", "a1 b2 b3"]),
    ("? is {0,1}", "A then B?", "a1 b2 b3", ["a1", "a1 b2"]),
    ("a loop's head has its contiguity", "A then each B{2}", "a1 b2 b3 b4", ["a1 b2 b3", "a1 b3 b4"]),
    ("following heads have the inner one", "A then B{2} each", "a1 b2 b3 b4", ["a1 b2 b3", "a1 b2 b4"]),
    ("inner immediately", "A then each B{2} immediately", "a1 b2 a3 b4 b5", ["a1 b4 b5", "a3 b4 b5"]),
    ("a group repeats like a step", "(A then B){2}", "a1 b2 a3 b4", ["a1 b2 a3 b4"]),
    ("the empty word is no match", "A*", "x1", []),
    ("a repetition is never empty", "A then (B? as b then C? as c){2}", "a1 b2", ["a1", "a1 b2"]),
]

MATCHES = [
    ("then each: nothing more is asked", "A then each B", "a1 b2 b3", ["a1 b2", "a1 b3"]),
    ("then: the first one that satisfies", "A then B(v > 0)", "a1 b2 b3:1 b4:1", ["a1 b3:1"]),
    ("given the events before it", "A as a then B(v > a.v)", "a1:1 b2:1 b3:2 b4:3", ["a1:1 b3:2"]),
    ("immediately: plus one", "A then immediately B", "a1 b2 a3 a4 b5", ["a1 b2", "a4 b5"]),
    ("...other types do not count", "A then immediately B", "a1 x2 b3", ["a1 b3"]),
    ("immediately counts all named types", "A then immediately B then X", "a1 x2 b3 x4", []),
    ("every event of the first slot starts a match", "A then B", "a1 a2 b3", ["a1 b3", "a2 b3"]),
    ("the same steps and events are one match", "(A? then B?){1,2}", "a1 b2", ["a1", "a1 b2", "b2"]),
    ("positions decide ties of time", "A then B", "b1 a1", ["a1 b1"]),
    ("...by name of the type", "B then A", "b1 a1", []),
    ("...then by attributes, nulls first", "A as a then A as b", "a1:1 a1:_", ["a1:_ a1:1"]),
    ("an aggregate sees the events taken so far", "A+ as a then B(v = count(a))", "a1 a2 b3:2", ["a1 a2 b3:2"]),
    ("...without the event under test", "A(v = count(a))+ as a", "a1:0 a2:1 a3:1", ["a1:0", "a1:0 a2:1"]),
]

ABSENCE = [
    ("none in (f, g]", "A then not X then B", "a1 x2 b3 a4 b5", ["a4 b5"]),
    ("f itself does not count", "A then not A then B", "a1 b2", ["a1 b2"]),
    ("g itself counts", "A then not B(v = 1) then B", "a1 b2:1 a3 b4", ["a3 b4"]),
    ("from the first event of the part before", "A{2} then not X then B", "a1 x2 a3 b4", []),
    ("...which may be a group", "(A then C) then not X then B", "a1 x2 c3 b4", []),
    ("...of those that have a slot", "A then C? then not X then B", "a1 x2 b3", []),
    ("...as here", "A then C? then not X then B", "a1 x2 c3 b4", ["a1 c3 b4"]),
    ("the condition sees the events before it", "A as a then not X(v = a.v) then B", "a1:1 a2:2 x3:1 b4", ["a2:2 b4"]),
    ("not immediately", "A then not immediately X then B", "a1 x2 b3 a4 b5 x6", ["a4 b5"]),
    ("...after each event of a loop", "A{2} then not immediately X then B", "a1 x2 a3 b4", []),
    ("a tail that is wholly optional", "A then not X then B?", "a1 x2 b3", ["a1"]),
    ("...binds when it is there", "A then not X then B?", "a1 b2", ["a1", "a1 b2"]),
    ("in a loop: within the repetition", "(A then not X then B){2}", "a1 b2 x3 a4 b5", ["a1 b2 a4 b5"]),
    ("the sequence's own parts", "A then (C? then not X then B)", "a1 x2 b3", ["a1 b3"]),
    ("at the end", "A then not X within 2 s", "a1 x3 a4 x7 a8", ["a4", "a8"]),
    ("at the end, from the first event of the part", "A{2} then not X within 5 s", "a1 x2 a3", []),
    ("at the end, from previous", "A then B then not X within 2 s from previous", "a1 b3 x6", ["a1 b3"]),
    ("at the end, from an alias", "A as a then B then not X within 3 s from a", "a1 b3 x4", []),
]

UNTIL = [
    ("a head never takes U", "A then B+ until B(v = 1)", "a1 b2:1 b3", []),
    ("U before the second repetition ends it", "A then B+ until X", "a1 b2 x3 b4", ["a1 b2"]),
    ("U before the first does not", "A then B+ until X", "a1 x2 b3", ["a1 b3"]),
    (
        "U sees the events taken so far",
        "A then B+ until X(v = count(b)) as b",
        "a1 b2 x3:2 b4 x5:2 b6",
        ["a1 b2", "a1 b2 b4"],
    ),
    ("U still counts as the first for then", "A then B* until B(v = 1) then C", "a1 b2:1 b3 c4", ["a1 c4"]),
    ("the rest of a repetition may be U", "(A then X){1,2} until X", "a1 x2 a3 x4", ["a1 x2", "a1 x2 a3 x4", "a3 x4"]),
]

GREEDY = [
    ("no event that it would still take", "A then B+ greedy then C", "a1 b2 b3 c4", ["a1 b2 b3 c4"]),
    ("...the following one included", "A then B+ greedy then B(v = 1) as c", "a1 b2 b3:1", []),
    (
        "not where it has its largest number",
        "A then B{1,2} greedy then B(v = 1) as c",
        "a1 b2 b3 b4:1",
        ["a1 b2 b3 b4:1"],
    ),
    ("an empty loop looks from the slot before", "A then B* greedy then C", "a1 b2 c3", ["a1 b2 c3"]),
    (
        "immediately: only the next event",
        "A then B+ immediately greedy then C",
        "a1 b2 a3 b4 c5",
        ["a1 b2 c5", "a3 b4 c5"],
    ),
    ("until ends what it takes", "A then B+ greedy until X then C", "a1 b2 x3 b4 c5", ["a1 b2 c5"]),
    ("then passes its event by", "A then B* greedy until B(v = 1) then C", "a1 b2:1 b3 c4", ["a1 c4"]),
    ("at the very start, empty: nothing is asked", "A* greedy then B", "a1 b2", ["a1 b2", "b2"]),
    ("with nothing after it: nothing is asked", "A then B+ greedy", "a1 b2 b3", ["a1 b2", "a1 b2 b3"]),
]

WINDOWS = [
    ("inclusive", "A then B within 2 s", "a1 b3", ["a1 b3"]),
    ("last - first", "A then B then C within 2 s", "a1 b2 c4", []),
    ("from previous", "A then B then C within 2 s from previous", "a1 b3 c5", ["a1 b3 c5"]),
    ("from an alias", "A then B as b then C within 2 s from b", "a1 b1 c3", ["a1 b1 c3"]),
    ("...none before it", "A then B as b then C within 2 s from b", "a1 b2 c3", []),
    ("...its first event", "A+ as a then B within 2 s from a", "a1 a2 b4", ["a2 b4"]),
    ("...a word without it does not match", "A? as a then B within 2 s from a", "b1", []),
]

AND_OR = [
    ("any order in time", "A and B", "b1 a2", ["b1 a2"]),
    ("any choice", "A and B", "a1 b2 b3", ["a1 b2", "a1 b3"]),
    ("different events", "A as a and A as b", "a1", []),
    ("conditions refer to earlier steps", "A as a and B(v = a.v)", "b1:1 b2:2 a3:2", ["b2:2 a3:2"]),
    ("then reads every combination", "X then (A and B)", "x1 a2 b3 b4", ["x1 a2 b3", "x1 a2 b4"]),
    ("it begins after the event before it", "X then (A and B)", "a1 x2 b3", []),
    ("immediately is of the earliest", "X then immediately (A and B)", "x1 b2 a3 a4", ["x1 b2 a3", "x1 b2 a4"]),
    ("what follows comes after all", "(A and B) then C", "a1 c2 b3 c4", ["a1 b3 c4"]),
    ("not takes its first event", "(A and B) then not X then C", "a1 x2 b3 c4", []),
    ("not immediately takes all its events", "(A and B) then not immediately X then C", "a1 x2 b3 c4", []),
    ("from previous: in order of position", "A and B and C within 2 s from previous", "c1 a3 b5", ["c1 a3 b5"]),
    ("alternatives are independent", "A then (B or C)", "a1 b2 c3", ["a1 b2", "a1 c3"]),
]


@pytest.mark.parametrize(
    ("sentence", "pattern", "events", "expected"), WORDS + MATCHES + ABSENCE + UNTIL + GREEDY + WINDOWS + AND_OR
)
def test_sentence(sentence: str, pattern: str, events: str, expected: list[str]) -> None:
    assert matches(pattern, events) == sorted(expected)


def test_time_is_the_largest_of_the_events() -> None:
    assert times("A and B", "b1 a4") == [("b1 a4", 4)]


def test_an_absence_at_the_end_has_the_deadline() -> None:
    assert times("A then not X within 3 s", "a1") == [("a1", 4)]
    assert times("A then B then not X within 3 s from previous", "a1 b3") == [("a1 b3", 6)]
    assert times("A then B as b then not X within 3 s from b", "a1 b1") == [("a1 b1", 4)]
