"""From query to operator graph: names, types, order, defaults, and what is refused."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from situ.core.errors import QueryError
from situ.core.functions import Functions
from situ.core.types import DOUBLE, INT, STRING, TIMESTAMP, Decimal
from situ.graph.expressions import Aggregate, Attribute, Binary, Call, GroupKey, Literal, WholeEvent
from situ.graph.operators import OperatorGraph
from situ.graph.patterns import Absence, And, EventTest, Follow, Loop, Seq, Step
from situ.graph.query import (
    Aggregation,
    Assignment,
    Case,
    Definition,
    Join,
    Query,
    Rule,
    Stream,
    Subscription,
    Window,
)
from situ.graph.rule_properties import has_unbounded_state
from situ.lang.parse import parse
from situ.lang.resolve import resolve, unsupported_clauses, warnings
from strategies import Scenario, scenarios

STREAMS = """\
stream A(n int, x double, s string, d decimal(10, 2), ts timestamp) time ts key s
stream B(n int, x double, s string, ts timestamp) time ts
stream Car(id string, x double, y double, ts int) time ts in ms at (x, y)
"""

EDGECEP = """\
stream Tracking(`left` string, `right` string, direction int, timestamp timestamp) time timestamp
stream Temperature(location string, val double, ts timestamp) time ts
stream Video(location string, frame binary, ts timestamp) time ts
define MoveIn(location, timestamp)
case 1:
  detect    Tracking(direction = 0)
  assign    location = Tracking.left, timestamp = Tracking.timestamp
  consuming Tracking
case 2:
  detect    Tracking(direction = 1)
  assign    location = Tracking.right, timestamp = Tracking.timestamp
  consuming Tracking
define MoveOut(location, timestamp)
case 1:
  detect    Tracking(direction = 1)
  assign    location = Tracking.left, timestamp = Tracking.timestamp
  consuming Tracking
case 2:
  detect    Tracking(direction = 0)
  assign    location = Tracking.right, timestamp = Tracking.timestamp
  consuming Tracking
define PeopleCount2Mins(location, count, timestamp)
aggr every 2 mins
< pre >
detect   outer MoveIn and outer MoveOut
assign   location = group.location, count = Count(MoveIn) - Count(MoveOut), timestamp = Max(MoveOut.timestamp)
< post >
where    location = group.location, count = Sum(count), timestamp = Max(timestamp)
group by location
define AvgTemp5Mins(location, avg)
aggr every 5 mins
< pre >
detect   Temperature
assign   location = group.location, avg = Avg(Temperature.val)
< post >
where    location = group.location, avg = Avg(avg)
group by location
Subscription seq 1 from User1 to AirController
detect    last PeopleCount2Mins (count > 0) as PeopleCount and AvgTemp5Mins (avg < 20 or avg > 25) as AvgTempOut
          within 5 mins from PeopleCount
assign    avg = AvgTempOut.avg, location = group.location, timestamp = PeopleCount.timestamp
consuming AvgTempOut
group by  location
Subscription seq 3 from User1 to Gateway
detect    MoveIn and Video within 5 mins from MoveIn
assign    face = FaceDetect(Video), location = group.location, timestamp = MoveIn.timestamp
consuming Video
group by  location
"""


def graph_of(text: str, functions: Functions | None = None) -> OperatorGraph:
    return resolve(parse(STREAMS + text, "q.situ"), functions or Functions())


def faces() -> Functions:
    functions = Functions()
    functions.register(lambda video: b"", returns="binary", name="FaceDetect")
    return functions


def normalised(graph: OperatorGraph) -> Query:
    """The query that says outright what resolving filled in."""
    rules = {operator.name: operator for operator in graph.operators}
    query = graph.query
    return Query(
        query.streams,
        tuple(replace(d, attributes=rules[d.name].schema.names, rule=rules[d.name].rule) for d in query.definitions),
        tuple(replace(s, rule=rules[s.name].rule) for s in query.subscriptions),
    )


def schema_of(graph: OperatorGraph, name: str) -> dict[str, object]:
    return dict(graph.schemas[name].attributes)


# ---- what resolving fills in


def test_edgecep_resolves_as_printed() -> None:
    graph = resolve(parse(EDGECEP, "edgecep.situ"), faces())
    assert [(o.name, o.depth, o.inputs) for o in graph.operators] == [
        ("MoveIn", 1, ("Tracking",)),
        ("MoveOut", 1, ("Tracking",)),
        ("PeopleCount2Mins", 2, ("MoveIn", "MoveOut")),
        ("AvgTemp5Mins", 1, ("Temperature",)),
        ("User1_1", 3, ("PeopleCount2Mins", "AvgTemp5Mins")),
        ("User1_3", 2, ("MoveIn", "Video")),
    ]
    assert schema_of(graph, "PeopleCount2Mins") == {"location": STRING, "count": INT, "timestamp": TIMESTAMP}
    assert schema_of(graph, "User1_1") == {"avg": DOUBLE, "location": STRING, "timestamp": TIMESTAMP}
    (face, *_) = graph.operators[-1].rule.cases[0].assign
    assert face.expression == Call("FaceDetect", (WholeEvent("Video"),))
    assert [o.name for o in graph.subscriptions] == ["User1_1", "User1_3"]


@pytest.mark.parametrize(
    "text",
    [
        EDGECEP,
        STREAMS + "subscribe Q detect A(x > avg(x) and this.n > 1)+ until B(n > count(A)) then not B(x > 1) then B",
        STREAMS + "subscribe Q aggr every 2 s detect A(x > 1) and B group by s",
        STREAMS + "define D(x, n) detect A subscribe Q join every 2 s on n detect D(x > 1) and B(x > D.x)",
    ],
)
def test_resolving_twice_changes_nothing(text: str) -> None:
    graph = resolve(parse(text, "q.situ"), faces())
    assert resolve(graph.query, faces()) == graph
    again = resolve(normalised(graph), faces())
    assert [(o.name, o.rule, o.schema, o.inputs, o.depth) for o in again.operators] == [
        (o.name, o.rule, o.schema, o.inputs, o.depth) for o in graph.operators
    ]


@settings(derandomize=True, deadline=None, max_examples=200)
@given(scenarios())
def test_random_queries_resolve_once_and_for_all(scenario: Scenario) -> None:
    graph = resolve(scenario.query)
    known = {stream.name for stream in graph.streams}
    for operator in graph.operators:
        assert known.issuperset(operator.inputs), "inputs come first"
        known.add(operator.name)
    again = resolve(normalised(graph))
    assert [(o.name, o.rule, o.schema) for o in again.operators] == [
        (o.name, o.rule, o.schema) for o in graph.operators
    ]


def test_bare_attributes_are_of_the_event_under_test() -> None:
    graph = graph_of("subscribe Q detect A as a then not B(x > a.x) then B(n = a.n) as b within 3 s")
    detect = graph.operators[0].rule.cases[0].detect
    assert isinstance(detect, Seq)
    _, absence, follow = detect.parts
    assert isinstance(absence, Absence)
    assert absence.test.condition == Binary(">", Attribute("this", "x"), Attribute("a", "x"))
    assert isinstance(follow, Follow)
    assert isinstance(follow.pattern, Step)
    assert follow.pattern.test.condition == Binary("=", Attribute("b", "n"), Attribute("a", "n"))


def test_a_loop_reads_its_own_earlier_events_through_aggregates() -> None:
    graph = graph_of("subscribe Q detect A(x > avg(a.x))+ until B(n > count(a)) as a")
    detect = graph.operators[0].rule.cases[0].detect
    assert isinstance(detect, Loop)
    assert isinstance(detect.body, Step)
    assert detect.body.test.condition == Binary(">", Attribute("a", "x"), Aggregate("avg", Attribute("a", "x")))
    assert detect.until is not None
    assert detect.until.condition == Binary(">", Attribute("this", "n"), Aggregate("count", WholeEvent("a")))


def test_an_attribute_wins_over_an_alias_of_its_name() -> None:
    functions = Functions()
    functions.register(lambda x: True, returns="boolean", name="Ok")
    graph = graph_of("subscribe Q detect A as x then B(Ok(x)) as b then B(Ok(A)) as A within 1 s", functions)
    detect = graph.operators[0].rule.cases[0].detect
    assert isinstance(detect, Seq)
    read = [part.pattern.test.condition for part in detect.parts[1:]]  # type: ignore[union-attr]
    assert read == [Call("Ok", (Attribute("b", "x"),)), Call("Ok", (WholeEvent("A"),))]


def test_built_ins_are_written_in_any_case() -> None:
    graph = graph_of("subscribe Q detect A as a assign y = Floor(a.d)")
    assert graph.operators[0].rule.cases[0].assign[0].expression == Call("floor", (Attribute("a", "d"),))
    assert schema_of(graph, "Q") == {"y": Decimal(9, 0)}


def test_assignments_come_in_declared_order_and_cases_share_a_type() -> None:
    graph = graph_of(
        "define D(p, q) case 1: detect A assign q = A.s, p = A.n case 2: detect B assign p = B.x, q = null"
    )
    assert graph.schemas["D"].attributes == (("p", DOUBLE), ("q", STRING))
    assert [[item.name for item in case.assign] for case in graph.operators[0].rule.cases] == [["p", "q"]] * 2


def test_a_definition_without_assign_takes_the_attributes_of_its_step() -> None:
    graph = graph_of("define D(s, x) detect A as a")
    assert graph.operators[0].rule.cases[0].assign == (
        Assignment("s", Attribute("a", "s")),
        Assignment("x", Attribute("a", "x")),
    )


def test_a_subscription_without_assign_has_everything() -> None:
    graph = graph_of("subscribe Q detect B")
    assert graph.schemas["Q"] == graph.schemas["B"]
    graph = graph_of("subscribe Q detect A+ as a then B as b within 3 s")
    assert graph.schemas["Q"].names == ("a_count", "b_n", "b_x", "b_s", "b_ts")
    graph = graph_of("subscribe Q aggr every 2 s detect A and B group by s")
    assert schema_of(graph, "Q") == {"s": STRING, "A_count": INT, "B_count": INT}
    assert graph.operators[0].rule.cases[0].assign[0] == Assignment("s", GroupKey("s"))


def test_definitions_keep_the_order_of_the_text_where_inputs_allow() -> None:
    graph = graph_of(
        "define D3(n) detect D2 define D1(n) detect A define D2(n) detect D1 define D0(n) detect B "
        "subscribe Q detect D3"
    )
    assert [(o.name, o.depth) for o in graph.operators] == [("D1", 1), ("D2", 2), ("D3", 3), ("D0", 1), ("Q", 4)]


def test_inputs_are_those_of_not_and_until_too() -> None:
    graph = graph_of("subscribe Q detect A+ until Car as a then not B then A as c within 3 s")
    assert graph.operators[0].inputs == ("A", "Car", "B")


# ---- what is refused

REFUSED = [
    # names
    ("subscribe Q detect A(sx > 1)", "4:22", "event type A has no attribute 'sx'", "known: d, n, s, ts, x"),
    ("subscribe Q detect Carr", "4:20", "no event type 'Carr'", "Did you mean 'Car'?"),
    ("subscribe Q detect A as a then B(x > q.x) as b", "4:38", "no alias 'q'", "known: a, b"),
    ("subscribe Q detect A as a then B(x > c.x) as b then A as c", "4:38", "alias 'c' cannot be read", "stands later"),
    ("subscribe Q detect A(abss(x) > 1)", "4:22", "no function 'abss'", "Did you mean 'abs'?"),
    ("subscribe Q detect A then A", "4:27", "two steps are called 'A'", "A as other"),
    ("subscribe Q detect A as this", "4:20", "an alias cannot be called 'this'", "another name"),
    ("subscribe Q detect A as a assign y = x", "4:38", "'x' does not say of which event", "Write a.x."),
    ("subscribe Q detect A and B assign y = n", "4:39", "'n' does not say of which event", "Write A.n or B.n."),
    ("subscribe Q detect A as a assign y = a", "4:38", "'a' is an event, not a value", "a.n, a.x, a.s"),
    ("subscribe Q detect A as a assign y = group.s", "4:38", "not grouped by 's'", "Add it to `group by`"),
    ("subscribe Q detect A then B group by d", "4:1", "event type B has no attribute 'd'", "Every input has it"),
    ("subscribe Q detect A then not Car then B group by s", "4:1", "Car has no attribute 's'", "those of `not`"),
    ("subscribe Q detect A and Car group by ts", "4:1", "'ts' is timestamp in A, int in Car", "the same type"),
    ("subscribe Q detect A group by s, s", "4:1", "`group by` names 's' twice", "Leave one"),
    ("subscribe P detect A subscribe Q detect P", "4:41", "no event type 'P'", "'P' is a subscription"),
    ("subscribe A detect B", "4:1", "already a stream of this name", "different names"),
    ("define D(n) detect A\ndefine D(n) detect B", "5:1", "already a definition of this name", "different names"),
    ("define D(n, n) detect A", "4:1", "D has two attributes 'n'", "its own name"),
    ("define D(n) detect D", "4:1", "in a circle: D -> D", "do not need it"),
    ("define D(n) detect E\ndefine E(n) detect F\ndefine F(n) detect D", "4:1", "D -> F -> E -> D", "do not need it"),
    # types
    ("subscribe Q detect A(x)", "4:22", "a condition is true or false, and this one is double", "x > 0"),
    ("subscribe Q detect A(s > 1)", "4:22", "not string and int", "cast(... as int)"),
    ("subscribe Q detect A as a assign y = a.x + a.s", "4:38", "`+` does not take double and string", "concat"),
    ("subscribe Q detect A+ as a assign y = sum(a.s)", "4:39", "sum() takes numbers, not string", "count, min, max"),
    # aggregates
    ("subscribe Q detect A+ as a then B(x > a.x)", "4:39", "'a' holds several events", "last(a.x)"),
    ("subscribe Q detect A+ as a assign y = time(a)", "4:39", "'a' holds several events", "aggregate"),
    ("subscribe Q detect A as a assign y = max(a.x)", "4:38", "'a' holds one event", "Read it directly: a.x"),
    ("subscribe Q detect A as a assign y = count(a)", "4:38", "'a' holds one event", "Read it directly"),
    ("subscribe Q detect A as a then B(x > max(x))", "4:38", "'B' holds one event", "Read it directly: B.x"),
    ("subscribe Q detect A then not B(x > max(x)) then Car", "4:37", "the event under test is one event", "directly"),
    ("subscribe Q detect A+ as a assign y = max(avg(a.x))", "4:43", "avg() stands inside max()", "single events"),
    ("subscribe Q detect A+ then B+ assign y = sum(A.x + B.x)", "4:42", "sum() reads A, B", "one repeating alias"),
    ("subscribe Q detect A+ assign y = sum(1)", "4:34", "sum() reads no event", "one repeating alias"),
    ("subscribe Q detect A+ assign y = max(A)", "4:34", "max() takes a value of each event", "max(A.x)"),
    ("subscribe Q detect A+ assign y = count(distinct A)", "4:34", "takes no `distinct`", "alias.attribute"),
    # assignments
    ("define D(y, z) detect A assign y = A.x, zz = A.n", "4:41", "assign gives 'zz'", "Did you mean 'z'?"),
    ("define D(y, z) detect A assign y = A.x", "4:16", "assign gives no 'z'", "write null"),
    ("define D(y) detect A assign y = 1, y = 2", "4:36", "assign gives 'y' twice", "Leave one"),
    ("define D(y) detect A", "4:13", "nothing says what 'y' is", "Add `assign`"),
    ("define D(n) detect A then B", "4:13", "nothing says what 'n' is", "one step"),
    ("subscribe Q detect A assign _time = A.ts", "4:29", "cannot be called '_time'", "situ's own columns"),
    ("stream S(_n int, ts timestamp) time ts", "4:1", "cannot be called '_n'", "situ's own columns"),
    (
        "define D(y) case 1: detect A assign y = A.x\ncase 2: detect B assign y = B.s",
        "5:25",
        "'y' is string here and double in a case before",
        "cast(... as double)",
    ),
    ("subscribe Q case 1: detect A assign y = 1\ncase 2: detect B assign z = 1", "5:25", "gives 'z'", "known: y"),
    # patterns
    ("subscribe Q detect A then B within 3 s from c", "4:29", "names no alias 'c'", "known: A, B"),
    ("subscribe Q detect A then B consuming c", "4:13", "`consuming` names no alias 'c'", "known: A, B"),
    ("subscribe Q detect A consuming A after match skip past last", "4:13", "stand together", "one of them"),
    ("subscribe Q detect A consuming A after match pause 1 h", "4:13", "stand together", "one of them"),
    ("subscribe Q detect A after match pause 0 s", "4:1", "a pause of no length", "above zero"),
    ("subscribe Q detect once A then each B within 1 s", "4:13", "`once` and `each` stand together", "write `then`"),
    ("subscribe Q detect once A then B{2} each within 1 s", "4:13", "`once` and `each` stand together", "write `then`"),
    ("subscribe Q detect once (A or (A as c then each B)) within 1 s", "4:13", "`once` and `each`", "write `then`"),
    ("subscribe Q detect once last A then B within 1 s", "4:30", "`once` and `last` both choose the event", "leave"),
    ("subscribe Q detect once A and first B within 1 s", "4:37", "`once` and `first` both choose the event", "leave"),
    ("subscribe Q detect once A consuming A", "4:13", "`once` and `consuming` stand together", "leave `consuming` out"),
    ("subscribe Q detect once A after match pause 1 h", "4:13", "`once` and `after match`", "leave `after match` out"),
    ("subscribe Q detect once A within 1 s report timed out", "4:13", "`once` and `report timed out`", "out"),
    ("subscribe Q detect A after match skip to last c", "4:13", "`after match` names no alias 'c'", "known: A"),
    ("subscribe Q detect last A+ then B", "4:25", "`last` selects an event of a step outside loops", "last(alias.x)"),
    ("subscribe Q detect (first A then B)? then Car", "4:27", "outside loops", "Leave it out"),
    ("subscribe Q detect A then not B", "4:31", "`not B` at the end needs `within`", "add `within T`"),
    ("subscribe Q detect A then not immediately B within 1 s", "4:43", "stands last", "`not B within T`"),
    ("subscribe Q detect (A then not B) then Car within 1 s", "4:32", "last in a group", "Only a whole pattern"),
    ("subscribe Q detect outer A and B", "4:26", "`outer` is for the inputs of an aggregation", "A?"),
    ("subscribe Q detect A then B report timed out", "4:13", "`report timed out` needs `within`", "nothing times out"),
    # windows
    ("subscribe Q aggr every 2 s detect A then B assign y = 1", "4:35", "sets of events, without order", "A and B"),
    ("subscribe Q aggr every 2 s detect A within 2 s assign y = 1", "4:1", "`aggr` takes no `within`", "Its window"),
    ("subscribe Q aggr every 2 s detect A consuming A", "4:1", "`aggr` takes no `consuming`", "Its window"),
    ("subscribe Q aggr every 2 s detect A report timed out", "4:1", "takes no `report timed out`", "Its window"),
    ("subscribe Q join every 2 s on n detect A and B after match skip past last", "4:1", "no `after match`", "window"),
    ("subscribe Q aggr every 2 s detect A after match pause 1 h", "4:1", "no `after match`", "window"),
    ("subscribe Q aggr every 2 s detect once A", "4:1", "`aggr` takes no `once`", "window"),
    ("subscribe Q aggr every 2 s detect last A", "4:40", "`aggr` takes no `last A`", "all its events"),
    ("subscribe Q aggr every 2 s detect A and B(x > A.x)", "4:47", "alias 'A' cannot be read", "are separate"),
    ("subscribe Q aggr every 2 s detect A(count(A) > 1)", "4:37", "'A' holds one event", ""),
    ("subscribe Q aggr every 2 s detect A assign y = A.x", "4:48", "'A' holds several events", "last(A.x)"),
    (
        "subscribe Q aggr every 2 s <pre> detect A assign y = count(A) <post> where z = y",
        "4:80",
        "'y' has a value for each record of <pre>",
        "sum(y)",
    ),
    (
        "subscribe Q aggr every 2 s <pre> detect A assign y = count(A) <post> where z = sum(yy)",
        "4:84",
        "<pre> assigns no 'yy'",
        "Did you mean 'y'?",
    ),
    (
        "subscribe Q aggr every 2 s <pre> detect A assign y = count(A) <post> where z = sum(A.x)",
        "4:84",
        "alias 'A' cannot be read here",
        "<post> reads what <pre> assigned: y",
    ),
    ("subscribe Q join every 2 s on n detect A", "4:40", "two or more steps", "A as a and B as b"),
    ("subscribe Q join every 2 events on n detect A and B", "4:1", "a join's window is a time", "1 min"),
    ("subscribe Q join every 2 s on d detect A and B", "4:1", "B has no attribute 'd'", "Every input"),
    ("subscribe Q join every 2 s on n detect outer A and B", "4:46", "`outer` is for", "Leave it out"),
    # interests
    ("subscribe Q for Consumer(id) detect A", "4:1", "no stream 'Consumer'", "known: A, B, Car"),
    ("subscribe Q for Car(idd) detect A", "4:1", "stream Car has no attribute 'idd'", "Did you mean 'id'?"),
    ("subscribe Q detect A around B square 5 m", "4:1", "`around B`: the stream has no location", "at (x, y)"),
]


@pytest.mark.parametrize(("text", "place", "cause", "remedy"), REFUSED)
def test_refused(text: str, place: str, cause: str, remedy: str) -> None:
    with pytest.raises(QueryError) as error:
        graph_of(text)
    assert str(error.value.place) == f"q.situ:{place}"
    assert cause in error.value.cause
    assert remedy in error.value.remedy


@pytest.mark.parametrize(
    ("stream", "cause", "remedy"),
    [
        ("stream C(n int) time n", "nothing says what it counts", "`time n in s`"),
        ("stream C(n int) time m", "`time` names no attribute 'm'", "known: n"),
        ("stream C(n string) time n", "the time 'n' is string", "timestamp"),
        ("stream C(n timestamp) time n in ms", "has no unit", "`time n`"),
        ("stream C(n timestamp, n int) time n", "two attributes 'n'", "its own name"),
        ("stream C(n timestamp, s string, y int) time n at (s, y)", "the location 's' is string", "double"),
        ("stream C(n timestamp, y int) time n at (x, y)", "`at` names no attribute 'x'", "known: n, y"),
        ("stream C(n timestamp) time n key z", "`key` names no attribute 'z'", "known: n"),
        ("stream C(n timestamp) time n order z", "`order` names no attribute 'z'", "known: n"),
        ("stream C(n timestamp, ident int) time n unique idend", "`unique` names no attribute 'idend'", "'ident'?"),
    ],
)
def test_refused_streams(stream: str, cause: str, remedy: str) -> None:
    with pytest.raises(QueryError) as error:
        resolve(parse("\n" + stream, "s.situ"))
    assert str(error.value.place) == "s.situ:2:1"
    assert cause in error.value.cause
    assert remedy in error.value.remedy


# What no text can say, but the builder can.

STEP = Step(EventTest("A"), "a")
STREAM = Stream("A", parse(STREAMS, "q.situ").streams[0].attributes, time="ts")


@pytest.mark.parametrize(
    ("rule", "cause"),
    [
        (Rule((Case(Loop(STEP, 3, 2)),)), "cannot run 3 to 2 times"),
        (Rule((Case(Loop(STEP, 0, 0)),)), "cannot run 0 to 0 times"),
        (Rule((Case(Loop(STEP, -1, None)),)), "cannot run -1"),
        (Rule((Case(Seq((Absence(EventTest("A")), Follow(STEP)))),)), "`not A` stands first"),
        (Rule((Case(STEP),), kind=Aggregation(Window(0, 0))), "the window of `aggr` is empty"),
        (Rule((Case(And((STEP, Step(EventTest("A"), "b")))),), kind=Join(Window(1, 1), ())), "a join needs `on`"),
    ],
)
def test_refused_rules_of_the_builder(rule: Rule, cause: str) -> None:
    with pytest.raises(QueryError) as error:
        resolve(Query((STREAM,), (), (Subscription("Q", rule),)))
    assert cause in error.value.cause
    assert error.value.remedy


def test_hand_made_queries_need_no_places() -> None:
    condition = Binary(">", Attribute(None, "x"), Literal(1))
    definition = Definition("D", ("x",), Rule((Case(Step(EventTest("A", condition), "a")),)))
    (operator,) = resolve(Query((STREAM,), (definition,))).operators
    assert operator.rule.cases[0].detect == Step(EventTest("A", Binary(">", Attribute("a", "x"), Literal(1))), "a")


# ---- what is allowed and worth a word


def test_a_pattern_without_within_is_warned_of() -> None:
    graph = graph_of("subscribe Q detect A then B")
    assert has_unbounded_state(graph.operators[0])
    assert len(warnings(graph)) == 1
    assert "refused on unbounded input" in warnings(graph)[0]


@pytest.mark.parametrize(
    ("detect", "unbounded"),
    [
        ("A", False),
        ("A?", False),
        ("A+", True),
        ("A{2}", True),
        ("A or B", False),
        ("A or (B then Car)", True),
        ("A and B", True),
        ("A then B within 1 s", False),
        ("(A then B)?", True),
    ],
)
def test_state_is_bounded_by_windows(detect: str, unbounded: bool) -> None:
    (operator,) = graph_of(f"subscribe Q detect {detect}").operators
    assert has_unbounded_state(operator) == unbounded


def test_windows_bound_their_own_state() -> None:
    (operator,) = graph_of("subscribe Q aggr every 2 s detect A and B").operators
    assert not has_unbounded_state(operator)


def test_definitions_that_feed_nothing_are_warned_of() -> None:
    graph = graph_of("define D(n) detect A define E(n) detect D define F(n) detect A subscribe Q detect F")
    assert warnings(graph) == ("definition D feeds no subscription.", "definition E feeds no subscription.")
    assert warnings(graph_of("define D(n) detect A subscribe Q detect D")) == ()


def test_clauses_without_effect_are_named() -> None:
    graph = graph_of(
        "subscribe Q for Car(id) detect Car lifetime 30 min update when quality "
        "deliver complete quality precision 0.9 demand latency < 100 ms, overhead < 10 KB, latency < 1 s"
    )
    said = unsupported_clauses(graph)
    clauses = ["for", "lifetime", "update", "deliver", "quality", "demand overhead"]  # a latency is measured
    assert [sentence.split("`")[1] for sentence in said] == clauses
    assert all(sentence.startswith("subscription Q: ") and "has no effect" in sentence for sentence in said)
    assert warnings(graph) == said
    moving = "subscribe Q for Car(id) detect Car around Car square 500 m lifetime 30 min update basic deliver complete"
    assert unsupported_clauses(graph_of(moving)) == unsupported_clauses(graph_of("subscribe Q detect A")) == ()


@pytest.mark.parametrize(
    ("subscription", "said"),
    [
        ("subscribe Q detect Car around Car square 5 m", "nobody is named who moves"),
        ("subscribe Q for A(n) detect Car around Car square 5 m", "nobody is named who moves"),
        ("subscribe Q for Car(id) detect Car and A within 1 s around Car square 5 m", "A has no location"),
    ],
)
def test_what_moves_has_a_consumer_and_reads_places(subscription: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        graph_of(subscription)


SHARED = """
    stream A(n int, m int, d double, ts int) time ts in s order n shared
    stream B(n int, m int, d double, ts int) time ts in s {order}
    subscribe M detect A as a then B as b within 9 s
"""


@pytest.mark.parametrize(
    ("order", "cause"),
    [
        ("order m shared", "ordered by 'n' (int) and B by 'm' (int)"),
        ("order d shared", "ordered by 'n' (int) and B by 'd' (double)"),
        ("order n", "M reads A, ordered by the shared 'n', together with B, which does not share it"),
        ("", "M reads A, ordered by the shared 'n', together with B, which does not share it"),
    ],
)
def test_streams_that_are_read_together_share_one_order(order: str, cause: str) -> None:
    with pytest.raises(QueryError) as error:
        resolve(parse(SHARED.format(order=order)))
    assert cause in str(error.value)
    assert "<query>:3:5" in str(error.value)
    assert error.value.remedy


def test_streams_that_are_read_apart_may_share_an_order_or_not() -> None:
    apart = SHARED.format(order="").replace("A as a then B as b within 9 s", "A as a") + "subscribe N detect B as b"
    assert len(resolve(parse(apart)).operators) == 2


LISTS = "stream A(v int, s string, ts int) time ts in s "


@pytest.mark.parametrize(
    ("rule", "cause"),
    [
        ("subscribe M detect A+ as a then A(v = collect(a.v)) as z", "collect(a.v) gives a list of int"),
        ("subscribe M detect A+ as a then A(collect(a.v)) as z", "collect(a.v) gives a list of int"),
        ("subscribe M detect A+ as a assign x = collect(a.v) > 3", "collect(a.v) gives a list of int"),
        ("subscribe M detect A+ as a assign x = length(collect(a.s))", "collect(a.s) gives a list of string"),
        ("subscribe M detect A+ as a assign x = cast(collect(a.v) as string)", "collect(a.v) gives a list of int"),
        ("subscribe M detect A+ as a assign x = collect(if(a.v > 1, null, null))", "nothing but nulls"),
        ("define D(x) detect A+ as a assign x = collect(a.v)", "'x' is a list of int; a definition makes events"),
        (
            "subscribe M aggr every 2 s < pre > detect A as a assign x = collect(a.v) < post > where y = last(x)",
            "'x' is a list of int; <pre> makes records for <post>",
        ),
        (
            "subscribe M case 0: detect A+ as a assign x = collect(a.v) case 1: detect A+ as a assign x = collect(a.s)",
            "'x' is list of string here and list of int in a case before",
        ),
    ],
)
def test_lists_are_for_results(rule: str, cause: str) -> None:
    with pytest.raises(QueryError) as error:
        resolve(parse(LISTS + rule))
    assert cause in str(error.value)
    assert error.value.place is not None
    assert error.value.remedy
