"""The telecom example: every rule finds what pandas finds by plain loops, and the planted fraud that it should."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console

import situ
from examples.scripts import script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TELECOM = Path(__file__).parents[2] / "examples" / "telecom"
QUERY = (TELECOM / "fraud.situ").read_text()
SUBSCRIPTIONS = ("DailyReport", "NightPremium", "PremiumLongExpensive", "TakenOver")
CALLS, SEED = 20_000, 7
DAY = pd.Timedelta("1d")
WEEK = np.timedelta64(7, "D")
WINDOW = pd.Timedelta("3h")


example = partial(script, "telecom")


@pytest.fixture(scope="module")
def data() -> Any:
    return example("generate").generate(CALLS, SEED)


@pytest.fixture(scope="module")
def calls(data: Any) -> pd.DataFrame:
    """The calls of each user in order, with what the rules say about each of them."""
    calls = data.calls.to_pandas().sort_values(["caller", "started"], ignore_index=True)
    calls["premium"] = [number[:4] in ("+882", "+883", "+979") for number in calls.callee]
    calls["long"] = calls.duration_s > 60 * 60
    calls["expensive"] = calls.cost.astype(float) > 100
    users = [own for _, own in calls.groupby("caller")]  # in the order of the rows
    calls["unusually_long"] = [mark for own in users for mark in unusual(own.started, own.duration_s)]
    calls["unusually_expensive"] = [mark for own in users for mark in unusual(own.started, own.cost)]
    return calls


def unusual(started: pd.Series, values: pd.Series) -> list[bool]:
    """Above mean and two deviations of the seven days before the last midnight before the call; ten calls at least."""
    midnights = (started.dt.ceil("D") - DAY).to_numpy()
    times, numbers = started.to_numpy(), values.astype(float).to_numpy()
    answers = []
    for midnight, number in zip(midnights, numbers, strict=True):
        earlier = numbers[(times >= midnight - WEEK) & (times < midnight)]
        answers.append(len(earlier) >= 10 and bool(number > earlier.mean() + 2 * earlier.std(ddof=1)))
    return answers


@pytest.fixture(scope="module")
def found(data: Any) -> dict[str, pa.Table]:
    outputs = list(situ.Engine(QUERY, show_definitions=True).run({"Call": data.calls}))
    names = outputs[0].complex_events
    return {name: pa.concat_tables([output.complex_events[name] for output in outputs]) for name in names}


def rows(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.select(columns).to_pylist())


def tuples(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return sorted(frame.itertuples(index=False, name=None))


# --- the data


def test_the_same_seed_gives_the_same_calls_and_another_seed_others(data: Any) -> None:
    generate = example("generate").generate
    again = generate(CALLS, SEED)
    assert again.calls.equals(data.calls)
    assert again.truth.equals(data.truth)
    assert again.customers.equals(data.customers)
    assert not generate(CALLS, SEED + 1).calls.equals(data.calls)


def test_there_are_as_many_calls_as_asked_for_and_nobody_makes_two_at_once(data: Any, calls: pd.DataFrame) -> None:
    assert data.calls.num_rows == CALLS
    ends = calls.started + pd.to_timedelta(calls.duration_s, unit="s")
    follows = calls.caller == calls.caller.shift()
    assert follows.sum() > CALLS / 2
    assert (calls.started > ends.shift())[follows].all()
    assert set(calls.caller) <= set(data.customers["caller"].to_pylist())


def test_prepaid_cards_cause_no_cost(data: Any, calls: pd.DataFrame) -> None:
    tariff = calls.merge(data.customers.to_pandas(), on="caller").tariff
    assert (calls.cost.astype(float)[tariff == "prepaid"] == 0).all()
    assert (calls.cost.astype(float)[tariff != "prepaid"] > 0).mean() > 0.9


def test_users_have_habits_of_their_own(calls: pd.DataFrame) -> None:
    """Means of users differ by more than chance would make of one common habit."""
    logarithms = np.log(calls.duration_s.astype(float))
    of_user = logarithms.groupby(calls.caller).agg(["mean", "std", "count"])
    of_user = of_user[of_user["count"] >= 20]
    by_chance = (of_user["std"] / np.sqrt(of_user["count"])).mean()
    assert of_user["mean"].std() > 3 * by_chance


# --- the five kinds of calls


@pytest.mark.parametrize(
    ("definition", "mark"),
    [
        ("PremiumCall", "premium"),
        ("LongCall", "long"),
        ("ExpensiveCall", "expensive"),
        ("UnusuallyLongCall", "unusually_long"),
        ("UnusuallyExpensiveCall", "unusually_expensive"),
    ],
)
def test_a_kind_of_call_is_what_pandas_says(
    found: dict[str, pa.Table], calls: pd.DataFrame, definition: str, mark: str
) -> None:
    attributes = ["caller", "started", "duration_s", "cost"]
    expected = tuples(calls.loc[calls[mark], attributes])
    assert rows(found[definition], *attributes) == expected
    assert expected
    assert found[definition]["_time"].equals(found[definition]["started"])


def test_the_daily_report_counts_them(found: dict[str, pa.Table], calls: pd.DataFrame) -> None:
    marks = ["premium", "long", "expensive", "unusually_long", "unusually_expensive"]
    marked = calls[calls[marks].any(axis=1)]
    expected = marked.groupby(["caller", marked.started.dt.floor("D") + DAY])[marks].sum().reset_index()
    assert rows(found["DailyReport"], "caller", "_time", *marks) == tuples(expected)


# --- their combinations


def night_premium(calls: pd.DataFrame) -> list[tuple[Any, ...]]:
    at_night = calls[calls.premium & (calls.started.dt.hour < 6)]
    nights = at_night.groupby(["caller", at_night.started.dt.floor("D")]).agg(
        first=("started", "min"),
        last=("started", "max"),
        calls=("started", "count"),
        duration_s=("duration_s", "sum"),
        cost=("cost", "sum"),
        west=("x", "min"),
        east=("x", "max"),
    )
    nights = nights[nights.duration_s > 60 * 60].reset_index()
    nights["started"] += pd.Timedelta("6h")
    return tuples(nights)


def without_overlap(matches: list[tuple[list[tuple[Any, int]], Any]]) -> list[Any]:
    """`after match skip past last`: by first event, completion and events in turn; each one that stays removes those
    that begin before it is over."""
    kept, over = [], None
    for events, what in sorted(matches, key=lambda match: (match[0][0], match[0][-1], match[0])):
        if over is None or events[0] > over:
            kept.append(what)
            over = events[-1]
    return kept


def premium_long_expensive(own: pd.DataFrame) -> list[tuple[Any, ...]]:
    """All choices of three. Events of one call stand in the order of their types' names."""
    matches = []
    steps = ([*own[own[kind]].itertuples()] for kind in ("premium", "long", "expensive"))
    for premium, long, expensive in product(*steps):
        events = sorted([(expensive.started, 0), (long.started, 1), (premium.started, 2)])
        first, last = events[0][0], events[-1][0]
        if last - first <= WINDOW:
            what = (premium.caller, first, last, long.duration_s, expensive.cost, last)
            matches.append((events, what))
    return without_overlap(matches)


def taken_over(own: pd.DataFrame) -> list[tuple[Any, ...]]:
    """The first unusually long call from the premium one on, then the first unusually expensive one.

    Of one call, the premium event comes first because it needs no habit, then the expensive one by its name: a call
    that is unusually long is not followed by the same call as unusually expensive.
    """
    matches = []
    long_calls, expensive_calls = own[own.unusually_long], own[own.unusually_expensive]
    for premium in own[own.premium].itertuples():
        long = next(long_calls[long_calls.started >= premium.started].itertuples(), None)
        if long is None:
            continue
        expensive = next(expensive_calls[expensive_calls.started > long.started].itertuples(), None)
        if expensive is not None and expensive.started - premium.started <= WINDOW:
            events = [(premium.started, 0), (long.started, 2), (expensive.started, 1)]
            first, last = premium.started, expensive.started
            matches.append((events, (premium.caller, first, last, long.duration_s, expensive.cost, last)))
    return without_overlap(matches)


def for_each_caller(calls: pd.DataFrame, rule: Callable[[pd.DataFrame], list[Any]]) -> list[tuple[Any, ...]]:
    concerned = calls[calls.caller.isin(calls[calls.premium].caller)]  # both rules ask for a premium call
    return sorted(situation for _, own in concerned.groupby("caller") for situation in rule(own))


def test_night_premium_is_what_pandas_says(found: dict[str, pa.Table], calls: pd.DataFrame) -> None:
    columns = ("caller", "_time", "first", "last", "calls", "duration_s", "cost", "_x_min", "_x_max")
    expected = night_premium(calls)
    assert rows(found["NightPremium"], *columns) == expected
    assert expected


@pytest.mark.parametrize(
    ("name", "rule"), [("PremiumLongExpensive", premium_long_expensive), ("TakenOver", taken_over)]
)
def test_a_combination_is_what_pandas_says(
    found: dict[str, pa.Table], calls: pd.DataFrame, name: str, rule: Callable[[pd.DataFrame], list[Any]]
) -> None:
    expected = for_each_caller(calls, rule)
    assert rows(found[name], "caller", "first", "last", "duration_s", "cost", "_time") == expected
    assert expected


# --- the limits, by calls made by hand

PREMIUM, NATIONAL = "+8821234567", "+491511234567"
CALL = pa.schema(
    {
        "caller": pa.string(),
        "callee": pa.string(),
        "antenna": pa.int64(),
        "x": pa.float64(),
        "y": pa.float64(),
        "started": pa.timestamp("us", "UTC"),
        "duration_s": pa.int64(),
        "cost": pa.decimal128(10, 2),
    }
)


def situations_of(name: str, *calls: tuple[str, str, int, str]) -> int:
    """How many situations are made of one user's calls: callee, time of day, duration and cost."""
    rows = [
        {
            "caller": "+491510000001",
            "callee": callee,
            "antenna": 1,
            "x": 0.0,
            "y": 0.0,
            "started": pd.Timestamp(f"2026-03-02 {time}", tz="UTC").to_pydatetime(),
            "duration_s": duration_s,
            "cost": Decimal(cost),
        }
        for callee, time, duration_s, cost in calls
    ]
    outputs = situ.Engine(QUERY, show_definitions=True).run({"Call": pa.Table.from_pylist(rows, CALL)})
    return sum(output.complex_events[name].num_rows for output in outputs)


@pytest.mark.parametrize(
    ("name", "calls", "situations"),
    [
        ("LongCall", [(NATIONAL, "12:00:00", 3600, "1.00")], 0),
        ("LongCall", [(NATIONAL, "12:00:00", 3601, "1.00")], 1),
        ("ExpensiveCall", [(NATIONAL, "12:00:00", 60, "100.00")], 0),
        ("ExpensiveCall", [(NATIONAL, "12:00:00", 60, "100.01")], 1),
        ("NightPremium", [(PREMIUM, "00:00:00", 1800, "9.00"), (PREMIUM, "05:59:59", 1800, "9.00")], 0),
        ("NightPremium", [(PREMIUM, "00:00:00", 1800, "9.00"), (PREMIUM, "05:59:59", 1801, "9.00")], 1),
        ("NightPremium", [(PREMIUM, "00:00:00", 1800, "9.00"), (PREMIUM, "06:00:00", 1801, "9.00")], 0),
        ("NightPremium", [(NATIONAL, "00:00:00", 1800, "9.00"), (PREMIUM, "05:59:59", 1801, "9.00")], 0),
        ("PremiumLongExpensive", [(PREMIUM, "12:00:00", 3601, "100.01")], 1),
        ("PremiumLongExpensive", [(PREMIUM, "12:00:00", 60, "9.00"), (NATIONAL, "15:00:00", 3601, "100.01")], 1),
        ("PremiumLongExpensive", [(PREMIUM, "12:00:00", 60, "9.00"), (NATIONAL, "15:00:01", 3601, "100.01")], 0),
        ("PremiumLongExpensive", [(NATIONAL, "12:00:00", 3601, "100.01"), (PREMIUM, "15:00:00", 60, "9.00")], 1),
    ],
)
def test_a_limit_lies_where_the_query_says(name: str, calls: list[tuple[str, str, int, str]], situations: int) -> None:
    assert situations_of(name, *calls) == situations


# --- the planted fraud


def caught(found: dict[str, pa.Table], truth: pd.DataFrame, rule: str) -> pd.DataFrame:
    """The planted cases of a rule, with whether it found them."""
    cases = truth[truth.rule == rule].copy()
    situations = found[rule].to_pandas()
    cases["caught"] = [
        bool(
            (
                (situations.caller == case.caller)
                & (situations["first"] <= case.last)
                & (situations["last"] >= case.first)
            ).any()
        )
        for case in cases.itertuples()
    ]
    return cases


@pytest.mark.parametrize("rule", ["NightPremium", "PremiumLongExpensive"])
def test_fixed_thresholds_catch_all_planted_cases_but_the_careful_ones(
    found: dict[str, pa.Table], data: Any, rule: str
) -> None:
    cases = caught(found, data.truth.to_pandas(), rule)
    assert cases.careful.any()
    assert (cases.caught != cases.careful).all()


def test_habits_catch_takeovers_of_users_who_have_one(
    found: dict[str, pa.Table], data: Any, calls: pd.DataFrame
) -> None:
    """A case whose calls are all marked by pandas as the rule wants them is caught, and no other of its kind."""
    cases = caught(found, data.truth.to_pandas(), "TakenOver")
    expected = []
    for case in cases.itertuples():
        burst = calls[(calls.caller == case.caller) & calls.started.between(case.first, case.last)]
        premium, long, expensive = burst.itertuples()
        expected.append(premium.premium and long.unusually_long and expensive.unusually_expensive)
    assert cases.caught.tolist() == expected
    assert 0 < sum(expected) < len(expected)


# --- Spark


@pytest.mark.slow
def test_spark_finds_the_same(spark: SparkSession, found: dict[str, pa.Table], data: Any, tmp_path: Path) -> None:
    example("generate").write(data, tmp_path)
    detection = situ.detect(QUERY, {"Call": spark.read.parquet(str(tmp_path / "calls"))})
    events = detection.events.toArrow()  # all in one run; the attributes of one name have one type, and so one column
    assert sorted(detection.names) == sorted(SUBSCRIPTIONS) == sorted(set(events["_name"].to_pylist()))
    assert set(events["_kind"].to_pylist()) == {"complex event"}
    for name in SUBSCRIPTIONS:
        columns = found[name].column_names
        assert rows(events.filter(pc.equal(events["_name"], name)), *columns) == rows(found[name], *columns)


@pytest.mark.slow
@pytest.mark.storm
def test_the_demo_counts_what_was_found_and_what_was_planted(
    spark: SparkSession, found: dict[str, pa.Table], data: Any, tmp_path: Path
) -> None:
    demo = example("demo")
    assert demo.prepare(tmp_path, CALLS, SEED) == "made"
    assert demo.prepare(tmp_path, CALLS, SEED) == "used again"
    console = Console(record=True, width=120)
    demo.run(spark, tmp_path, console)
    truth = data.truth.to_pandas()
    events = spark.read.parquet(str(tmp_path / "events"))
    for row in demo.scores(demo.situations(events), spark.read.parquet(str(tmp_path / "truth.parquet"))).collect():
        cases = caught(found, truth, row.rule)
        situations = found[row.rule].to_pandas().merge(truth, on="caller", suffixes=("", "_planted"))
        fraud = (situations["first"] <= situations.last_planted) & (situations["last"] >= situations.first_planted)
        expected = (found[row.rule].num_rows, fraud.sum(), len(cases), cases.caught.sum(), cases.careful.sum())
        assert (row.found, row.fraud, row.planted, row.caught, row.careful) == expected
    regions = pd.read_parquet(tmp_path / "regions")
    assert regions.situations.sum() == sum(found[rule].num_rows for rule in SUBSCRIPTIONS[1:])
    text = console.export_text()
    assert all(rule in text for rule in SUBSCRIPTIONS[1:])
