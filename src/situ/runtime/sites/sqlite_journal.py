"""The journal on disk: SQLite with a write-ahead log, and every commit on disk before it returns.

Commits come from one thread. Checkpoints, which copy the write-ahead log into the database, are made in a thread of
their own, so that a commit writes its own bytes and no others. Entries that were written lately are kept in memory,
because most are read once, right after they were written: to be sent.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NoReturn

from situ.runtime.sites.journal import (
    Entry,
    EntryStub,
    ForgottenError,
    JournalCommit,
    JournalError,
    LogPosition,
    StepRecord,
)
from situ.runtime.sites.messages import LogName

#: The format of the tables.
FORMAT = 2
_PAGE_BYTES = 16384
#: The write-ahead log is copied into the database when it is so large. A commit writes whole pages, some of them anew
#: each time: the ends of tables and of their indices.
_CHECKPOINT_BYTES, _COMMIT_BYTES = 64 << 20, 8 * _PAGE_BYTES
#: Entries that are kept in memory.
_RECENT_BYTES = 64 << 20
_BUSY_MS = 60_000

_TABLES = """
create table logs (id integer primary key, name text not null unique);
create table entries (log integer not null, first integer not null, following integer not null,
                      watermark integer not null, size integer not null, rows blob not null);
create unique index entries_by_number on entries (log, first, following, watermark, size);
create table steps (number integer primary key, record text not null);
create table stored (name text primary key, value text not null) without rowid;
create table snapshots (id integer primary key check (id = 1), state blob not null);
"""


def end_process(reason: str) -> NoReturn:
    """End the process at once: after a write that failed, nobody knows what is on disk but whoever reads it anew."""
    print(f"situ: {reason}", file=sys.stderr, flush=True)
    os._exit(1)


class SqliteJournal:
    """The journal in a directory, which belongs to this process as long as it lives."""

    def __init__(self, directory: Path, fail: Callable[[str], NoReturn] = end_process) -> None:
        self.directory, self._fail = directory, fail
        directory.mkdir(parents=True, exist_ok=True)
        self._lock_file = self._locked(directory / "lock")
        self._path = directory / "journal.sqlite"
        try:
            self._writer = self._connected()
            self._prepare()
            self._reader = self._connected()
        except JournalError:
            os.close(self._lock_file)
            raise
        except sqlite3.Error as error:
            os.close(self._lock_file)
            raise JournalError(
                f"the journal cannot be opened: {error}", place=str(self._path), remedy="Is it a journal of situ?"
            ) from error
        self._logs: dict[LogName, int] = {
            LogName.parse(name): number for number, name in self._writer.execute("select id, name from logs")
        }
        self._reading = threading.Lock()
        self._recent: OrderedDict[tuple[LogName, int], bytes] = OrderedDict()
        self._recent_size = 0
        self._checkpoint: threading.Thread | None = None
        self._in_log = 0

    def _locked(self, path: Path) -> int:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise JournalError(
                "another process works in this directory",
                place=str(self.directory),
                remedy="Stop it, or give this site a directory of its own.",
            ) from None
        return file

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute(f"pragma page_size={_PAGE_BYTES}")
        for setting in ("journal_mode=wal", "synchronous=full", "wal_autocheckpoint=0", f"busy_timeout={_BUSY_MS}"):
            connection.execute(f"pragma {setting}")
        return connection

    def _prepare(self) -> None:
        (format_,) = self._writer.execute("pragma user_version").fetchone()
        if format_ == 0 and not self._writer.execute("select 1 from sqlite_master").fetchone():
            self._writer.executescript(f"begin; {_TABLES} pragma user_version={FORMAT}; commit;")
        elif format_ != FORMAT:
            raise JournalError(
                f"the journal has format {format_}, this situ reads format {FORMAT}",
                place=str(self._path),
                remedy="Start the site with the situ that wrote it.",
            )

    # ---- writing

    def commit(self, commit: JournalCommit) -> None:
        """Write a commit. If that fails the process ends."""
        try:
            self._write(commit)
        except (sqlite3.Error, OSError) as error:
            self._fail(f"{self._path}: what was to be written could not be: {error}. The site ends; start it again.")
        for entry in commit.entries:
            self._remember(entry)
        self._in_log += commit.size + _COMMIT_BYTES
        self._checkpoint_if_large()

    def _write(self, commit: JournalCommit) -> None:
        execute, many = self._writer.execute, self._writer.executemany
        execute("begin immediate")
        for log in {entry.log for entry in commit.entries} - {*self._logs}:
            self._logs[log] = int(execute("insert into logs (name) values (?)", (str(log),)).lastrowid or 0)
        many(
            "insert into entries values (?, ?, ?, ?, ?, ?)",
            ((self._logs[e.log], e.first, e.following, e.watermark, len(e.rows), e.rows) for e in commit.entries),
        )
        if commit.snapshot is not None:
            execute("insert or replace into snapshots values (1, ?)", (commit.snapshot,))
            execute("delete from steps")
        many("insert into steps values (?, ?)", ((step.number, _step_to_json(step)) for step in commit.steps))
        many(
            "insert or replace into stored values (?, ?)",
            ((name, value) for name, value in commit.values.items() if value is not None),
        )
        many("delete from stored where name = ?", ((name,) for name, value in commit.values.items() if value is None))
        for log, before in commit.forgotten.items():
            if log in self._logs:
                execute("delete from entries where log = ? and following <= ?", (self._logs[log], before))
        execute("commit")

    def _remember(self, entry: Entry) -> None:
        with self._reading:
            self._recent[entry.log, entry.first] = entry.rows
            self._recent_size += len(entry.rows)
            while self._recent_size > _RECENT_BYTES:
                _, rows = self._recent.popitem(last=False)
                self._recent_size -= len(rows)

    def _checkpoint_if_large(self) -> None:
        """Copy a large write-ahead log into the database, most of it beside the commits, the rest between two."""
        running = self._checkpoint
        if running is not None and not running.is_alive():
            # Little is left to copy: after that the log begins anew, instead of growing.
            self._writer.execute("pragma wal_checkpoint(restart)")
            self._checkpoint, self._in_log = None, 0
        elif running is None and self._in_log > _CHECKPOINT_BYTES:
            self._checkpoint = threading.Thread(target=self._copy_log, name="situ-checkpoint", daemon=True)
            self._checkpoint.start()

    def _copy_log(self) -> None:
        try:
            with closing(self._connected()) as connection:
                connection.execute("pragma wal_checkpoint(passive)")
        except sqlite3.Error as error:
            self._fail(f"{self._path}: the journal could not be copied: {error}. The site ends; start it again.")

    def close(self) -> None:
        """Let go of the directory."""
        if self._checkpoint is not None:
            self._checkpoint.join()
        self._reader.close()
        self._writer.close()
        os.close(self._lock_file)

    # ---- reading

    def rows(self, log: LogName, first: int) -> bytes:
        with self._reading:
            recent = self._recent.get((log, first))
            if recent is not None:
                return recent
            asked = self._reader.execute(
                "select rows from entries where log = ? and first = ?", (self._logs.get(log, 0), first)
            ).fetchone()
        if asked is None:
            raise ForgottenError(f"the journal has no entry of {log} from number {first} on", place=str(self._path))
        return bytes(asked[0])

    def stubs_between(self, log: LogName, first: int, following: int) -> list[EntryStub]:
        query = "select first, following, watermark, size from entries where log = ? and first >= ? and first < ?"
        with self._reading:
            found = self._reader.execute(f"{query} order by first", (self._logs.get(log, 0), first, following))
            return [EntryStub(*stub) for stub in found if stub[1] <= following]

    def stubs(self) -> dict[LogName, list[EntryStub]]:
        names = {number: log for log, number in self._logs.items()}
        found: dict[LogName, list[EntryStub]] = {}
        query = "select log, first, following, watermark, size from entries order by log, first"
        for number, first, following, watermark, size in self._reader.execute(query):
            found.setdefault(names[number], []).append(EntryStub(first, following, watermark, size))
        return found

    def steps(self) -> list[StepRecord]:
        return [_step_of_json(text) for (text,) in self._reader.execute("select record from steps order by number")]

    def values(self) -> dict[str, str]:
        return dict(self._reader.execute("select name, value from stored"))

    def snapshot(self) -> bytes | None:
        stored = self._reader.execute("select state from snapshots").fetchone()
        return None if stored is None else bytes(stored[0])


def _step_to_json(step: StepRecord) -> str:
    read, made = ({str(log): list(at) for log, at in of.items()} for of in (step.read, step.made))
    ends = [True] if step.ends else []
    return json.dumps([step.number, step.version, step.now, read, made, *ends], separators=(",", ":"))


def _step_of_json(text: str) -> StepRecord:
    number, version, now, read, made, *ends = json.loads(text)
    return StepRecord(
        number,
        version,
        now,
        {LogName.parse(log): LogPosition(*at) for log, at in read.items()},
        {LogName.parse(log): (end, watermark_us) for log, (end, watermark_us) in made.items()},
        bool(ends),
    )
