"""Rules and where they come from: what texts say, the control directory, and what is in force after a crash."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.spark.changing_rules import FALL, HIGH, RISE, STREAM, TWICE, WARM, after, begin
from situ.core.errors import InputError, Place, QueryError, StateError
from situ.io.whole_file import write_whole
from situ.runtime.spark.follow.planned_rules import planned
from situ.service.rules import ControlWatch, RuleStore, Texts, query_of, read_control, texts_with

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


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"version": 2}', '{"version": 2, "number": 0, "texts": 3}'])
def test_damaged_rules_are_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "0.json").write_text(text)
    with pytest.raises(StateError) as caught:
        RuleStore(tmp_path).last()
    assert caught.value.place == str(tmp_path / "0.json")
    assert caught.value.remedy


def test_rules_of_another_version_are_refused(tmp_path: Path) -> None:
    RuleStore(tmp_path).commit(begin(RISE).rules)
    stored = json.loads((tmp_path / "0.json").read_text())
    (tmp_path / "0.json").write_text(json.dumps(stored | {"version": 3}))
    with pytest.raises(StateError, match="version 3"):
        RuleStore(tmp_path).last()


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "0.json"
    write_whole(path, "before")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\udc80")
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["0.json"]
