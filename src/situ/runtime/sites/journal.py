"""What a site must not lose: entries of logs, steps of operators, values under names, and a snapshot.

The journal is a plain store; what its contents mean, the core knows. One commit is written as a whole or not at all.
`MemoryJournal` is the one of the simulation; `sqlite_journal.py` has the one on disk.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from situ.core.errors import SituError
from situ.core.time import BEGINNING
from situ.runtime.sites.messages import LogName


class JournalError(SituError):
    """The journal cannot be opened, or does not say what it should."""


class ForgottenError(JournalError):
    """An entry is in the journal no more: all who read it have it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A batch of a log, whether made or read here. No event before `watermark` has a number from `following` on."""

    log: LogName
    first: int
    following: int
    watermark: int
    rows: bytes

    @property
    def stub(self) -> EntryStub:
        return EntryStub(self.first, self.following, self.watermark, len(self.rows))


@dataclass(frozen=True, slots=True)
class EntryStub:
    """What the core remembers of an entry: its numbers, its promise and its size."""

    first: int
    following: int
    watermark: int
    size: int


class LogPosition(NamedTuple):
    """How far a log is read: up to a number and a promise, and to the answer to a request, where it is pulled."""

    number: int = 0
    watermark_us: int = BEGINNING
    request: int = 0


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step of the operators of one version: how far logs that they read were given to them, and what they made, as
    (number, watermark). `ends`: they knew that the version ends, and which of them are carried on."""

    number: int
    version: int
    now: float
    read: Mapping[LogName, LogPosition]
    made: Mapping[LogName, tuple[int, int]]
    ends: bool = False


@dataclass(frozen=True, slots=True)
class JournalCommit:
    """What is written together.

    `values` are set, None removes one. With a `snapshot`, earlier steps are forgotten. `forgotten`: entries of a log
    before a number are needed no more.
    """

    number: int
    entries: Sequence[Entry] = ()
    steps: Sequence[StepRecord] = ()
    values: Mapping[str, str | None] = field(default_factory=dict)
    snapshot: bytes | None = None
    forgotten: Mapping[LogName, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Its bytes, about."""
        return sum(len(entry.rows) + 100 for entry in self.entries) + len(self.snapshot or b"") + 200 * len(self.steps)


class Journal(Protocol):
    """Keeps commits. Reads may come from another thread than commits."""

    def commit(self, commit: JournalCommit) -> None:
        """Write a commit; it is on disk when this returns. What cannot be written ends the process."""

    def rows(self, log: LogName, first: int) -> bytes:
        """The rows of the entry that begins with a number; ForgottenError if it is there no more."""

    def stubs_between(self, log: LogName, first: int, following: int) -> Sequence[EntryStub]:
        """The entries of a log that have numbers from `first` to before `following` alone."""

    def stubs(self) -> Mapping[LogName, Sequence[EntryStub]]:
        """All entries, by log and number; asked once, at the start."""

    def steps(self) -> Sequence[StepRecord]:
        """The steps after the snapshot, in order; asked once, at the start."""

    def values(self) -> Mapping[str, str]:
        """All values; asked once, at the start."""

    def snapshot(self) -> bytes | None:
        """The last snapshot; asked once, at the start."""


class MemoryJournal:
    """A journal that lasts as long as the object: what the simulation's sites have for a disk."""

    def __init__(self) -> None:
        self.entries: dict[LogName, list[Entry]] = {}
        self._steps: list[StepRecord] = []
        self._values: dict[str, str] = {}
        self._snapshot: bytes | None = None

    def commit(self, commit: JournalCommit) -> None:
        for entry in commit.entries:
            self.entries.setdefault(entry.log, []).append(entry)
        if commit.snapshot is not None:
            self._snapshot = commit.snapshot
            self._steps.clear()
        self._steps += commit.steps
        for name, value in commit.values.items():
            if value is None:
                self._values.pop(name, None)
            else:
                self._values[name] = value
        for log, before in commit.forgotten.items():
            of_log = self.entries.get(log, [])
            kept = of_log[bisect_right(of_log, before, key=lambda entry: entry.following) :]
            self.entries[log] = kept
            if not kept:
                del self.entries[log]

    def rows(self, log: LogName, first: int) -> bytes:
        of_log = self.entries.get(log, [])
        at = bisect_left(of_log, first, key=lambda entry: entry.first)
        if at == len(of_log) or of_log[at].first != first:
            raise ForgottenError(f"the journal has no entry of {log} from number {first} on")
        return of_log[at].rows

    def stubs_between(self, log: LogName, first: int, following: int) -> list[EntryStub]:
        return [e.stub for e in self.entries.get(log, []) if e.first >= first and e.following <= following]

    def stubs(self) -> dict[LogName, list[EntryStub]]:
        return {log: [entry.stub for entry in entries] for log, entries in self.entries.items()}

    def steps(self) -> list[StepRecord]:
        return list(self._steps)

    def values(self) -> dict[str, str]:
        return dict(self._values)

    def snapshot(self) -> bytes | None:
        return self._snapshot

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return sum(len(entry.rows) for of_log in self.entries.values() for entry in of_log) + len(self._snapshot or b"")
