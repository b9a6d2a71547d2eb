"""docs/language.md, "From matches to complex events" and "Timed out", on examples worked out by hand."""

from __future__ import annotations

import pytest

from oracle.examples import matches, run, timed_out, times

SELECTORS = [
    ("first keeps the earliest", "A then first B then C", "a1 b2 b3 c4 c5", ["a1 b2 c4"]),
    ("last keeps the latest", "A then last B then C", "a1 b2 b3 c4", ["a1 b3 c4"]),
    ("...for each choice of the others", "A then last B then each C", "a1 b2 c3 b4 c5", ["a1 b2 c3", "a1 b4 c5"]),
    ("they read like then each", "A then last B", "a1 b2 b3", ["a1 b3"]),
    ("of the first step", "last A then B", "a1 a2 b3", ["a2 b3"]),
    ("of an and", "A and last B within 3 s", "a1 b2 b3", ["a1 b3"]),
    ("all judge the same matches", "last A then last B within 2 s", "a1 a2 b3 b4", ["a2 b4"]),
    (
        "...also those that another removes",
        "last A as a then first B(v > a.v)",
        "a1:1 a2:0 b3:1 b4:2",
        ["a2:0 b3:1"],  # a2 b4 goes because of b3, and a1 b4 all the same because of a2
    ),
]

DEADLINES = [
    ("first + T", "A then last B within 5 s", "a1 b2", [("a1 b2", 6)]),
    ("from previous: the other's + T", "A then B then last C within 5 s from previous", "a1 b2 c3", [("a1 b2 c3", 7)]),
    ("from an alias", "A then B as b then last C within 5 s from b", "a1 b1 c3", [("a1 b1 c3", 6)]),
    ("and: the smallest of the others + T", "A and last B within 5 s", "b1 a2", [("b1 a2", 7)]),
    ("and: from itself", "A and last B as b within 5 s from b", "b1 a2", [("b1 a2", 2)]),
    ("not where it cannot be the last event", "A then last B then C within 5 s", "a1 b2 c3", [("a1 b2 c3", 3)]),
    ("without a window: the last event's", "A then last B", "a1 b2", [("a1 b2", 2)]),
    ("first does not wait", "A then first B within 5 s", "a1 b2", [("a1 b2", 2)]),
]

CONSUMING = [
    ("one event completes them together", "A as a then B consuming a", "a1 a2 b3 b4", ["a1 b3", "a2 b3"]),
    ("later ones that hold it are none", "A as a then each B consuming a", "a1 b2 b3", ["a1 b2"]),
    ("only the aliases named", "A then each B as b consuming b", "a1 b2 b3", ["a1 b2", "a1 b3"]),
    ("each alias named", "A as a then each B as b consuming a, b", "a1 a2 b3 b4", ["a1 b3", "a2 b3"]),
    ("an event in another role too", "A as a then each A as b consuming b", "a1 a2 a3", ["a1 a2", "a1 a3"]),
    ("a deadline fires after the events of its time", "A as a then last B within 2 s consuming a", "a1 b3", ["a1 b3"]),
]

AFTER_MATCH = [
    ("no skip", "A+ then B", "a1 a2 b3", ["a1 a2 b3", "a1 b3", "a2 b3"]),
    ("to next", "A+ then B after match skip to next", "a1 a2 b3", ["a1 a2 b3", "a2 b3"]),
    ("past last", "A+ then B after match skip past last", "a1 a2 b3 a4 b5", ["a1 a2 b3", "a4 b5"]),
    ("to first", "A as a then A as b then B after match skip to first b", "a1 a2 a3 b4", ["a1 a2 b4", "a2 a3 b4"]),
    ("to last", "A+ as a then B after match skip to last a", "a1 a2 b3", ["a1 a2 b3", "a2 b3"]),
    ("nothing where the alias is empty", "A then B? as b after match skip to first b", "a1 a2", ["a1", "a2"]),
    ("by completion before positions", "A then each B after match skip past last", "a1 b2 b3", ["a1 b2"]),
]

TIMED_OUT = [
    ("the first slots of a word", "A then B then C within 3 s", "a1 b2", [("a1 b2", 4)]),
    ("that no event continued", "A then each B then C within 3 s", "a1 b2 c3", []),
    ("an event after the window continues nothing", "A then B within 3 s", "a1 b5", [("a1", 4)]),
    ("no match by themselves", "A then B? within 3 s", "a1", []),
    ("no not ended them", "A then not X then B within 3 s", "a1 x2", []),
    ("a not after the deadline", "A then not X then B within 3 s", "a1 x5", [("a1", 4)]),
    ("a missed immediately", "A then immediately B then X within 3 s", "a1 x2", []),
    ("an immediately that still waits", "A then immediately B within 3 s", "a1", [("a1", 4)]),
    ("until ended the loop", "A then B{2} until X then C within 9 s", "a1 b2 x3", []),
    ("from previous", "A then B then C within 3 s from previous", "a1 b4", [("a1 b4", 7)]),
    ("some steps of an and", "A and B within 3 s", "a1 b2 a9", [("a9", 12)]),
    ("an event consumed before", "A as a then B then C? within 3 s consuming a", "a1 b2", []),
    ("a start that is skipped", "A then B within 3 s after match skip past last", "a1 a2 b3 a4", [("a4", 7)]),
]


@pytest.mark.parametrize(("sentence", "pattern", "events", "expected"), SELECTORS + CONSUMING + AFTER_MATCH)
def test_sentence(sentence: str, pattern: str, events: str, expected: list[str]) -> None:
    assert matches(pattern, events) == sorted(expected)


@pytest.mark.parametrize(("sentence", "pattern", "events", "expected"), DEADLINES)
def test_time(sentence: str, pattern: str, events: str, expected: list[tuple[str, float]]) -> None:
    assert times(pattern, events) == expected


@pytest.mark.parametrize(("sentence", "pattern", "events", "expected"), TIMED_OUT)
def test_timed_out(sentence: str, pattern: str, events: str, expected: list[tuple[str, float]]) -> None:
    assert timed_out(pattern, events) == expected


def test_timed_out_events_have_null_for_what_is_missing() -> None:
    query = (
        "subscribe M detect A as a then B+ as b within 3 s assign x = a.v, n = count(b), s = sum(b.v) report timed out"
    )
    (partial,) = run(query, "a1:7").timed_out["M"]
    assert partial.attributes == {"x": 7, "n": 0, "s": None}


def test_groups_and_cases_are_separate() -> None:
    query = """
      subscribe M
        case 1: detect A as a then B as b consuming a
        case 2: detect A as a then B as b
        group by k
    """
    found = run(query, "a1@1 a2@2 a3@_ b4@1 b5@_").matches["M"]
    assert sorted(str(match.group) for match in found) == ["(1,)", "(1,)", "(None,)", "(None,)"]
