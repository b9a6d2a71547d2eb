"""docs/language.md, "Aggregation", "Window join" and "Order and time", on examples worked out by hand."""

from __future__ import annotations

from oracle import detect
from oracle.examples import run, values
from situ.lang.parse import parse
from situ.lang.resolve import resolve


def test_tumbling_windows_start_at_multiples_from_the_epoch() -> None:
    query = "subscribe M aggr every 2 s detect A assign n = count(A), s = sum(A.v)"
    assert values(query, "a1:1 a2:2 a3:3 a9:4") == [(2, 1, 1), (4, 2, 5), (10, 1, 4)]


def test_sliding_windows_end_at_multiples() -> None:
    query = "subscribe M aggr every 2 s over 3 s detect A assign n = count(A)"
    assert values(query, "a0 a1 a2") == [(2, 2), (4, 2)]


def test_windows_of_events_hold_the_last_positions() -> None:
    query = "subscribe M aggr every 2 events over 3 events detect A assign s = sum(A.v)"
    assert values(query, "a1:1 a2:2 a3:4 a4:8 a5:16") == [(2, 3), (4, 14)]


def test_an_open_window_without_a_new_event_is_none() -> None:
    query = "subscribe M aggr every 3 events over 1 events detect A assign s = sum(A.v)"
    assert values(query, "a1:1 a2:2 a3:4 a4:8") == [(3, 4)]


def test_positions_count_events_that_no_condition_accepts() -> None:
    query = "subscribe M aggr every 2 events detect A(v > 1) assign n = count(A)"
    assert values(query, "a1:1 a2:2 a3:1 a4:1") == [(2, 1)]


def test_every_step_has_an_event_unless_outer() -> None:
    events = "a1 b1 a3 b5"
    assert values("subscribe M aggr every 2 s detect A and B assign n = count(A)", events) == [(2, 1)]
    outer = "subscribe M aggr every 2 s detect A and outer B assign n = count(B)"
    assert values(outer, events) == [(2, 1), (4, 0)]
    both = "subscribe M aggr every 2 s detect outer A and outer B assign n = count(A) - count(B)"
    assert values(both, events + " c9") == [(2, 0), (4, 1), (6, -1)]


def test_steps_are_sets_never_a_cross_product() -> None:
    query = "subscribe M aggr every 9 s detect A and B assign a = count(A), b = count(B)"
    assert values(query, "a1 a2 a3 b4 b5") == [(9, 3, 2)]


def test_post_aggregates_over_the_records_of_the_cases() -> None:
    query = """
      define P(k, n)
      aggr every 2 s
      < pre >
      case 1: detect A assign n = count(A)
      case 2: detect B assign n = 10 * count(B)
      < post >
      where k = group.k, n = sum(n)
      group by k
      subscribe M detect P
    """
    assert values(query, "a1@1 b1@1 a1@2 b3@2", "P") == [(2, 1, 11), (2, 2, 1), (4, 2, 10)]


def test_join_pairs_events_of_one_window_that_agree() -> None:
    query = """
      subscribe M join every 2 s on k detect A as a and B(v > a.v) as b assign x = a.v, y = b.v
    """
    assert values(query, "a0:1@1 b1:2@1 b1:3@1 b1:0@1 b1:9@2 b2:9@1 a1:0@_ b1:1@_") == [(2, 1, 2), (2, 1, 3)]


def test_join_over_sliding_windows_gives_a_pair_in_each() -> None:
    query = "subscribe M join every 1 s over 3 s on k detect A as a and B as b assign x = a.v"
    assert values(query, "a1:5 b2") == [(3, 5), (4, 5)]


def test_complex_events_feed_others_after_streams_of_the_same_time() -> None:
    query = """
      define D(v) detect A as a then B as b assign v = a.v + b.v
      define E(v) detect D(v > 3) as d assign v = d.v
      subscribe M detect C as c then immediately D as d then E as e assign c = c.v, d = d.v, e = e.v
    """
    assert values(query, "a1:1 b2:3 c2:9") == [(2, 9, 4, 4)]
    (match,) = run(query, "a1:1 b2:3 c2:9").matches["M"]
    assert match.atomic == [("A", 0), ("B", 0), ("C", 0)]


def test_the_order_attribute_decides_before_the_others() -> None:
    text = """
      stream S(v int, n int, x double, y double, ts timestamp) time ts order n at (x, y)
      subscribe M detect S as a then immediately S as b assign first = a.v, second = b.v
    """
    rows = [{"v": 1, "n": 2, "x": 0, "y": 5, "ts": 7}, {"v": 2, "n": 1, "x": -1, "y": 9, "ts": 7}]
    (match,) = detect(resolve(parse(text)), {"S": rows}).matches["M"]
    assert match.attributes == {"first": 2, "second": 1}
    assert (match.time, match.event.box) == (7, (-1.0, 5.0, 0.0, 9.0))
