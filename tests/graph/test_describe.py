"""The operator graph as text."""

import pytest

from situ.graph.describe import describe, kind_of, shape_of
from situ.lang.parse import parse
from situ.lang.resolve import resolve

STREAMS = """
stream A(n int, x double, ts timestamp) time ts order n at (x, x) key n watermark 2 s idle after 1 min ahead 1 h
stream B(n int, ts int) time ts in ms
"""


def test_trees_of_what_reads_what() -> None:
    text = STREAMS + (
        "define D(n, y) detect A as a then not B then A(x > a.x)+ as more within 3 s assign n = a.n, y = max(more.x) "
        "group by n after match skip to last more "
        "define Unread(n) case 1: detect B consuming B case 2: detect A "
        "subscribe Q join every 1 min over 2 mins on n detect D and B "
        "subscribe R aggr every 10 events detect outer B and D assign k = count(D) group by n"
    )
    assert describe(resolve(parse(text))).splitlines() == [
        "subscription Q(D_n int, D_y double, B_n int, B_ts int), depth 2",
        "│  join       D and B every 1 min over 2 min",
        "│  on         n",
        "├─ definition D(n int, y double), depth 1",
        "│  │  sequence   A as a then not B then A(..)+ as more within 3 s",
        "│  │  group by   n",
        "│  │  skip       to last more",
        "│  ├─ stream A(n int, x double, ts timestamp)",
        "│  │     time ts, order n, at (x, x), key n, watermark 2 s, idle after 1 min, ahead 1 h",
        "│  └─ stream B(n int, ts int)",
        "│        time ts in ms",
        "└─ B (see above)",
        "subscription R(k int), depth 2",
        "│  aggregate  outer B and D every 10 events",
        "│  group by   n",
        "├─ B (see above)",
        "└─ D (see above)",
        "definition Unread(n int), depth 1",
        "│  filter     case 1: B",
        "│  consuming  B",
        "│  filter     case 2: A",
        "├─ B (see above)",
        "└─ A (see above)",
    ]


def test_streams_that_nothing_reads_are_shown() -> None:
    graph = resolve(parse(STREAMS + "subscribe Q detect A"))
    assert "stream B(n int, ts int)" in describe(graph).splitlines()


def test_where_attributes_come_from_is_shown() -> None:
    graph = resolve(parse("stream A(x int from p.x, t int) time t in s subscribe Q detect A"))
    assert "└─ stream A(x int from p.x, t int)" in describe(graph).splitlines()


@pytest.mark.parametrize(
    ("detect", "kind"),
    [
        ("A", "filter"),
        ("A+", "loop"),
        ("A{2} each greedy until B(..) as a", "loop"),
        ("A{2,} immediately", "loop"),
        ("A{2,5}", "loop"),
        ("(A then B)?", "loop"),
        ("A or B", "or"),
        ("last A and B", "and"),
        ("A then each B* then immediately A as c then not immediately B then A as d", "sequence"),
        ("A then (B or B as c)", "sequence"),
    ],
)
def test_shapes_read_like_the_language(detect: str, kind: str) -> None:
    graph = resolve(parse(f"{STREAMS} subscribe Q detect {detect.replace('(..)', '(n > 1)')}"))
    rule = graph.operators[0].rule
    assert shape_of(rule.cases[0].detect) == detect
    assert kind_of(rule) == kind
