"""What is in force when a query starts, and starts again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runtime.spark.changing_rules import FALL, HIGH, REGROUP, RISE, STREAM, TWICE, begin, begun, manifest
from situ.core.errors import InputError, QueryError, SituError, StateError
from situ.runtime.spark.follow.opening import Job, open_rules
from situ.runtime.spark.follow.planned_rules import PlannedRules, first_rules, next_rules
from situ.service.rules import Change, Texts


@pytest.fixture
def control(tmp_path: Path) -> Path:
    (tmp_path / "rules").mkdir()
    return tmp_path / "rules"


def job(tmp_path: Path, main: str = RISE, **more: object) -> Job:
    given = Job("q.situ", STREAM + main, {"Reading": "in"}, tmp_path / "ck", tmp_path / "rules")
    return replace(given, **more)  # type: ignore[arg-type]


def in_force(tmp_path: Path, first: PlannedRules, *more: PlannedRules) -> None:
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
