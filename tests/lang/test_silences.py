"""Silences in the text: how they read back, what the builder makes of them, and what is refused."""

from __future__ import annotations

import pytest

from situ.core.errors import QueryError, QuerySyntaxError, SituError
from situ.graph.describe import shape_of
from situ.lang.build import all_of, count, detect, event_type, no, query, stream, subscribe, this
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.lang.unparse import unparse

STREAMS = "".join(f"stream {name}(k int, v int, ts int) time ts in s\n" for name in "ABX")


def resolved(rule: str) -> str:
    graph = resolve(parse(f"{STREAMS}subscribe S detect {rule}"))
    return shape_of(graph.operators[-1].rule.cases[0].detect)


@pytest.mark.parametrize(
    "pattern",
    [
        "A as a then no X(v > a.v) for 5 s",
        "A then (no X for 1500 ms as q){1,3} then B within 1 min",
        "no X for 2 min",
        "A then (B and no X for 3 s as q) within 9 s",
        "A then (B or no X for 3 s) within 9 s",
        "A then immediately no `no` for 3 s",
    ],
)
def test_a_silence_reads_back(pattern: str) -> None:
    text = f"subscribe S detect {pattern}"
    assert parse(unparse(parse(text))) == parse(text)
    assert " ".join(unparse(parse(text)).split()).endswith(pattern.split(" within")[-1])


def test_the_builder_says_the_same() -> None:
    beat, x = (event_type(name) for name in ("Beat", "X"))
    quiet = no(x.where(this.v > 3), "5 s").as_("q")
    a = stream("Beat", {"k": "int", "ts": "int"}, time="ts", unit="s")
    b = stream("X", {"k": "int", "v": "int", "ts": "int"}, time="ts", unit="s")
    built = query(a, b, subscribe("S", detect(beat.then(quiet.times(1, 3)), assign={"n": count(quiet)})))
    text = "subscribe S detect Beat then (no X(v > 3) for 5 s as q){1,3} assign n = count(q)"
    assert built.subscriptions == parse(text).subscriptions
    both = all_of(beat, no(x, "2 s"))
    assert both.node == parse("subscribe S detect Beat and no X for 2 s").subscriptions[0].rule.cases[0].detect


def test_a_shape_for_people() -> None:
    assert resolved("A then no X(v > 2) for 90 s then (no B for 1 s as q){2}") == (
        "A then no X(..) for 90 s then (no B for 1 s as q){2}"
    )


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("A then no X for 0 s", "`no X` lasts for no time"),
        ("A then no X for 5 s then B within 3 s", "`no X` lasts longer than the window"),
        ("A then last B then no X for 2 s within 9 s", "`last B` and a silence stand in one pattern"),
        (
            "A then (B and no X for 2 s) within 9 s report timed out",
            "`report timed out` and a silence in an `and` stand together",
        ),
        ("A then (no X for 2 s)+", "a loop of silences has no end"),
        ("A then (no X for 2 s)+ within 9 s from previous", "a loop of silences has no end"),
        ("A then (B then no X for 2 s)+ greedy then A as c within 9 s", "`greedy` repeats a silence"),
        ("A then each no X for 2 s", "`each` stands before a silence"),
        ("A then immediately (B and no X for 2 s) within 9 s", "`immediately` stands before an `and` with a silence"),
        ("A then no X for 2 s as q assign v = q.v", "'q' is a silence, and has no attribute 'v'"),
        ("A then no X for 2 s as q then B(time(this) > time(q)) within 9 s", "a condition reads the silence 'q'"),
        ("A then no X for 2 s as q consuming q", "`consuming q` names a silence"),
        ("A then no X for 2 s as q after match skip to first q", "`after match q` names a silence"),
        ("A as q then no X for 2 s as q", "two steps are called 'q'"),
        ("A then (B as b and no X(v > b.v) for 2 s) within 9 s", "a silence of an `and` reads 'b'"),
        ("no X for 1000000 d", "`no X` lasts longer than a hundred years"),
    ],
)
def test_what_makes_no_sense_is_refused(rule: str, said: str) -> None:
    with pytest.raises(QueryError) as refused:
        resolved(rule)
    assert said in str(refused.value)


def test_windows_take_no_silence() -> None:
    for rule in ("aggr every 2 s detect A and no X for 2 s", "join every 2 s on k detect A and no X for 2 s"):
        with pytest.raises(SituError, match="takes no silence"):
            resolve(parse(f"{STREAMS}subscribe S {rule}"))


def test_not_for_is_no_for() -> None:
    with pytest.raises(QuerySyntaxError, match="Did you mean `no X for T`"):
        parse("subscribe S detect A then not X(v > 2) for 5 s")


@pytest.mark.parametrize("pattern", ["not X then B", "A then (not X for 5 s)", "A and not X"])
def test_not_where_no_step_is_before_it_is_told_where_it_stands(pattern: str) -> None:
    with pytest.raises(QuerySyntaxError, match=r"`not X` stands after `then`.*`no X for T`"):
        parse(f"subscribe S detect {pattern} within 5 s")
