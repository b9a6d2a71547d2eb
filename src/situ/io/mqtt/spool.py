"""Messages on disk, numbered: what came from a broker is kept until Spark has committed it.

A spool is a directory of segments. A segment is a file of lines, one per message: a checksum, and the message as JSON.
Its name is the number of its first message. Lines are only added, and are part of the spool once they are on the disk
(fsync). So a range of numbers gives the same messages whenever it is read, which is what Spark asks of a source.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import threading
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import BinaryIO

import numpy as np

from situ.core.errors import InputError, StateError
from situ.io.permissions import PRIVATE
from situ.io.sealed_json import seal, unseal

#: A segment is closed above this size; only whole segments are deleted.
SEGMENT_BYTES = 8 << 20

#: How long a spool may still be held by a process that is about to end.
LOCK_S = 30.0

#: Of session.json.
SESSION_VERSION = 1

#: Before each message: the checksum in hexadecimal digits, and a blank.
_CHECKSUM_BYTES = 9


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it came."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Session:
    """Who the spool's client is to the broker, and what it has subscribed to."""

    client_id: str
    topic: str


@dataclass(frozen=True, slots=True)
class SpoolBlock:
    """Whole lines of a spool, one after the other, and the number of the first."""

    first: int
    lines: bytes

    def messages(self) -> Iterator[Message]:
        return map(_line_to_message, self.lines.splitlines())


@dataclass(slots=True)
class _SpoolFile:
    """One file. `ends` has where each durable line ends; what lies behind the last of them is not there yet."""

    path: Path
    first: int
    ends: array[int]

    @property
    def next(self) -> int:
        return self.first + len(self.ends)

    @property
    def size(self) -> int:
        return self.ends[-1] if self.ends else 0

    def start(self, number: int) -> int:
        """Where the line of a message starts."""
        return self.ends[number - self.first - 1] if number > self.first else 0


class Spool:
    """A directory of numbered messages. One thread appends, another one reads and prunes; no other process may."""

    def __init__(self, directory: str | Path, segment_bytes: int = SEGMENT_BYTES, lock_s: float = LOCK_S) -> None:
        self.directory = Path(directory)
        self._segment_bytes = segment_bytes
        self._changing = threading.Lock()
        try:
            PRIVATE.make_directory(self.directory)
            with ExitStack() as unless_opened:
                self._lock = unless_opened.enter_context(_locked(self.directory / "lock", lock_s))
                self._segments = _found_segments(self.directory)
                self._file: BinaryIO = self._segments[-1].path.open("ab")
                unless_opened.pop_all()
        except OSError as error:
            remedy = "It is a directory of the machine that Spark's driver runs on, best beside the checkpoint."
            raise InputError(f"the spool {self.directory} cannot be used: {error}", remedy=remedy) from error

    @property
    def first(self) -> int:
        """The number of the first message that is still here."""
        return self._segments[0].first

    @property
    def next(self) -> int:
        """The number that the next message will get."""
        with self._changing:
            return self._segments[-1].next

    def append(self, messages: Sequence[Message]) -> None:
        """Appends messages; when this returns, they are on the disk."""
        lines = [_message_to_line(message) for message in messages]
        with self._changing:
            segment = self._segments[-1]
        if segment.size >= self._segment_bytes:
            segment = self._new_segment(segment.next)
        self._file.write(b"".join(lines))
        self._file.flush()
        os.fsync(self._file.fileno())
        ends = segment.size + np.cumsum([len(line) for line in lines])
        with self._changing:
            segment.ends.extend(ends.tolist())

    def blocks(self, start: int, end: int, block_bytes: int) -> Iterator[SpoolBlock]:
        """The messages from `start` up to `end`, in blocks of at most so many bytes, or of one message."""
        with self._changing:
            segments, last = list(self._segments), self._segments[-1].next
        if not segments[0].first <= start <= end <= last:
            raise StateError(
                f"the spool {self.directory} has messages {segments[0].first} to {last}, not {start} to {end}",
                remedy="Spool and checkpoint belong together: bring back the spool, or start anew with neither.",
            )
        pieces: list[bytes] = []
        first, size = start, 0
        for segment in segments:
            number, stop = max(start, segment.first), min(end, segment.next)
            while number < stop:
                begin = segment.start(number)
                fitting = segment.first + bisect_right(segment.ends, begin + block_bytes - size)
                following = min(fitting if pieces else max(fitting, number + 1), stop)
                if following > number:
                    pieces.append(_bytes_between(segment.path, begin, segment.start(following)))
                    _require_whole(pieces[-1], number, segment.path)
                    size += len(pieces[-1])
                    number = following
                else:
                    yield SpoolBlock(first, b"".join(pieces))
                    first, pieces, size = number, [], 0
        if pieces:
            yield SpoolBlock(first, b"".join(pieces))

    def prune(self, number: int) -> None:
        """Forgets messages below a number, as far as whole segments go. The last segment stays: it has the count."""
        with self._changing:
            below = bisect_right(self._segments[1:], number, key=lambda segment: segment.first)
            pruned, self._segments = self._segments[:below], self._segments[below:]
        for segment in pruned:
            segment.path.unlink()

    def session(self) -> Session | None:
        """What this spool was to the broker when it was last used."""
        file = self.directory / "session.json"
        if not file.exists():
            return None
        try:
            return Session(**unseal(file.read_bytes(), SESSION_VERSION, str(file)))
        except (ValueError, TypeError) as error:
            raise StateError(
                "this says nothing about a session with a broker, or is damaged",
                place=str(file),
                remedy="Bring it back. Without it, the broker takes this for a new client: what it keeps is not sent.",
            ) from error

    def keep(self, session: Session) -> None:
        """Writes down what this spool is to the broker."""
        file = self.directory / "session.json"
        unfinished = file.with_suffix(".tmp")
        with open(unfinished, "w", encoding="utf-8", opener=PRIVATE.opener) as out:
            out.write(seal(asdict(session), SESSION_VERSION))
            out.flush()
            os.fsync(out.fileno())
        unfinished.rename(file)
        _sync_directory(self.directory)

    def close(self) -> None:
        with suppress(OSError):  # what could not be written was not acknowledged either
            self._file.close()
        self._lock.close()

    def _new_segment(self, first: int) -> _SpoolFile:
        segment = _SpoolFile(_segment_path(self.directory, first), first, array("q"))
        self._file.close()
        self._file = os.fdopen(PRIVATE.opener(segment.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")
        _sync_directory(self.directory)
        with self._changing:
            self._segments.append(segment)
        return segment


def _message_to_line(message: Message) -> bytes:
    try:
        entry = [message.topic, message.payload.decode()]
    except UnicodeDecodeError:
        entry = [message.topic, base64.b64encode(message.payload).decode(), "base64"]
    text = json.dumps(entry, ensure_ascii=False).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _line_to_message(line: bytes) -> Message:
    topic, payload, *encoding = json.loads(line[_CHECKSUM_BYTES:])
    return Message(topic, base64.b64decode(payload) if encoding else payload.encode())


def _is_whole(line: bytes) -> bool:
    """Whether a line is as it was written, with or without its end."""
    text = line.rstrip(b"\n")
    return text[:_CHECKSUM_BYTES] == b"%08x " % zlib.crc32(text[_CHECKSUM_BYTES:])


def _require_whole(lines: bytes, first: int, path: Path) -> None:
    for number, line in enumerate(lines.splitlines(), first):
        if not _is_whole(line):
            raise _damaged(path, number)


def _damaged(path: Path, number: int) -> StateError:
    return StateError(
        f"message {number} of the spool is damaged",
        place=str(path),
        remedy="Bring back the spool and the checkpoint from a backup, or start anew with neither.",
    )


def _bytes_between(path: Path, start: int, end: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(end - start)


def _segment_path(directory: Path, first: int) -> Path:
    return directory / f"{first:020d}.jsonl"


def _found_segments(directory: Path) -> list[_SpoolFile]:
    """What a former process has left; at least one segment."""
    files = sorted(directory.glob("*.jsonl"))
    if not files:
        files = [_segment_path(directory, 0)]
        files[0].touch(mode=PRIVATE.file)
        _sync_directory(directory)
    segments = [_segment(file, last=file == files[-1]) for file in files]
    for segment, following in pairwise(segments):
        if segment.next != following.first:
            raise StateError(
                f"the spool {directory} lacks messages {segment.next} to {following.first}",
                remedy="Somebody has changed or deleted its files: bring them back, or start anew without it.",
            )
    return segments


def _segment(path: Path, last: bool) -> _SpoolFile:
    """Lines that a crash cut off were never acknowledged, so the broker sends their messages again."""
    data = path.read_bytes()
    if data.startswith(b"["):
        raise StateError(
            "an older situ wrote these messages, without checksums",
            place=str(path),
            remedy="Let that one read them to the end, or start anew without spool and checkpoint.",
        )
    ends = (np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1).tolist()
    if last:
        del ends[_whole_lines(data, ends, path) :]
        size = ends[-1] if ends else 0
        if size < len(data):
            with path.open("r+b") as file:
                file.truncate(size)
                os.fsync(file.fileno())
    return _SpoolFile(path, int(path.stem), array("q", ends))


def _whole_lines(data: bytes, ends: list[int], path: Path) -> int:
    """How many lines at the beginning are messages. Behind a crash of the machine, there may be anything, but no
    message: one that follows was on the disk, and so was what is damaged before it."""
    is_whole = [_is_whole(data[begin:end]) for begin, end in pairwise([0, *ends])]
    count = is_whole.index(False) if False in is_whole else len(is_whole)
    if any(is_whole[count:]):
        raise _damaged(path, int(path.stem) + count)
    return count


def _locked(path: Path, lock_s: float) -> BinaryIO:
    """The lock, which the system takes back when this process ends, however it ends."""
    file = os.fdopen(PRIVATE.opener(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")
    deadline, pause = monotonic() + lock_s, threading.Event()
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            if monotonic() >= deadline:
                file.close()
                raise InputError(
                    f"the spool {path.parent} is in use",
                    remedy="Another query reads with it. Stop that query, or give each its own spool.",
                ) from None
            pause.wait(0.05)


def _sync_directory(directory: Path) -> None:
    """Makes new names in a directory durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
