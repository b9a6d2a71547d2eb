"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from situ.io.permissions import PRIVATE, Permissions


def write_whole(path: Path, text: str, permissions: Permissions = PRIVATE) -> None:
    """The file has the text, or what it had before: also after a crash."""
    handle, unfinished = tempfile.mkstemp(prefix=".unfinished-", dir=path.parent)
    try:
        os.fchmod(handle, permissions.file)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
