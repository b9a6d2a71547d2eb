"""Texts to queries, and mistakes to errors that help."""

from __future__ import annotations

import decimal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situ.core.errors import Place, QuerySyntaxError, SituError
from situ.core.types import DOUBLE, INT, STRING, TIMESTAMP, Decimal
from situ.graph.expressions import (
    Aggregate,
    Attribute,
    Binary,
    Call,
    Cast,
    Duration,
    EventTime,
    Expression,
    GroupKey,
    In,
    IsNull,
    Literal,
    Unary,
)
from situ.graph.patterns import Absence, And, Contiguity, EventTest, Follow, Loop, Or, Pattern, Selector, Seq, Step
from situ.graph.query import (
    AfterMatch,
    Aggregation,
    Around,
    Assignment,
    AttributeDeclaration,
    Case,
    Demand,
    From,
    Join,
    Pause,
    Quality,
    Rule,
    Skip,
    Stream,
    Subscription,
    Update,
    Window,
    Within,
)
from situ.lang.parse import parse
from situ.lang.statements import MAX_DEPTH

HERE = Path(__file__).parent
TEXTS = [(HERE / name).read_text() for name in ("edgecep.situ", "traffic.situ")]
SECOND = 1_000_000
X, Y = Attribute(None, "x"), Attribute(None, "y")


def subscription(text: str) -> Subscription:
    return parse(f"subscribe S {text}").subscriptions[0]


def case(text: str) -> Case:
    return subscription(f"detect {text}").rule.cases[0]


def pattern(text: str) -> Pattern:
    return case(text).detect


def expression(text: str) -> Expression:
    return case(f"A assign x = {text}").assign[0].expression


def step(name: str, alias: str | None = None, selector: Selector | None = None) -> Step:
    return Step(EventTest(name), alias or name, selector)


# ---- expressions


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-9223372036854775808", -(2**63)),
        ("2.5", 2.5),
        ("1e-3", 0.001),
        ("1.10d", decimal.Decimal("1.10")),
        ("5d", decimal.Decimal(5)),
        ("'it''s -- here'", "it's -- here"),
        ("TRUE", True),
        ("null", None),
        ("5 mins", Duration(300 * SECOND)),
        ("-1.5 s", Duration(-1_500_000)),
        ("2 d", Duration(2 * 86_400 * SECOND)),
    ],
)
def test_literals(text: str, value: object) -> None:
    assert repr(expression(text)) == repr(Literal(value))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + y * 2", Binary("+", X, Binary("*", Y, Literal(2)))),
        ("x - y - 1", Binary("-", Binary("-", X, Y), Literal(1))),
        ("-x", Unary("-", X)),
        ("x - -3", Binary("-", X, Literal(-3))),
        ("- -3", Unary("-", Literal(-3))),
        ("-(3)", Unary("-", Literal(3))),
        ("NOT x = y Or x", Binary("or", Unary("not", Binary("=", X, Y)), X)),
        ("x <> y", Binary("!=", X, Y)),
        ("x is not null", IsNull(X, True)),
        ("x in (1, -2, 'a')", In(X, (Literal(1), Literal(-2), Literal("a")))),
        ("x not in (null)", In(X, (Literal(None),), True)),
        ("x between 1 and y", Binary("and", Binary(">=", X, Literal(1)), Binary("<=", X, Y))),
        ("20 < x <= 25", Binary("and", Binary("<", Literal(20), X), Binary("<=", X, Literal(25)))),
        ("cast(x as decimal(10, 2))", Cast(X, Decimal(10, 2))),
        ("CAST(x AS long)", Cast(X, INT)),
        ("a.x", Attribute("a", "x")),
        ("Time(a)", EventTime("a")),
        ("group.x", GroupKey("x")),
        ("`group`.`x y`", Attribute("group", "x y")),
        ("Count(x)", Aggregate("count", X)),
        ("count(distinct a.x)", Aggregate("count", Attribute("a", "x"), True)),
        ("first(a.x)", Aggregate("first", Attribute("a", "x"))),
        ("Max(x * 2)", Aggregate("max", Binary("*", X, Literal(2)))),
        ("FaceDetect(x, if(y, 1, 2))", Call("FaceDetect", (X, Call("if", (Y, Literal(1), Literal(2)))))),
        ("now()", Call("now", ())),
    ],
)  # fmt: skip
def test_expressions(text: str, expected: Expression) -> None:
    assert expression(text) == expected


CONTEXTUAL = ("count", "sum", "time", "key", "order", "first", "last", "group", "cast", "detect", "where", "then")
CONTEXTUAL += ("within", "each", "pre", "post", "s", "m", "ms", "events", "next", "in", "at", "as", "x", "unique")


@pytest.mark.parametrize("name", CONTEXTUAL)
def test_keywords_and_functions_are_names_where_nothing_else_can_stand(name: str) -> None:
    parsed = case(f"A({name} > 0) as {name} assign {name} = a.{name} + {name} consuming {name}")
    assert parsed.detect == Step(EventTest("A", Binary(">", Attribute(None, name), Literal(0))), name)
    assert parsed.assign == (Assignment(name, Binary("+", Attribute("a", name), Attribute(None, name))),)
    assert parsed.consuming == (name,)
    (stream,) = parse(f"stream {name}({name} int) time {name} key {name} unique {name}").streams
    assert (stream.time, stream.key, stream.unique) == (name, name, name)


# ---- patterns


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A", step("A")),
        ("((A as a))", step("A", "a")),
        ("A or B then C and D",
         Or((step("A"), Seq((Follow(step("B")), Follow(And((step("C"), step("D"))))))))),
        ("A then each B then immediately C",
         Seq((Follow(step("A")), Follow(step("B"), Contiguity.EACH), Follow(step("C"), Contiguity.IMMEDIATELY)))),
        ("first A then last B",
         Seq((Follow(step("A", None, Selector.FIRST)), Follow(step("B", None, Selector.LAST), Contiguity.EACH)))),
        ("A then each first B",
         Seq((Follow(step("A")), Follow(step("B", None, Selector.FIRST), Contiguity.EACH)))),
        ("A then not B then not immediately C(x) then D",
         Seq((Follow(step("A")), Absence(EventTest("B")), Absence(EventTest("C", X), True), Follow(step("D"))))),
        ("(A then B) then C",
         Seq((Follow(Seq((Follow(step("A")), Follow(step("B"))))), Follow(step("C"))))),
        ("A and (B and C)", And((step("A"), step("B"), step("C")))),
        ("outer A and outer last B as b",
         And((Step(EventTest("A"), "A", None, True), Step(EventTest("B"), "b", Selector.LAST, True)))),
        ("A+ as many", Loop(step("A", "many"), 1, None)),
        ("A* each", Loop(step("A"), 0, None, Contiguity.EACH)),
        ("A? greedy", Loop(step("A"), 0, 1, greedy=True)),
        ("A{3}", Loop(step("A"), 3, 3)),
        ("A{3,} immediately greedy until B(x) as a",
         Loop(step("A", "a"), 3, None, Contiguity.IMMEDIATELY, True, EventTest("B", X))),
        ("(A then B){2,5} until C",
         Loop(Seq((Follow(step("A")), Follow(step("B")))), 2, 5, until=EventTest("C"))),
        ("(A or B)+", Loop(Or((step("A"), step("B"))), 1, None)),
        ("(A{2})+", Loop(Seq((Follow(Loop(step("A"), 2, 2)),)), 1, None)),
        ("`first`(x) as `A B`", Step(EventTest("first", X), "A B")),
    ],
)  # fmt: skip
def test_patterns(text: str, expected: Pattern) -> None:
    assert pattern(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("within 3 s", Within(3 * SECOND)),
        ("WITHIN 1.5 min from previous", Within(90 * SECOND, From.PREVIOUS)),
        ("within 5d from a", Within(5 * 86_400 * SECOND, "a")),
        ("within 1 ms from `previous`", Within(1_000, "previous")),
    ],
)
def test_within(text: str, expected: Within) -> None:
    assert case(f"A as a {text}").within == expected


# ---- statements


def test_stream() -> None:
    text = """
        stream T(a string, b FLOAT, c decimal(10,2), t bigint, ts timestamp)
          time t in MS  idle after 1 min  key a  watermark 2 s  UNIQUE c  Ahead 1 d  at (b, c)  order c"""
    attributes = (("a", STRING), ("b", DOUBLE), ("c", Decimal(10, 2)), ("t", INT), ("ts", TIMESTAMP))
    declarations = tuple(AttributeDeclaration(*pair) for pair in attributes)
    clauses = {"watermark_us": 2 * SECOND, "idle_after_us": 60 * SECOND, "unique": "c", "ahead_us": 86_400 * SECOND}
    expected = Stream("T", declarations, "t", "ms", "c", ("b", "c"), "a", **clauses)
    assert parse(text).streams == (expected,)


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("aggr every 2 mins detect A", "kind", Aggregation(Window(120 * SECOND, 120 * SECOND))),
        ("aggr every 10 events over 100 events detect A", "kind", Aggregation(Window(10, 100, "events"))),
        ("aggr every 1 event <pre> detect A where x = y", "kind",
         Aggregation(Window(1, 1, "events"), (Assignment("x", Y),))),
        ("join every 1 s over 1 min on x, y detect A and B", "kind", Join(Window(SECOND, 60 * SECOND), ("x", "y"))),
        ("detect A group by x", "group_by", ("x",)),
        ("detect A report timed out group by (x, y)", "group_by", ("x", "y")),
        ("detect A report timed out", "timed_out", True),
        ("detect A after match skip to next", "after_match", AfterMatch(Skip.TO_NEXT)),
        ("detect A after match skip past last", "after_match", AfterMatch(Skip.PAST_LAST)),
        ("detect A after match skip to first next", "after_match", AfterMatch(Skip.TO_FIRST, "next")),
        ("detect A after match skip to last a", "after_match", AfterMatch(Skip.TO_LAST, "a")),
        ("detect A after match pause 1.5 h", "after_match", Pause(5400 * SECOND)),
        ("detect once A", "cases", (Case(step("A"), once=True),)),
        ("detect `once`", "cases", (Case(step("once")),)),
        ("case 4: detect A case 2: detect B", "cases", (Case(step("A"), number=4), Case(step("B"), number=2))),
    ],
)  # fmt: skip
def test_rule(text: str, field: str, expected: object) -> None:
    assert getattr(subscription(text).rule, field) == expected


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("around C square 500 m", "around", Around("C", "square", (500.0,))),
        ("around C rectangle 1.5 km x 20 m", "around", Around("C", "rectangle", (1500.0, 20.0))),
        ("around C rectangle 2 x 3 km", "around", Around("C", "rectangle", (2000.0, 3000.0))),
        ("around C circle 1e3 m", "around", Around("C", "circle", (1000.0,))),
        ("lifetime 30 min", "lifetime_us", 1800 * SECOND),
        ("update basic", "update", Update("basic")),
        ("update every 5 s", "update", Update("every", 5 * SECOND)),
        ("update moved 50 m", "update", Update("moved", 50.0)),
        ("update when quality", "update", Update("quality")),
        ("deliver complete", "deliver", "complete"),
        ("deliver best effort", "deliver", "best effort"),
        ("quality recall 1 precision 0.5", "quality", Quality(precision=0.5, recall=1.0)),
        ("demand overhead < 1.5 KB, latency < 1 s demand overhead < 3B", "demands",
         (Demand("overhead", 1500), Demand("latency", SECOND), Demand("overhead", 3))),
        ("demand load < 500, hops < 4, bandwidth-delay < 2.5", "demands",
         (Demand("load", 500.0), Demand("hops", 4), Demand("bandwidth-delay", 2.5))),
    ],
)  # fmt: skip
def test_subscription_clauses(text: str, field: str, expected: object) -> None:
    assert getattr(subscription(f"detect A group by x {text}"), field) == expected
    assert getattr(subscription(f"detect A {text} group by x"), field) == expected


def test_consumer() -> None:
    assert parse("subscribe S for C(id) detect A").subscriptions[0].consumer == ("C", "id")


def test_edgecep_runs_as_printed() -> None:
    query = parse(TEXTS[0])
    move_in, _, people = query.definitions
    tracking = Step(EventTest("Tracking", Binary("=", Attribute(None, "direction"), Literal(0))), "Tracking")
    assert move_in.rule.cases[0] == Case(
        tracking,
        assign=(
            Assignment("location", Attribute("Tracking", "left")),
            Assignment("timestamp", Attribute("Tracking", "timestamp")),
        ),
        consuming=("Tracking",),
        number=0,
    )
    assert people.rule.kind == Aggregation(
        Window(120 * SECOND, 120 * SECOND),
        (
            Assignment("location", GroupKey("location")),
            Assignment("count", Aggregate("sum", Attribute(None, "count"))),
            Assignment("timestamp", Aggregate("max", Attribute(None, "timestamp"))),
        ),
    )
    first, _, third = query.subscriptions
    assert (first.name, first.sequence, first.subscriber, first.actor) == ("User1_1", 1, "User1", "AirController")
    assert first.rule.group_by == ("location",)
    assert first.rule.cases[0].within == Within(300 * SECOND, "PeopleCount")
    assert first.rule.cases[0].consuming == ("AvgTempOut",)
    count, avg = Attribute(None, "count"), Attribute(None, "avg")
    too_cold_or_hot = Binary("or", Binary("<", avg, Literal(20)), Binary(">", avg, Literal(25)))
    assert first.rule.cases[0].detect == And(
        (
            Step(EventTest("PeopleCount2Mins", Binary(">", count, Literal(0))), "PeopleCount", Selector.LAST),
            Step(EventTest("AvgTemp5Mins", too_cold_or_hot), "AvgTempOut"),
        )
    )
    assert third.rule.cases[0].assign[0].expression == Call("FaceDetect", (Attribute(None, "Video"),))


def test_an_attribute_may_come_from_a_column_of_another_name_or_from_a_field() -> None:
    text = """stream T(x double from position.x, `from` int FROM `from`.from."a ""b"".c", t int from "event time")
      time t in s"""
    assert [(a.name, a.path, a.source, a.column) for a in parse(text).streams[0].attributes] == [
        ("x", ("position", "x"), ("position", "x"), "position.x"),
        ("from", ("from", "from", 'a "b".c'), ("from", "from", 'a "b".c'), 'from.from.a "b".c'),
        ("t", ("event time",), ("event time",), "event time"),
    ]
    assert parse("stream T(t int) time t in s").streams[0].attributes[0].source == ("t",)


def test_streams_definitions_and_subscriptions_may_mix() -> None:
    query = parse("subscribe S detect D  define D() detect A  stream A(t int) time t  subscribe T detect D")
    assert [s.name for s in query.streams] == ["A"]
    assert [s.name for s in query.subscriptions] == ["S", "T"]


def test_places() -> None:
    query = parse("subscribe S\n  detect A(x > 1 and\n  b.y = 2) as a within 3 s\n  assign z = a.x", "q.situ")
    parsed = query.subscriptions[0].rule.cases[0]
    assert query.subscriptions[0].place == Place("q.situ", 1, 1)
    assert parsed.place == Place("q.situ", 2, 3)
    assert parsed.detect.test.place == Place("q.situ", 2, 10)
    assert parsed.detect.test.condition.left.right.place == Place("q.situ", 2, 16)
    assert parsed.detect.test.condition.right.left.place == Place("q.situ", 3, 3)
    assert parsed.within.place == Place("q.situ", 3, 17)
    assert parsed.assign[0].place == Place("q.situ", 4, 10)
    assert Rule((parsed,)) == subscription("detect A(x>1 and b.y=2) as a within 3 s assign z=a.x").rule  # not compared


# ---- mistakes


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("subscribe J\n  detect A withing 3 s", "2:12", ["'withing' is unexpected", "Did you mean 'within'?"]),
        ("subscribe J detect A thenB", "1:22", ["'thenB' is unexpected"]),
        ("subscribe J detect", "1:19", ["the text ends here; expected a pattern"]),
        ("detect A", "1:1", ["expected another statement (stream, define, subscribe)"]),
        ("subscribe J detect A(x < )", "1:26", ["expected a value"]),
        ("subscribe J detect A(x == 3)", "1:25", ["Equality is written ="]),
        ('subscribe J detect A(x = "a")', "1:26", ["single quotes"]),
        ("subscribe J detect A(x = 'a)", "1:26", ["A text ends with a quote"]),
        ("subscribe J detect A(x && y)", "1:24", ["Write and"]),
        ("subscribe J detect A;", "1:21", ["no separator"]),
        ("define D(x", "1:11", ["expected ')' or ','"]),
        ("subscribe J detect A(x < y = 3)", "1:28", ["only < <= > >= can be chained"]),
        ("subscribe J detect A(min(x, y) > 1)", "1:22", ["one argument, not 2", "least(...)"]),
        ("subscribe J detect A(max(x, y) > 1)", "1:22", ["greatest(...)"]),
        ("subscribe J detect A(sum(distinct x) > 1)", "1:26", ["count(distinct x)"]),
        ("subscribe J detect A(time(a.x) > 1)", "1:22", ["time(a)"]),
        ("subscribe J detect A(cast(x) > 1)", "1:22", ["cast(x as double)"]),
        ("subscribe J detect A(abs(x as int) > 1)", "1:22", ["cast(x as type)"]),
        ("subscribe J detect A(cast(x as dobule))", "1:32", ["no type 'dobule'", "Did you mean 'double'?"]),
        ("stream A(x decimal(40, 2)) time x", "1:12", ["decimal(40, 2) does not exist"]),
        ("stream A(x decimal) time x", "1:12", ["decimal(p, s)"]),
        ("stream A(x int) time x in hours", "1:27", ["a unit (s, ms, us, ns)"]),
        ("stream A(x int from 'a b') time x", "1:21", ["expected a name"]),
        ("stream A(x int from a.) time x", "1:23", ["expected a name"]),
        ("stream A(x int form a) time x", "1:16", ["Did you mean 'from'?"]),
        ("stream A(x int) time x key x key x", "1:30", ["'key' stands twice"]),
        ("stream A(x int) time x unique x unique x", "1:33", ["'unique' stands twice", "Keep one"]),
        ("stream A(x int) time x uniqe x", "1:24", ["'uniqe' is unexpected", "Did you mean 'unique'?"]),
        ("stream A(x int) time x unique", "1:30", ["the text ends here; expected a name"]),
        ("stream A(x int, y int) time x unique x, y", "1:39", ["',' is unexpected"]),
        ("subscribe J detect A(x > 9223372036854775808)", "1:26", ["too large", "decimal"]),
        ("subscribe J detect A(x > 1e999)", "1:26", ["too large for a double"]),
        (f"subscribe J detect A within {'9' * 30} s", "1:29", ["is no duration"]),
        (f"subscribe J detect A after match pause {'9' * 9} days", "1:40", ["is no duration"]),
        ("subscribe J detect A after match pause", "1:39", ["expected a duration"]),
        (
            "subscribe J detect A after match pause 1 s after match skip past last",
            "1:44",
            ["'after match' stands twice"],
        ),
        ("subscribe J detect A{5,2}", "1:24", ["2 is too small", "at least 5"]),
        ("subscribe J detect A{0}", "1:22", ["at least 1"]),
        ("subscribe J aggr every 0 s detect A", "1:24", ["no length"]),
        ("subscribe J detect A detect B", "1:13", ["has no number", "case 0:"]),
        ("subscribe J case 1: detect A case 1: detect B", "1:30", ["case 1 stands twice"]),
        ("subscribe J detect A where x = 1", "1:22", ["belongs to an aggregation"]),
        ("subscribe J < pre > detect A", "1:13", ["belongs to an aggregation"]),
        ("define D() detect A lifetime 3 s", "1:21", ["belongs to a subscription"]),
        ("subscribe J detect A lifetime 3 s lifetime 3 s", "1:35", ["'lifetime' stands twice"]),
        ("subscribe J detect A and B+", "1:20", ["'and' joins single events"]),
        ("subscribe J detect (A and B)+", "1:20", ["cannot repeat 'and'"]),
    ],
)
def test_mistakes(text: str, place: str, says: list[str]) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text, "q.situ")
    message = str(caught.value)
    assert message.startswith(f"q.situ:{place}: ")
    for words in says:
        assert words in message
    line, column = map(int, place.split(":"))
    _, shown, caret, *_ = message.split("\n")
    assert shown == "  " + text.split("\n")[line - 1]
    assert caret == "  " + " " * (column - 1) + "^"


def test_no_terminal_name_reaches_the_reader() -> None:
    for cut in range(0, len(TEXTS[1]), 5):
        with pytest.raises(QuerySyntaxError) as caught:
            parse(TEXTS[1][:cut] + "\n~")
        expected = caught.value.cause.split("expected ", 1)[1]
        # Quoted keywords are lower case, and so are our words for the rest.
        assert expected.replace("KB", "") == expected.replace("KB", "").lower()
        assert "$" not in expected
        assert "_" not in expected


def test_a_long_line_is_shown_around_the_mistake() -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(f"subscribe S detect A(x in ({', '.join('1' * 200)}) $ y in ({', '.join('2' * 200)}))")
    _, shown, caret = str(caught.value).split("\n")
    assert len(shown) <= 102
    assert shown[caret.index("^")] == "$"


@pytest.mark.parametrize(
    "text",
    [
        "subscribe S detect A(" + "(" * 10_000 + "x",
        "subscribe S detect A(" + "not " * 10_000 + "x)",
        "subscribe S detect A(" + "- " * 10_000 + "x)",
        "subscribe S detect A(" + "f(" * 10_000 + "x" + ")" * 10_001,
        "subscribe S detect A(x" + " + x" * 10_000 + ")",
        "subscribe S detect " + "(A then " * 10_000 + "B" + ")" * 10_000,
        "subscribe S detect A(x = " + "9" * 50_000 + ")",
        "subscribe S detect A within " + "9" * 50_000 + " s",
        "subscribe S detect A{" + "9" * 50_000 + "}",
        "subscribe S detect A demand overhead < " + "9" * 50_000 + " KB",
        "stream A(x decimal(" + "9" * 50_000 + ", 1)) time x",
    ],
    ids=lambda text: text[:30],
)
def test_monsters_are_refused(text: str) -> None:
    with pytest.raises(QuerySyntaxError):
        parse(text)


def test_nesting_up_to_the_limit_can_be_used() -> None:
    query = parse("subscribe S detect A(x" + " + x" * (MAX_DEPTH - 10) + ")")
    assert query == parse("subscribe S detect A(x" + " + x" * (MAX_DEPTH - 10) + ")")
    assert repr(query)
    assert hash(query)
    assert expression("(" * 5_000 + "x" + ")" * 5_000) == X


def mistake(text: str) -> SituError | None:
    try:
        parse(text)
    except SituError as error:
        return error
    return None


FRAGMENTS = sorted({word for text in TEXTS for word in text.split()}) + list("(){}<>=+-*?.,;:'`\"\\\n\0é²٣ſıİ")


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.text() | st.lists(st.sampled_from(FRAGMENTS)).map(" ".join))
def test_any_text_is_a_query_or_a_mistake(text: str) -> None:
    error = mistake(text)
    assert error is None or str(error).startswith("<query>:")


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.sampled_from(TEXTS), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 8), st.sampled_from(FRAGMENTS))))
def test_a_query_with_changes_is_a_query_or_a_mistake(text: str, changes: list[tuple[float, int, str]]) -> None:
    for where, removed, added in changes:
        at = int(where * len(text))
        text = text[:at] + added + text[at + removed :]
    error = mistake(text)
    assert error is None or str(error).startswith("<query>:")


# ---- the stored parser


@pytest.mark.parametrize("stored", ["nothing", "a broken file", "no directory"])
def test_the_parser_does_not_depend_on_its_cache(stored: str, tmp_path: Path) -> None:
    program = "from situ.lang.parse import parse; print(len(parse('subscribe S detect A').subscriptions))"
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(HERE.parents[1] / "src")}

    def run() -> str:
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout + done.stderr

    if stored == "no directory":
        (tmp_path / "situ").write_text("a file in its place")
    assert run() == "1\n"
    if stored == "a broken file":
        (cached,) = (tmp_path / "situ").iterdir()
        cached.write_bytes(cached.read_bytes()[:1000])
    assert run() == "1\n"
