"""Tells at once that files have come into a directory, where the system can (inotify); elsewhere nothing but waits.

It is a hint, never the truth: a file that comes over a network file system, or into a folder below, is not told. So
whoever asks also looks by itself, now and then.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
import time
from pathlib import Path

_CLOSE_WRITE, _MOVED_TO, _OVERFLOW, _IS_DIRECTORY = 0x8, 0x80, 0x4000, 0x40000000
#: A watch, what happened, a number that joins two halves of a move, and the length of the name that follows.
_EVENT = struct.Struct("iIII")
_BUFFER_BYTES = 1 << 16


class DirectoryWatch:
    """Watches a directory until it is closed."""

    def __init__(self, directory: Path) -> None:
        self._file = _inotify(directory)

    @property
    def works(self) -> bool:
        """Whether this system tells of files at all."""
        return self._file is not None

    def names(self, timeout_s: float) -> list[str] | None:
        """Names of files that were moved in, or written and closed, since the last call; waits for the first of them.
        Empty: nothing was told in that time. None: more has happened than names can tell, so look."""
        if self._file is None:
            time.sleep(timeout_s)
            return []
        if not select.select([self._file], [], [], timeout_s)[0]:
            return []
        return _names_in(os.read(self._file, _BUFFER_BYTES))

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _inotify(directory: Path) -> int | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    file = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    if file < 0:  # as many as one user may have are open
        return None
    if libc.inotify_add_watch(file, os.fsencode(directory), _CLOSE_WRITE | _MOVED_TO) < 0:
        os.close(file)
        return None
    return int(file)


def _names_in(data: bytes) -> list[str] | None:
    """The names in what inotify gave.

    >>> _names_in(_EVENT.pack(1, _MOVED_TO, 0, 8) + b"a.csv" + bytes(3))
    ['a.csv']
    """
    names, at = [], 0
    while at < len(data):
        _, what, _, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size + length
        if what & (_OVERFLOW | _IS_DIRECTORY) or not length:  # also: the directory itself is gone
            return None
        names.append(os.fsdecode(data[at - length : at].rstrip(b"\0")))
    return names
