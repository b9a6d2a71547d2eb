"""Mistakes that everybody makes once: what is said about them, and that it helps."""

from __future__ import annotations

import pytest

from situ.core.errors import QueryError, QuerySyntaxError
from situ.graph.operators import OperatorGraph
from situ.lang.parse import parse
from situ.lang.resolve import resolve, warnings

STREAMS = "".join(f"stream {name}(v int, ts int) time ts in s\n" for name in ("A", "B", "D", "X"))


def graph_of(text: str) -> OperatorGraph:
    return resolve(parse(STREAMS + text))


def remedy_of(text: str) -> str:
    """The last line of what is said about a text that is no query."""
    with pytest.raises(QuerySyntaxError) as error:
        parse(text)
    return error.value.remedy.splitlines()[-1].strip()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("subscribe S detect A then B within 30 m", "30 min"),
        ("subscribe S detect A then B within 1.5 M from previous", "1.5 min"),
        ("subscribe S detect A then B within 2hrs", "2 h"),
        ("subscribe S aggr every 30 m detect A", "30 min"),
        ("subscribe S detect A then B(time(this) - time(A) < 30 m)", "30 min"),
        ("stream A(ts int) time ts in s watermark 200 millis", "200 ms"),
    ],
)
def test_a_unit_that_is_none_of_time(text: str, meant: str) -> None:
    assert remedy_of(text) == f"Did you mean {meant}? A duration is in us, ms, s, min, h or d."


@pytest.mark.parametrize("length", ["30", "30 weeks", "30 w then"])
def test_a_duration_needs_a_unit_of_time(length: str) -> None:
    assert remedy_of(f"subscribe S detect A then B within {length}") == "A duration is in us, ms, s, min, h or d."


def test_other_numbers_are_not_taken_for_durations() -> None:
    assert "duration" not in remedy_of("subscribe S detect A{3 x} then B")
    assert "duration" not in remedy_of("subscribe S detect A around A square 30 min")


@pytest.mark.parametrize(
    "absence", ["not X", "not X(v > 1)", "not immediately X", "not immediately X(abs(v) > (1 + 2))", "not `X`"]
)
def test_what_is_absent_has_no_name(absence: str) -> None:
    said = remedy_of(f"subscribe S detect A then {absence} as p then B within 3 s")
    assert said == "What is absent has no event to name: leave out `as`. A condition reads its event as this.x."


def test_other_mistakes_with_as_are_not_about_absence() -> None:
    assert "absent" not in remedy_of("subscribe S detect A then not X then (B) as b within 3 s")
    assert "absent" not in remedy_of("subscribe S aggr every 1 min as b")


def test_a_query_without_a_subscription_says_what_to_add() -> None:
    assert warnings(graph_of("define Hot(v) detect A(v > 1)")) == (
        "nothing is subscribed to, so there are no results: add `subscribe Name detect Hot`, or ask for the "
        "definitions (show_definitions=True).",
    )
    said = "nothing is subscribed to, so there are no results: add `subscribe Name detect ...`."
    assert warnings(graph_of("")) == (said,)


@pytest.mark.parametrize(
    ("detect", "earlier"),
    [
        ("A as a then D as d then not X within 20 min from d", "a"),
        ("A as a then B as b then D as d then X within 20 min from d", "a and b"),
        ("A as a then (B? as b then D as d) then X within 20 min from d", "a and b"),
        ("(A as a then D as d)+ within 20 min from d", "a"),
        ("A as a or (B as b then D as d) within 20 min from d", "b"),
        ("(A as a and B as b) then D as d within 20 min from d", "a and b"),
    ],
)
def test_a_window_from_a_later_step_is_warned_of(detect: str, earlier: str) -> None:
    (said,) = warnings(graph_of(f"subscribe S detect {detect}"))
    assert said == (
        f"S: `within 20 min from d` takes no event before d: {earlier} can only have the very time of d. "
        "Write `within 20 min from previous`, or define what ends with d, and begin with that: "
        "`detect Defined as d then ... within 20 min`."
    )


@pytest.mark.parametrize(
    "detect",
    [
        "D as d then not X within 20 min from d",
        "D+ as d then B as b within 20 min from d",
        "A as a and D as d within 20 min from d",
        "A as a or D as d within 20 min from d",
        "A as a then D as d within 20 min from previous",
    ],
)
def test_a_window_from_the_first_step_is_not(detect: str) -> None:
    assert warnings(graph_of(f"subscribe S detect {detect}")) == ()


@pytest.mark.parametrize(
    ("absences", "said"),
    [
        ("not immediately X then not B", "stands at the end, where only `not` follows"),
        ("not immediately X then not B then not D", "stands at the end, where only `not` follows"),
        ("not B then not immediately X", "stands last"),
    ],
)
def test_not_immediately_needs_a_part_after_it(absences: str, said: str) -> None:
    with pytest.raises(QueryError) as error:
        graph_of(f"subscribe S detect A then {absences} within 5 s")
    assert error.value.cause == f"`not immediately X` {said}"
    assert error.value.remedy == "It needs a part after it; at the end, write `not X within T`."


def test_not_immediately_before_an_optional_part_is_allowed() -> None:
    graph_of("subscribe S detect A then not immediately X then B? then not D within 5 s")
