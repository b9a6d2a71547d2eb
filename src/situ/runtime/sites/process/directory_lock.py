"""One process at a time may use a site's directory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import BinaryIO

from situ.core.errors import StateError
from situ.io.permissions import PRIVATE


def lock_directory(directory: Path) -> BinaryIO:
    """The lock of a directory, which the system takes back when this process ends, however it ends.

    StateError if another process has it.
    """
    PRIVATE.make_directory(directory)
    file = os.fdopen(PRIVATE.opener(directory / "lock", os.O_RDWR | os.O_CREAT), "r+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = file.read(20).decode(errors="replace").strip()
        file.close()
        raise StateError(
            f"the directory is in use by another process{f', {holder}' if holder else ''}",
            place=str(directory),
            remedy="Every site has a directory of its own. Stop that process, or give another --dir.",
        ) from None
    file.seek(0)
    file.truncate()
    file.write(f"{os.getpid()}\n".encode())
    file.flush()
    return file
