"""The journal on disk has what the one in memory has, also after it was opened again, and belongs to one process."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import NoReturn

import pytest

from situ.runtime.sites import sqlite_journal
from situ.runtime.sites.journal import (
    Entry,
    Journal,
    JournalCommit,
    JournalError,
    LogPosition,
    MemoryJournal,
    StepRecord,
)
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.sqlite_journal import SqliteJournal

LOGS = [LogName("events", "A", "north", 1), LogName("late", "A", "north", 1), LogName("events", "B", "a/b", 2)]


class CannotWrite(Exception):
    """Instead of the end of the process."""


def fail(reason: str) -> NoReturn:
    raise CannotWrite(reason)


def random_commit(number: int, ends: dict[LogName, int], rng: random.Random) -> JournalCommit:
    entries = []
    for log in rng.choices(LOGS, k=rng.randint(0, 4)):
        first, ends[log] = ends[log], ends[log] + rng.randint(1, 9)
        entries.append(
            Entry(log, first, ends[log], rng.randint(-(2**63), 2**63 - 1), rng.randbytes(rng.randint(1, 2000)))
        )
    positions = {log: (end, 2**63 - 1) for log, end in ends.items()}
    read = {log: LogPosition(end, 2**63 - 1, rng.randint(0, 3)) for log, end in ends.items()}
    return JournalCommit(
        number,
        entries,
        [StepRecord(number, 1, 0.5, read, positions)] if rng.random() < 0.7 else [],
        {rng.choice("abc"): rng.choice(["x", "y", None]) for _ in range(3)},
        rng.randbytes(100) if rng.random() < 0.1 else None,
        {log: rng.randint(0, end) for log, end in ends.items() if rng.random() < 0.2},
    )


def contents(journal: Journal) -> tuple[object, ...]:
    stubs = {log: of_log for log, of_log in sorted(journal.stubs().items()) if of_log}
    rows = {(log, stub.first): journal.rows(log, stub.first) for log, of_log in stubs.items() for stub in of_log}
    return stubs, rows, journal.steps(), journal.values(), journal.snapshot()


@pytest.mark.parametrize("seed", range(5))
def test_it_has_what_memory_has(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_journal, "_CHECKPOINT_BYTES", 10_000)
    monkeypatch.setattr(sqlite_journal, "_RECENT_BYTES", 3_000)
    rng, memory, disk = random.Random(seed), MemoryJournal(), SqliteJournal(tmp_path, fail)
    ends = dict.fromkeys(LOGS, 0)
    for number in range(1, 60):
        commit = random_commit(number, ends, rng)
        memory.commit(commit)
        disk.commit(commit)
        if rng.random() < 0.1:
            disk.close()
            disk = SqliteJournal(tmp_path, fail)
    assert contents(disk) == contents(memory)
    disk.close()


def test_a_directory_belongs_to_one_process(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path)
    with pytest.raises(JournalError, match="another process works in this directory"):
        SqliteJournal(tmp_path)
    journal.close()
    SqliteJournal(tmp_path).close()


def test_what_cannot_be_written_ends_the_process_and_leaves_the_commit_before(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path, fail)
    journal.commit(JournalCommit(1, [Entry(LOGS[0], 0, 1, 0, b"x")], values={"a": "1"}))
    journal._writer.execute("pragma max_page_count=1")  # the disk is full
    with pytest.raises(CannotWrite, match="database or disk is full"):
        journal.commit(JournalCommit(2, [Entry(LOGS[0], 1, 2, 0, bytes(10**6))], values={"a": "2"}))
    journal.close()
    again = SqliteJournal(tmp_path)
    assert again.values() == {"a": "1"}
    assert len(again.stubs()[LOGS[0]]) == 1
    again.close()


def test_what_is_no_journal_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_bytes(b"no database at all" * 1000)
    with pytest.raises(JournalError, match="cannot be opened"):
        SqliteJournal(tmp_path)


def test_a_journal_of_another_format_is_refused(tmp_path: Path) -> None:
    SqliteJournal(tmp_path).close()
    with sqlite3.connect(tmp_path / "journal.sqlite") as connection:
        connection.execute("pragma user_version=7")
    with pytest.raises(JournalError, match="has format 7"):
        SqliteJournal(tmp_path)
