"""Rules that change: what texts say, what a change means for state, and what is in force after a crash."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from situ.core.errors import InputError, Place, QueryError, SituError, StateError
from situ.runtime.spark.checkpoint import Checkpoint, Manifest, declarations, origins, require_the_same, write_whole
from situ.runtime.spark.opening import Job, open_rules
from situ.runtime.spark.rule_change import Change
from situ.runtime.spark.rules import (
    ControlWatch,
    Planned,
    Rules,
    RuleStore,
    Texts,
    first_rules,
    next_rules,
    planned,
    query_of,
    read_control,
    texts_with,
)

STREAM = "stream Reading(sensor int, room int, value double, ts timestamp) time ts watermark 5 s\n"
RISE = """
subscribe Rise
  detect   Reading(value > 0) as a then Reading(value > a.value + 5) as b within 10 s
  assign   sensor = a.sensor, by = b.value - a.value
  group by sensor
"""
HIGH = "subscribe High detect Reading(value > 8) as a assign sensor = a.sensor\n"
WARM = "define Warm(sensor, room) detect Reading(value > 20) as a assign sensor = a.sensor, room = a.room\n"
TWICE = """
subscribe Twice
  detect   Warm as a then Warm as b within 10 s
  assign   room = a.room
  group by room
"""
FALL = RISE.replace("Rise", "Fall").replace("> a.value + 5", "< a.value - 5")


def begin(main: str, **control: str) -> Planned:
    return first_rules(Texts("q.situ", STREAM + main, {f"{name}.situ": text for name, text in control.items()}), "now")


def after(before: Planned, main: str, levels: int = 1, **control: str) -> Planned | None:
    texts = Texts("q.situ", STREAM + main, {f"{name}.situ": text for name, text in control.items()})
    return next_rules(before, texts, levels, "later")


def change(before: Planned, main: str, levels: int = 1, **control: str) -> Change:
    found = after(before, main, levels, **control)
    assert found is not None
    return found.rules.change


# ---- texts


def test_all_files_are_one_query() -> None:
    query = query_of(Texts("q.situ", STREAM + RISE, {"a.situ": WARM, "b.situ": TWICE + HIGH}))
    assert [d.name for d in query.definitions] == ["Warm"]
    assert [s.name for s in query.subscriptions] == ["Rise", "Twice", "High"]
    assert query.definitions[0].place == Place("a.situ", 1, 1)


def test_known_rules_come_first_in_their_order() -> None:
    texts = Texts("q.situ", STREAM + RISE, {"a.situ": HIGH, "b.situ": FALL})
    assert [s.name for s in query_of(texts, ("Fall", "Rise")).subscriptions] == ["Fall", "Rise", "High"]


def test_a_file_that_is_no_query_keeps_its_text_in_force() -> None:
    texts = Texts("q.situ", STREAM, {"a.situ": RISE, "gone.situ": FALL})
    found, wrong = texts_with(texts, {"a.situ": b"subscribe Ri", "b.situ": HIGH.encode(), "c.situ": b"subscr"})
    assert found == Texts("q.situ", STREAM, {"a.situ": RISE, "b.situ": HIGH})
    assert [error.place.file for error in wrong if isinstance(error.place, Place)] == ["a.situ", "c.situ"]


def test_a_stream_in_the_control_directory_is_refused_with_its_place() -> None:
    _, (error,) = texts_with(Texts("q.situ", STREAM), {"a.situ": (HIGH + STREAM).encode()})
    assert isinstance(error, QueryError)
    assert str(error.place) == "a.situ:2:1"
    assert "Reading" in error.cause
    assert "query file" in error.remedy


def test_a_file_that_is_no_text_is_told_by_its_name() -> None:
    _, (error,) = texts_with(Texts("q.situ", STREAM), {"a.situ": b"\xff\xfe"})
    assert error.place == "a.situ"


# ---- the control directory


def test_only_rule_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "b.situ").write_text(HIGH)
    (tmp_path / "a.situ").write_text(RISE)
    (tmp_path / ".c.situ.swp").write_text("x")
    (tmp_path / ".d.situ").write_text("x")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "folder.situ").mkdir()
    found = read_control(tmp_path)
    assert list(found.items()) == [
        (str(tmp_path / "a.situ"), RISE.encode()),
        (str(tmp_path / "b.situ"), HIGH.encode()),
    ]


def test_a_content_counts_when_two_looks_agree(tmp_path: Path) -> None:
    watch = ControlWatch(tmp_path, {})
    assert (watch.look(), watch.look()) == (None, None)
    file = tmp_path / "a.situ"
    file.write_text("subscribe")
    assert watch.look() is None
    file.write_text(HIGH)  # somebody was still writing
    assert watch.look() is None
    assert watch.look() == {str(file): HIGH.encode()}
    assert watch.look() is None


def test_contents_are_compared_not_times(tmp_path: Path) -> None:
    file = tmp_path / "a.situ"
    file.write_text(HIGH)
    before = file.stat()
    watch = ControlWatch(tmp_path, read_control(tmp_path))
    file.write_text(HIGH)
    os.utime(file, ns=(before.st_atime_ns + 10**12, before.st_mtime_ns + 10**12))
    assert (watch.look(), watch.look()) == (None, None)
    file.write_text(HIGH.replace("8", "9"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (watch.look(), watch.look()) == (None, {str(file): HIGH.replace("8", "9").encode()})


def test_a_directory_that_is_gone_removes_no_rules_and_is_told_once(tmp_path: Path) -> None:
    control = tmp_path / "rules"
    control.mkdir()
    (control / "a.situ").write_text(HIGH)
    watch = ControlWatch(control, read_control(control))
    (control / "a.situ").unlink()
    control.rmdir()
    with pytest.raises(InputError, match="cannot read"):
        watch.look()
    assert watch.look() is None
    control.mkdir()
    (control / "a.situ").write_text(HIGH)
    assert (watch.look(), watch.look()) == (None, None)
    (control / "a.situ").unlink()
    control.rmdir()
    with pytest.raises(InputError):
        watch.look()


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


def refusal(before: Planned, main: str, levels: int = 1, **control: str) -> QueryError:
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


REGROUP = """
define Risen(sensor, by)
  detect   Reading(value > 0) as a then Reading(value > a.value + 5) as b within 10 s
  assign   sensor = a.sensor, by = b.value - a.value
  group by sensor
subscribe Risings
  aggr every 1 min
  detect   Risen
  assign   n = count(Risen)
"""


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


# ---- what is in force


def test_the_last_commit_is_in_force(tmp_path: Path) -> None:
    store = RuleStore(tmp_path / "rules")
    assert store.last() is None
    first = begin(RISE, a=HIGH)
    store.commit(first.rules)
    second = after(first, RISE, a=HIGH.replace("8", "9"))
    assert second is not None
    store.commit(second.rules)
    for number in range(2, 11):  # "10" is after "9", and before it as text
        store.commit(replace(second.rules, number=number, since=str(number)))
    again = RuleStore(tmp_path / "rules").last()
    assert again == replace(second.rules, number=10, since="10")
    assert planned(again).plan.graph.query == second.plan.graph.query


def test_what_a_crash_left_unfinished_does_not_count(tmp_path: Path) -> None:
    store = RuleStore(tmp_path)
    store.commit(begin(RISE).rules)
    (tmp_path / ".unfinished-x1").write_text('{"version": 1, "num')
    assert store.last() == begin(RISE).rules
    store.clear()
    assert store.last() is None


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"version": 1}', '{"version": 1, "number": 0, "texts": 3}'])
def test_damaged_rules_are_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "0.json").write_text(text)
    with pytest.raises(StateError) as caught:
        RuleStore(tmp_path).last()
    assert caught.value.place == str(tmp_path / "0.json")
    assert caught.value.remedy


def test_rules_of_another_version_are_refused(tmp_path: Path) -> None:
    RuleStore(tmp_path).commit(begin(RISE).rules)
    stored = json.loads((tmp_path / "0.json").read_text())
    (tmp_path / "0.json").write_text(json.dumps(stored | {"version": 2}))
    with pytest.raises(StateError, match="version 2"):
        RuleStore(tmp_path).last()


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "0.json"
    write_whole(path, "before")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\udc80")
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["0.json"]


# ---- the checkpoint


def manifest(text: str = STREAM + RISE, shards: int = 2, levels: int = 1, **addresses: str) -> Manifest:
    streams = query_of(Texts("q.situ", text)).streams
    return Manifest.new(streams, addresses or {"Reading": "in"}, shards, 2, levels)


def begun(directory: Path, known: Manifest, *rules: Rules) -> Checkpoint:
    """A checkpoint after its first micro-batch."""
    checkpoint = Checkpoint(directory)
    directory.mkdir(parents=True, exist_ok=True)
    checkpoint.write(known)
    for one in rules:
        RuleStore(checkpoint.rules).commit(one)
    for log in ("offsets", "commits"):
        (directory / "spark" / log).mkdir(parents=True)
        (directory / "spark" / log / "0").touch()
    return checkpoint


def test_a_manifest_is_read_back(tmp_path: Path) -> None:
    known = manifest()
    assert begun(tmp_path, known).manifest() == known
    assert manifest().query != known.query


def test_before_the_first_micro_batch_nothing_is_decided(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.write(manifest())
    assert checkpoint.manifest() is None
    assert checkpoint.next_batch == 0


def test_the_next_micro_batch_is_the_first_that_is_not_committed(tmp_path: Path) -> None:
    checkpoint = begun(tmp_path, manifest())
    for number in range(1, 12):
        (tmp_path / "spark" / "offsets" / str(number)).touch()
        (tmp_path / "spark" / "commits" / str(number)).touch()
    (tmp_path / "spark" / "commits" / ".11.crc").touch()
    assert not checkpoint.is_in_a_batch
    (tmp_path / "spark" / "offsets" / "12").touch()  # planned, and not committed
    assert checkpoint.next_batch == 12
    assert checkpoint.is_in_a_batch


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('{"version": 7}', "version 7"),
        ("{", "says nothing"),
        ('{"version": 1, "query": "x"}', "says nothing"),
        ("[]", "says nothing"),
    ],
)
def test_another_manifest_is_refused(tmp_path: Path, text: str, cause: str) -> None:
    checkpoint = begun(tmp_path, manifest())
    (tmp_path / "query.json").write_text(text)
    with pytest.raises(StateError, match=cause):
        checkpoint.manifest()


@pytest.mark.parametrize(
    ("asked", "cause"),
    [
        ({"text": STREAM.replace("Reading", "Value")}, "has the streams Reading, and the query Value"),
        ({"text": STREAM + "stream Door(ts timestamp) time ts"}, "and the query Reading, Door"),
        ({"text": STREAM.replace("watermark 5 s", "watermark 6 s")}, "another declaration of stream Reading"),
        ({"address": "elsewhere"}, "elsewhere"),
        ({"address": "kafka://host:9092/readings"}, "not kafka readings"),
        ({"shards": 3}, "in 2 shards, not in 3"),
        ({"levels": 2}, "has 1 level, not 2"),
    ],
)
def test_a_checkpoint_of_another_query_is_refused(asked: dict[str, str | int], cause: str) -> None:
    streams = query_of(Texts("q.situ", str(asked.get("text", STREAM)))).streams
    shards, levels = asked.get("shards"), asked.get("levels")
    assert shards is None or isinstance(shards, int)
    assert levels is None or isinstance(levels, int)
    addresses = {stream.name: str(asked.get("address", "in")) for stream in streams}
    with pytest.raises(StateError, match=cause) as caught:
        require_the_same(manifest(), streams, addresses, shards, levels, "here")
    assert caught.value.place == "here"
    require_the_same(manifest(), query_of(Texts("q.situ", STREAM)).streams, {"Reading": "./in"}, 2, 1, "here")
    require_the_same(manifest(), query_of(Texts("q.situ", STREAM)).streams, {"Reading": "in"}, None, None, "here")


def test_where_a_stream_comes_from_tells_no_secrets() -> None:
    found = origins({"A": "mqtt://ann:secret@broker/city/#?client_id=x", "B": "kafka://h:1/t?kafka.sasl.jaas=secret"})
    assert found == {"A": "mqtt city/#", "B": "kafka t"}


def test_brokers_may_move() -> None:
    known = manifest(Reading="kafka://one:9092/readings")
    require_the_same(
        known, query_of(Texts("q.situ", STREAM)).streams, {"Reading": "kafka://two:9/readings?x=y"}, None, None, ""
    )


def test_spelling_of_a_declaration_does_not_matter() -> None:
    other = STREAM.upper().replace("READING", "Reading").replace("SENSOR", "sensor").replace("ROOM", "room")
    other = other.replace("VALUE", "value").replace("TS", "ts").replace(" 5 S", " 5000 ms")
    assert declarations(query_of(Texts("a", other)).streams) == declarations(query_of(Texts("b", STREAM)).streams)


_HOLD = """
import sys
from pathlib import Path
from situ.runtime.spark.checkpoint import Checkpoint
with Checkpoint(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    sys.stdin.readline()
"""


def test_one_process_at_a_time(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "new" / "ck")
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(checkpoint.directory)], stdin=-1, stdout=-1, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(StateError, match=f"number {other.pid}"), checkpoint.locked():
            pass
        other.kill()  # the lock ends with the process
        other.wait()
        with checkpoint.locked():
            pass


def test_the_lock_is_free_after_an_error(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    with pytest.raises(ZeroDivisionError), checkpoint.locked():
        raise ZeroDivisionError
    with checkpoint.locked():
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match="not empty"), Checkpoint(tmp_path).locked():
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(InputError, match="a file"), Checkpoint(tmp_path / "thesis.tex").locked():
        pass


# ---- before Spark starts


@pytest.fixture
def control(tmp_path: Path) -> Path:
    (tmp_path / "rules").mkdir()
    return tmp_path / "rules"


def job(tmp_path: Path, main: str = RISE, **more: object) -> Job:
    given = Job("q.situ", STREAM + main, {"Reading": "in"}, tmp_path / "ck", tmp_path / "rules")
    return replace(given, **more)  # type: ignore[arg-type]


def in_force(tmp_path: Path, first: Planned, *more: Planned) -> None:
    begun(tmp_path / "ck", manifest(), first.rules, *(one.rules for one in more))


def messages(errors: tuple[SituError, ...]) -> list[str]:
    return [str(error.place) for error in errors]


def test_the_first_start(tmp_path: Path, control: Path) -> None:
    (control / "a.situ").write_text(HIGH)
    opening = open_rules(job(tmp_path))
    assert opening.manifest is None
    assert opening.before is None
    assert opening.rules.rules.change == Change(added=("Rise", "High"))
    assert opening.control == {str(control / "a.situ"): HIGH.encode()}
    assert not (tmp_path / "ck").exists()


def test_the_first_start_with_wrong_rules_in_the_control_directory(tmp_path: Path, control: Path) -> None:
    (control / "a.situ").write_text(HIGH)
    (control / "b.situ").write_text("subscribe")
    opening = open_rules(job(tmp_path))
    assert opening.rules.rules.order == ("Rise", "High")
    assert messages(opening.wrong) == [f"{control / 'b.situ'}:1:10"]
    (control / "b.situ").write_text(TWICE)  # without Warm: all of the directory is wrong
    opening = open_rules(job(tmp_path))
    assert opening.rules.rules.order == ("Rise",)
    assert messages(opening.wrong) == [f"{control / 'b.situ'}:3:12"]


def test_wrong_rules_in_the_query_file_are_an_error(tmp_path: Path, control: Path) -> None:
    for text in ("subscribe", RISE + RISE, RISE.replace("within 10 s", ""), ""):
        with pytest.raises(SituError):
            open_rules(job(tmp_path, text))
    (control / "a.situ").write_text("subscribe")
    with pytest.raises(QueryError, match="no rule"):
        open_rules(job(tmp_path, ""))
    with pytest.raises(InputError, match="cannot read"):
        open_rules(job(tmp_path, control=tmp_path / "nowhere"))
    with pytest.raises(StateError, match="needs 2 levels, not 1"):
        open_rules(job(tmp_path, REGROUP, levels=1))


def test_rules_may_stand_in_the_control_directory_alone(tmp_path: Path, control: Path) -> None:
    (control / "a.situ").write_text(HIGH)
    assert open_rules(job(tmp_path, "")).rules.rules.order == ("High",)


def test_a_later_start_without_changes(tmp_path: Path, control: Path) -> None:
    first = begin(RISE)
    in_force(tmp_path, first)
    opening = open_rules(job(tmp_path))
    assert (opening.rules.rules, opening.before, opening.wrong) == (first.rules, None, ())


def test_rules_that_changed_between_runs(tmp_path: Path, control: Path) -> None:
    first = begin(RISE)
    in_force(tmp_path, first)
    (control / "a.situ").write_text(HIGH)
    opening = open_rules(job(tmp_path, FALL))
    assert opening.before is not None
    assert opening.before.rules == first.rules
    assert (opening.rules.rules.number, opening.rules.rules.changed) == (1, ("Rise",))
    assert opening.rules.rules.change == Change(added=("Fall", "High"), removed=("Rise",))


def test_a_change_that_was_committed_before_a_crash_is_in_force(tmp_path: Path, control: Path) -> None:
    """The query did not get so far as to start with it: its state is that of the rules before."""
    file = control / "a.situ"
    file.write_text(HIGH)
    first = first_rules(Texts("q.situ", STREAM + RISE, {}), "now")
    second = next_rules(first, Texts("q.situ", STREAM + RISE, {str(file): HIGH}), 1, "later")
    assert second is not None
    in_force(tmp_path, first, second)
    opening = open_rules(job(tmp_path))
    assert (opening.rules.rules, opening.before) == (second.rules, None)
    file.unlink()
    opening = open_rules(job(tmp_path))
    assert opening.rules.rules.change == Change(removed=("High",))
    assert (opening.rules.rules.number, opening.rules.rules.changed) == (2, ("High",))


def test_wrong_rules_after_a_restart_leave_those_in_force(tmp_path: Path, control: Path) -> None:
    file = control / "a.situ"
    first = first_rules(Texts("q.situ", STREAM + RISE, {str(file): HIGH}), "now")
    in_force(tmp_path, first)
    for wrong in ("subscribe", HIGH.replace("value", "valu"), REGROUP):
        file.write_text(wrong)
        opening = open_rules(job(tmp_path))
        assert (opening.rules.rules, opening.before, len(opening.wrong)) == (first.rules, None, 1)


def test_a_query_file_that_does_not_fit_the_checkpoint_is_an_error(tmp_path: Path, control: Path) -> None:
    in_force(tmp_path, begin(RISE))
    with pytest.raises(QueryError, match="level 2"):
        open_rules(job(tmp_path, RISE + REGROUP))
    with pytest.raises(StateError, match="declaration"):
        open_rules(replace(job(tmp_path), text=STREAM.replace("5 s", "6 s") + RISE))
    with pytest.raises(StateError, match="shards"):
        open_rules(job(tmp_path, shards=7))
    with pytest.raises(StateError, match="stream Reading"):
        open_rules(job(tmp_path, addresses={"Reading": "elsewhere"}))


def test_a_checkpoint_without_rules_is_damaged(tmp_path: Path, control: Path) -> None:
    begun(tmp_path / "ck", manifest())
    with pytest.raises(StateError, match="lost its rules"):
        open_rules(job(tmp_path))


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
