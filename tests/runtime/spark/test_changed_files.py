"""A file that changes after it was read gives a warning, once."""

import json
import os
from pathlib import Path

import pytest

from situ.runtime.spark.inputs.changed_files import PERIOD_S, ChangedFiles


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def come(directory: Path, name: str, batch: str, source: int = 0) -> Path:
    """A file, and what Spark notes when it has found it."""
    file = directory / name
    file.write_text("1\n")
    os.utime(file, ns=(7_654_321, 1_700_000_000_123_456_789))
    entry = {"path": file.as_uri(), "timestamp": 1_700_000_000_123, "batchId": 0}
    log = directory / "logs" / str(source) / batch
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"v1\n{json.dumps(entry)}")
    return file


def change(file: Path, text: str, seconds: int = 1) -> None:
    file.write_text(text)
    os.utime(file, ns=(0, 1_700_000_000_123_456_789 + seconds * 1_000_000_000))


def test_a_file_that_has_grown_or_was_replaced_is_told_once(tmp_path: Path, clock: Clock) -> None:
    watch = ChangedFiles(tmp_path / "logs", clock)
    grown, replaced = come(tmp_path, "a b%.csv", "0"), come(tmp_path, "b.csv", "1.compact", source=1)
    come(tmp_path, "c.csv", "2")
    assert watch.look() == ""
    change(grown, "1\n2\n")
    assert watch.look() == ""  # not yet time
    clock.now += PERIOD_S
    assert watch.look().startswith(f"{grown} has changed after situ took note of it")
    change(replaced, "3\n", seconds=-5)  # of an earlier time
    assert watch.look(now=True).startswith(f"{replaced} has changed")
    change(grown, "1\n2\n3\n", seconds=9)
    assert watch.look(now=True) == ""


def test_files_that_changed_while_nobody_looked(tmp_path: Path, clock: Clock) -> None:
    for number in range(3):
        change(come(tmp_path, f"{number}.csv", str(number)), "x")
    assert f"{tmp_path / '0.csv'} and 2 more have changed" in ChangedFiles(tmp_path / "logs", clock).look()


def test_files_that_are_gone_and_logs_of_other_sources_say_nothing(tmp_path: Path, clock: Clock) -> None:
    come(tmp_path, "a.csv", "0").unlink()
    for name, text in {"1": 'v1\n{"cars": {"0": 17}}', "2": "", "3": "v1\n[1]\nno json", "x": "v1"}.items():
        (tmp_path / "logs" / "0" / name).write_text(text)
    (tmp_path / "logs" / "0" / "4").write_bytes(b"\xff")
    watch = ChangedFiles(tmp_path / "logs", clock)
    assert watch.look() == ""
    change(tmp_path / "a.csv", "of the same name, later")
    assert watch.look(now=True) != ""  # Spark does not read it
    assert ChangedFiles(tmp_path / "nowhere", clock).look() == ""


def test_many_files_are_looked_at_less_often(tmp_path: Path) -> None:
    clock = iter([100.0, 101.0, 130.0, 150.9, 151.0, 152.0])
    watch = ChangedFiles(tmp_path / "logs", lambda: next(clock))
    watch.look()  # takes a second
    change(come(tmp_path, "a.csv", "0"), "x")
    assert [watch.look() != "" for _ in range(3)] == [False, False, True]
