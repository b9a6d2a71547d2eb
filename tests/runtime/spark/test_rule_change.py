"""Rules that change: what a change means for state, and what is refused."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from runtime.spark.changing_rules import FALL, HIGH, REGROUP, RISE, STREAM, TWICE, WARM, after, begin, change
from situ.core.errors import QueryError
from situ.runtime.spark.follow.planned_rules import PlannedRules, first_rules, next_rules
from situ.service.rules import Change, Rules, Texts

# ---- what changes


def test_the_first_rules_are_all_added() -> None:
    assert begin(RISE, a=HIGH).rules == Rules(
        0,
        Texts("q.situ", STREAM + RISE, {"a.situ": HIGH}),
        ("Rise", "High"),
        (),
        Change(added=("Rise", "High")),
        "now",
    )


def test_rules_are_added_replaced_and_removed() -> None:
    first = begin(RISE, a=HIGH)
    second = after(first, RISE, a=HIGH, b=FALL)
    assert second is not None
    assert (second.rules.number, second.rules.change) == (1, Change(added=("Fall",)))
    assert second.rules.changed == ()
    third = after(second, RISE, a=HIGH.replace("8", "9"), b=FALL)
    assert third is not None
    assert (third.rules.number, third.rules.change) == (2, Change(replaced=("High",)))
    assert third.rules.changed == ("High",)
    fourth = after(third, RISE, a=HIGH.replace("8", "9"))
    assert fourth is not None
    assert (fourth.rules.change, fourth.rules.changed) == (Change(removed=("Fall",)), ("Fall", "High"))
    fifth = after(fourth, RISE, a=HIGH.replace("8", "9"), b=FALL)
    assert fifth is not None
    assert (fifth.rules.change, fifth.rules.changed) == (Change(added=("Fall",)), ("Fall", "High"))


def test_the_same_in_other_words_is_no_change() -> None:
    first = begin(RISE, a=HIGH)
    assert after(first, RISE + "-- a comment", a=HIGH.replace(" detect", "\n  DETECT  ")) is None
    assert after(first, HIGH, a=RISE) is None
    assert after(first, HIGH + RISE) is None


def test_new_rules_come_last_whatever_their_files_are_called() -> None:
    found = after(begin(RISE, b=HIGH), RISE, a=FALL, b=HIGH)
    assert found is not None
    assert found.rules.order == ("Rise", "High", "Fall")
    assert [o.name for o in found.plan.graph.operators] == ["Rise", "High", "Fall"]


def test_a_rule_that_looks_for_the_same_keeps_its_state() -> None:
    """Only what it assigns is another, made of the same attributes."""
    found = change(begin(RISE), RISE.replace("b.value - a.value", "b.value + a.value"))
    assert found == Change(replaced=("Rise",), kept=("Rise",))
    assert change(begin(RISE), RISE.replace("10 s", "11 s")) == Change(replaced=("Rise",))


def test_a_definition_may_become_a_subscription() -> None:
    warm = WARM.replace("define Warm(sensor, room)", "subscribe Warm")
    assert change(begin(RISE + WARM), RISE + warm) == Change(replaced=("Warm",), kept=("Warm",))


def test_a_rule_is_replaced_with_what_it_reads_if_its_program_changes() -> None:
    """Twice is the same text; but its conditions are compiled for other types."""
    text = WARM + TWICE.replace("Warm as b", "Warm(sensor != a.sensor) as b")
    before = begin(RISE + text)
    found = change(before, RISE + text.replace("sensor = a.sensor, room", "sensor = a.value, room"))
    assert found == Change(replaced=("Warm", "Twice"))


# ---- what is refused


def refusal(before: PlannedRules, main: str, levels: int = 1, **control: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        after(before, main, levels, **control)
    assert caught.value.remedy
    return caught.value


def test_wrong_rules_are_told_with_file_and_line() -> None:
    first = begin(RISE)
    assert str(refusal(first, RISE, a="\n" + HIGH.replace("value", "valu")).place) == "a.situ:2:31"
    twice = refusal(first, RISE, a=RISE)
    assert str(twice.place) == "a.situ:2:1"
    assert "already" in twice.cause
    assert str(refusal(first, RISE, a=TWICE).place) == "a.situ:3:12"  # no Warm
    assert "within" in refusal(first, RISE, a=FALL.replace("within 10 s", "")).remedy


def test_the_last_rule_stays() -> None:
    assert "no rule" in refusal(begin(RISE), "").cause


def test_another_stream_is_another_query() -> None:
    before = begin(RISE)
    with pytest.raises(QueryError, match="streams") as caught:
        next_rules(before, Texts("q.situ", STREAM.replace("5 s", "6 s") + RISE + HIGH), 1, "later")
    assert "--checkpoint" in caught.value.remedy


def test_rules_need_the_levels_that_the_checkpoint_has() -> None:
    error = refusal(begin(RISE), RISE, a=REGROUP)
    assert str(error.place) == "a.situ:6:1"
    assert "--levels 2" in error.remedy
    assert change(begin(RISE), RISE, levels=2, a=REGROUP) == Change(added=("Risen", "Risings"))


def test_a_rule_that_would_move_to_another_stage_is_not_taken_from_its_state() -> None:
    """Twice reads Warm by room; a definition that comes before it takes Warm along to the sensors."""
    before = begin(WARM + TWICE)
    by_sensor = """
define Again(sensor)
  detect   Warm as a then Warm as b within 10 s
  assign   sensor = a.sensor
  group by sensor
"""
    error = refusal(before, WARM + TWICE, levels=2, a=by_sensor)
    assert "its state lies in stage 1" in error.cause
    as_subscription = by_sensor.replace("define Again(sensor)", "subscribe Again")
    assert change(before, WARM + TWICE, levels=2, a=as_subscription) == Change(added=("Again",))


def test_single_events_may_be_judged_elsewhere() -> None:
    """High has run anywhere, and runs with Rise from now on: its events can wait wherever they are."""
    assert change(begin(HIGH), HIGH, a=RISE) == Change(added=("Rise",))
    assert change(begin(WARM + "subscribe All detect Warm"), WARM + "subscribe All detect Warm", a=RISE) == Change(
        added=("Rise",)
    )


def test_single_events_that_others_read_by_key_may_not() -> None:
    """Events that wait for their time would meet Twice in the wrong shard."""
    error = refusal(begin(WARM + "subscribe All detect Warm"), WARM + "subscribe All detect Warm", a=TWICE)
    assert "Warm would run in stage 1 by key: room" in error.cause


def test_single_events_that_wait_for_duplicates_may_not() -> None:
    texts = Texts("q.situ", STREAM.replace("time ts", "time ts unique room") + HIGH)
    before = first_rules(texts, "now")
    with pytest.raises(QueryError, match="High would run"):
        next_rules(before, replace(texts, control={"a.situ": RISE}), 1, "later")


def test_state_of_other_types_is_not_taken_over() -> None:
    """The program of Twice does not say what type a room is of, but the events that it holds do."""
    before = begin(RISE + WARM + TWICE.replace("group by room", "group by sensor"))
    other = WARM.replace("room = a.room", "room = a.value")
    error = refusal(before, RISE + other + TWICE.replace("group by room", "group by sensor"))
    assert "Twice reads Warm" in error.cause


def test_rules_may_begin_and_cease_to_read_a_stream() -> None:
    """Every declared stream is in the checkpoint, whether a rule reads it or not."""
    two = STREAM + "stream Door(door int, ts timestamp) time ts\n"
    knock = "subscribe Knock detect Door as d assign door = d.door\n"
    reads_one = first_rules(Texts("q.situ", two + RISE), "now")
    reads_both = next_rules(reads_one, Texts("q.situ", two + RISE + knock), 1, "later")
    assert reads_both is not None
    assert reads_both.rules.change.added == ("Knock",)
    again = next_rules(reads_both, Texts("q.situ", two + RISE), 1, "later still")
    assert again is not None
    assert again.rules.change.removed == ("Knock",)
    assert [read.stream.name for read in again.plan.stream_reads] == ["Reading", "Door"]


# ---- any sequence of changes


def test_any_sequence_of_changes_is_what_its_steps_say() -> None:
    """What is in force is what the texts say, names add up, and `changed` only grows."""
    known = {
        "Rise": [RISE, RISE.replace("10 s", "20 s"), RISE.replace("b.value -", "b.value +")],
        "High": [HIGH, HIGH.replace("8", "9")],
        "Fall": [FALL, FALL.replace("group by sensor", "group by room")],
        "Twice": [WARM + TWICE],
    }
    for seed in range(40):
        rng = random.Random(seed)
        now = begin(RISE)
        names = {"Rise"}
        for _ in range(8):
            chosen = {name: rng.choice(texts) for name, texts in known.items() if rng.random() < 0.6}
            try:
                then = after(now, chosen.pop("Rise", ""), **chosen)
            except QueryError as error:
                assert "no rule" in error.cause or "would run" in error.cause, error  # noqa: PT017
                continue
            if then is None:
                continue
            told = then.rules.change
            assert then.rules.number == now.rules.number + 1
            assert names.isdisjoint(told.added)
            assert names >= {*told.replaced, *told.removed}
            assert {*told.kept} <= {*told.replaced}
            assert {*then.rules.changed} == {*now.rules.changed, *told.replaced, *told.removed}
            names = (names | {*told.added}) - {*told.removed}
            assert names == {operator.name for operator in then.plan.graph.operators} == {*then.rules.order}
            kept = [name for name in now.rules.order if name in names]
            assert [name for name in then.rules.order if name in kept] == kept
            now = then
