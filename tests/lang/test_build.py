"""The builder makes what `parse` makes of the text."""

from __future__ import annotations

import decimal
from datetime import timedelta
from pathlib import Path

import pytest

from situ.core.errors import QueryError
from situ.core.types import DOUBLE, Decimal
from situ.graph.query import Case, Query, Subscription
from situ.lang.build import (
    EventType,
    Expr,
    Part,
    Quality,
    aggr,
    all_of,
    any_of,
    avg,
    bandwidth_delay,
    circle,
    count,
    count_distinct,
    define,
    detect,
    event_type,
    every,
    first,
    fn,
    group,
    group_key,
    hops,
    join,
    last,
    latency,
    literal,
    load,
    max_,
    min_,
    moved,
    numbered,
    overhead,
    pause,
    query,
    rectangle,
    skip_past_last,
    skip_to_first,
    skip_to_last,
    skip_to_next,
    square,
    stddev,
    stream,
    subscribe,
    sum_,
    this,
    time_of,
)
from situ.lang.parse import parse

HERE = Path(__file__).parent
A, B, C, D = (event_type(name) for name in "ABCD")
a, b = A.as_("a"), B.as_("b")


def same(built: Query, text: str) -> None:
    assert repr(built) == repr(parse(text))  # repr tells True from 1


# ---- expressions


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (a.x + 1 - a.y * 2 / a.z % 3, "a.x + 1 - a.y * 2 / a.z % 3"),
        (1 + a.x, "1 + a.x"),
        (2 - a.x, "2 - a.x"),
        (3 * a.x, "3 * a.x"),
        (4 / a.x, "4 / a.x"),
        (5 % a.x, "5 % a.x"),
        (-a.x, "-a.x"),
        ((a.x == 1) & (a.y != 2) | ~(a.z < 3), "a.x = 1 and a.y != 2 or not a.z < 3"),
        ((a.x <= 1) & (a.y > 2) & (a.z >= 3), "a.x <= 1 and a.y > 2 and a.z >= 3"),
        (True & (a.x == 1), "true and a.x = 1"),
        (False | (a.x == 1), "false or a.x = 1"),
        (a.x.is_null() | a.y.is_not_null(), "a.x is null or a.y is not null"),
        (a.x.in_(1, "two", None), "a.x in (1, 'two', null)"),
        (a.x.not_in(1.5, True), "a.x not in (1.5, true)"),
        (a.x.between(1, a.y), "a.x between 1 and a.y"),
        (a.x.cast("decimal(10, 2)"), "cast(a.x as decimal(10, 2))"),
        (a.x.cast(Decimal(3, 1)), "cast(a.x as decimal(3, 1))"),
        (literal(-3), "-3"),
        (literal("it's"), "'it''s'"),
        (literal(decimal.Decimal("1.10")), "1.10d"),
        (a.t - b.t < timedelta(minutes=5), "a.t - b.t < 5 min"),
        (a["first"] + a["lane no"], "a.first + a.`lane no`"),
        (this.x + this["x y"], "x + `x y`"),
        (time_of(a), "time(a)"),
        (group_key("x"), "group.x"),
        (count(a) + count(a.x) + count_distinct(a.x), "count(a) + count(a.x) + count(distinct a.x)"),
        (sum_(a.x) + avg(a.x) + min_(a.x) + max_(a.x), "sum(a.x) + avg(a.x) + min(a.x) + max(a.x)"),
        (first(a.x) + last(a.x) + stddev(a.x), "first(a.x) + last(a.x) + stddev(a.x)"),
        (fn.coalesce(a.x, 0) + fn.FaceDetect(a), "coalesce(a.x, 0) + FaceDetect(a)"),
    ],
)
def test_expressions(built: Expr, text: str) -> None:
    same(query(subscribe("S", detect(A, assign={"x": built}))), f"subscribe S detect A assign x = {text}")


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match=r"write & \| ~"):
        assert a.x < a.y < a.z
    with pytest.raises(TypeError, match="unhashable"):
        hash(a.x)


def test_constants_that_no_text_can_say_are_refused() -> None:
    with pytest.raises(QueryError, match="no constant"):
        literal(float("nan"))


# ---- patterns


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (A, "A"),
        (a.where(a.x > 5), "A(x > 5) as a"),
        (a.where(this.x > 5).where(a.y < 6), "A(x > 5 and y < 6) as a"),
        (A.where(A.x > 5), "A(x > 5)"),
        (b.where(b.x > a.x), "B(x > a.x) as b"),
        (b.where(~b.x.is_null() & b.y.in_(1) & (fn.f(b.x, -b.x, b.x.cast("int")) > 1)),
         "B(not x is null and y in (1) and f(x, -x, cast(x as int)) > 1) as b"),
        (a.where(a.x > avg(a.x)).one_or_more(), "A(x > avg(a.x))+ as a"),
        (a.then(b).then_each(C).then_immediately(D), "A as a then B as b then each C then immediately D"),
        (A.then_not(B.where(this.x > 1)).then_not_immediately(C).then(D),
         "A then not B(x > 1) then not immediately C then D"),
        (A.first().then(B.last()), "first A then last B"),
        (A.then_immediately(B.first()), "A then immediately first B"),
        (A.then(B.then(C)), "A then (B then C)"),
        (group(A.then(B)).then(C), "(A then B) then C"),
        (A.then(B).one_or_more().then(C), "(A then B)+ then C"),
        (all_of(a, B.last(), C), "A as a and last B and C"),
        (all_of(A.outer(), B.outer()), "outer A and outer B"),
        (any_of(A, B.then(C), any_of(C, D)), "A or B then C or (C or D)"),
        (any_of(A, B).then(all_of(C, D)), "(A or B) then C and D"),
        (any_of(A, B).times(2, 5), "(A or B){2,5}"),
        (A.any_number().each().then(B.optional().immediately()), "A* each then B? immediately"),
        (a.times(3).greedy().then(B), "A{3} greedy as a then B"),
        (a.at_least(3).each().greedy().until(B.where(this.x == 1)), "A{3,} each greedy until B(x = 1) as a"),
    ],
)  # fmt: skip
def test_patterns(built: Part, text: str) -> None:
    same(query(subscribe("S", detect(built))), f"subscribe S detect {text}")


def test_attributes_of_known_types_are_checked_and_completed() -> None:
    vehicle = stream("Vehicle", {"speed": "double", "ts": "timestamp"}, time="ts")
    jam = vehicle.as_("jam").one_or_more()
    assert {"speed", "ts", "where"} <= set(dir(vehicle))
    assert {"speed", "ts", "greedy"} <= set(dir(jam))
    for wrong in (vehicle, vehicle.as_("a"), jam):
        with pytest.raises(AttributeError, match="Did you mean 'speed'"):
            _ = wrong.sped
        with pytest.raises(QueryError, match="Did you mean 'speed'"):
            _ = wrong["sped"]
        assert not hasattr(wrong, "_repr_html_")
    with pytest.raises(AttributeError, match="no alias"):
        _ = a.then(b).one_or_more().speed


# ---- statements


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (detect(A, within="3 s"), "detect A within 3 s"),
        (detect(a, within=timedelta(seconds=3), from_=a), "detect A as a within 3 s from a"),
        (detect(A, within="3 s", from_="previous"), "detect A within 3 s from previous"),
        (detect(A.as_("previous"), within="3 s", from_=A.as_("previous")),
         "detect A as previous within 3 s from `previous`"),
        (detect(a.then(b), consuming=(a, "b")), "detect A as a then B as b consuming a, b"),
        (detect(a, consuming=a, case=3), "case 3: detect A as a consuming a"),
        (detect(A, assign={"x": 1, "y": a.y, "z": None}), "detect A assign x = 1, y = a.y, z = null"),
    ],
)  # fmt: skip
def test_cases(built: Case, text: str) -> None:
    same(query(subscribe("S", built)), f"subscribe S {text}")


PLAIN = detect(A)


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (subscribe("S", PLAIN, window=aggr("2 min")), "aggr every 2 min detect A"),
        (subscribe("S", PLAIN, window=aggr("1 min", over="1 h", post={"n": sum_(this.n)})),
         "aggr every 1 min over 1 h <pre> detect A <post> where n = sum(n)"),
        (subscribe("S", PLAIN, window=aggr("1 event", over="5 events")), "aggr every 1 event over 5 events detect A"),
        (subscribe("S", PLAIN, window=join("1 s", over="5 s", on=("k", "l"))),
         "join every 1 s over 5 s on k, l detect A"),
        (subscribe("S", PLAIN, detect(B)), "case 0: detect A case 1: detect B"),
        (subscribe("S", PLAIN, group_by="x", report_timed_out=True), "detect A group by x report timed out"),
        (subscribe("S", PLAIN, group_by=("x", "y")), "detect A group by x, y"),
        (subscribe("S", PLAIN, after_match=skip_to_next()), "detect A after match skip to next"),
        (subscribe("S", PLAIN, after_match=skip_past_last()), "detect A after match skip past last"),
        (subscribe("S", PLAIN, after_match=skip_to_first(a)), "detect A after match skip to first a"),
        (subscribe("S", PLAIN, after_match=skip_to_last("a")), "detect A after match skip to last a"),
        (subscribe("S", PLAIN, after_match=pause("1 h")), "detect A after match pause 1 h"),
        (subscribe("S", detect(A, once=True)), "detect once A"),
        (subscribe("S", PLAIN, consumer=(C, "id"), around=rectangle(C, 20, 30)),
         "for C(id) detect A around C rectangle 20 m x 30 m"),
        (subscribe("S", PLAIN, around=circle("C", 1.5), deliver="best effort"),
         "detect A around C circle 1.5 m deliver best effort"),
        (subscribe("S", PLAIN, update="basic"), "detect A update basic"),
        (subscribe("S", PLAIN, update=every("5 s")), "detect A update every 5 s"),
        (subscribe("S", PLAIN, update=moved(50)), "detect A update moved 50 m"),
        (subscribe("S", PLAIN, demand=latency("1 s")), "detect A demand latency < 1 s"),
        (subscribe("S", PLAIN, demand=(load(500), hops(4), bandwidth_delay(2.5))),
         "detect A demand load < 500, hops < 4, bandwidth-delay < 2.5"),
    ],
)  # fmt: skip
def test_subscriptions(built: Subscription, text: str) -> None:
    same(query(built), f"subscribe S {text}")


def test_attributes_from_other_columns() -> None:
    attributes = {
        "x": ("double", "position.x"),
        "y": (DOUBLE, ("a.b", "y")),
        "t": ("timestamp", "event time"),
    }
    same(
        query(stream("S", attributes, time="t", at=("x", "y"))),
        "stream S(x double from position.x, y double from `a.b`.y, t timestamp from `event time`) time t at (x, y)",
    )


def test_definition_attributes() -> None:
    assigned = detect(A, assign={"x": A.x, "y": A.y})
    same(query(define("D", assigned)), "define D(x, y) detect A assign x = A.x, y = A.y")
    same(query(define("D", assigned, attributes=("y", "x"))), "define D(y, x) detect A assign x = A.x, y = A.y")
    same(
        query(define("D", assigned, window=aggr("1 s", post={"z": max_(this.y)}))),
        "define D(z) aggr every 1 s detect A assign x = A.x, y = A.y where z = max(y)",
    )


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: detect(A, within="3 parsecs"), "'3 parsecs' is no duration"),
        (lambda: stream("S", {"x": "dobule"}, time="x"), "Did you mean 'double'"),
        (lambda: query(A), "A is only a name here"),
        (lambda: aggr("3 events", over="5 s"), "'3 events' is no duration"),
    ],
)
def test_mistakes(wrong: object, says: str) -> None:
    assert callable(wrong)
    with pytest.raises(QueryError, match=says):
        wrong()


# ---- whole queries


def test_traffic() -> None:
    place = {"x": "double", "y": "double"}
    vehicle = stream(
        "Vehicle",
        {"vehicle": "string", **place, "speed": "double", "lane": "string", "ts": "timestamp"},
        time="ts",
        at=("x", "y"),
        key="vehicle",
    )
    lane_change = stream(
        "LaneChange",
        {"vehicle": "string", "lane": "string", "fee": "decimal(10, 2)", "ms": "int", "nr": "int"},
        time="ms",
        unit="ms",
        order="nr",
        key="vehicle",
        unique="nr",
        watermark="2 s",
        idle_after=timedelta(minutes=1),
        ahead="1 h",
    )
    consumer = stream("Consumer", {"id": "string", **place, "ts": "timestamp"}, time="ts", at=("x", "y"), key="id")

    a, b = vehicle.as_("a"), vehicle.as_("b")
    braking = define(
        "Braking",
        detect(
            a.then(b.where(b.speed < a.speed - 5)),
            within="3 s",
            assign={"vehicle": b.vehicle, "lane": b.lane, "drop": a.speed - b.speed},
        ),
        group_by="vehicle",
    )
    jam, dodge = braking.as_("jam").one_or_more(), lane_change.as_("dodge").at_least(3)
    accident = define(
        "Accident", detect(jam.then(dodge), within="30 s", assign={"lane": last(jam.lane), "cars": count(jam)})
    )
    slow_lane = define(
        "SlowLane",
        detect(vehicle, assign={"lane": group_key("lane"), "speed": avg(vehicle.speed)}),
        window=aggr("1 min", over="10 min"),
        group_by="lane",
    )
    one, other = braking.as_("a"), braking.as_("b")
    pairs = define(
        "Pairs",
        detect(all_of(one, other.where(other.drop > one.drop)), assign={"lane": one.lane}),
        window=join("10 s", on="lane"),
    )
    nearby = subscribe(
        "NearbyAccidents",
        detect(accident, assign={"lane": accident.lane}),
        consumer=(consumer, "id"),
        around=square(consumer, 500),
        lifetime="30 min",
        update="when quality",
        deliver="complete",
        quality=Quality(precision=0.9, recall=0.9, disparity=0.5),
        demand=(latency("100 ms"), overhead(10_000)),
    )
    built = query(vehicle, lane_change, consumer, braking, accident, slow_lane, pairs, nearby)
    same(built, (HERE / "traffic.situ").read_text())


def movement(name: str, when_0: str, when_1: str, tracking: EventType) -> EventType:
    def moved_through(direction: int, location: str) -> Case:
        return detect(
            tracking.where(this.direction == direction),
            assign={"location": tracking[location], "timestamp": tracking.timestamp},
            consuming=tracking,
        )

    return define(name, moved_through(0, when_0), moved_through(1, when_1))


def out_of_range(
    number: int, people_count: EventType, average: EventType, alias: str, low: int, high: int
) -> Subscription:
    people, outside = people_count.as_("PeopleCount"), average.as_(alias)
    return subscribe(
        numbered(number, subscriber="User1", actor="AirController"),
        detect(
            all_of(people.where(people["count"] > 0).last(), outside.where((outside.avg < low) | (outside.avg > high))),
            within="5 mins",
            from_=people,
            assign={"avg": outside.avg, "location": group_key("location"), "timestamp": people.timestamp},
            consuming=outside,
        ),
        group_by="location",
    )


def test_edgecep() -> None:
    at_location = {"location": "string", "avg": "double", "timestamp": "timestamp"}
    tracking = stream(
        "Tracking",
        {"left": "string", "right": "string", "direction": "int", "timestamp": "timestamp"},
        time="timestamp",
    )
    temperature = stream("AvgTemp5Mins", at_location, time="timestamp")
    humidity = stream("AvgHumid5Mins", at_location, time="timestamp")
    video = stream("Video", {"location": "string", "frame": "binary", "timestamp": "timestamp"}, time="timestamp")
    move_in = movement("MoveIn", "left", "right", tracking)
    move_out = movement("MoveOut", "right", "left", tracking)
    location = group_key("location")
    people_count = define(
        "PeopleCount2Mins",
        detect(
            all_of(move_in.outer(), move_out.outer()),
            assign={
                "location": location,
                "count": count(move_in) - count(move_out),
                "timestamp": max_(move_out.timestamp),
            },
        ),
        window=aggr(
            "2 mins",
            post={"location": location, "count": sum_(this["count"]), "timestamp": max_(this.timestamp)},
        ),
        group_by="location",
    )
    faces = subscribe(
        numbered(3, subscriber="User1", actor="Gateway"),
        detect(
            all_of(move_in, video),
            within="5 mins",
            from_=move_in,
            assign={"face": fn.FaceDetect(video), "location": location, "timestamp": move_in.timestamp},
            consuming=video,
        ),
        group_by="location",
    )
    built = query(
        *(tracking, temperature, humidity, video, move_in, move_out, people_count),
        out_of_range(1, people_count, temperature, "AvgTempOut", 20, 25),
        out_of_range(2, people_count, humidity, "AvgHumidOut", 30, 50),
        faces,
    )
    same(built, (HERE / "edgecep.situ").read_text())
