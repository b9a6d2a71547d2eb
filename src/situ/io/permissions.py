"""Who may read what situ writes: results and checkpoints hold what was observed, and are private unless asked.

Modes are set explicitly. The umask of a process can only take permissions away, and is often one that takes too few.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class Permissions:
    """The modes of directories and files."""

    directory: int
    file: int

    def make_directory(self, path: Path) -> None:
        """Makes a directory, and those above it, where they are missing. What is there keeps its mode."""
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=self.directory, exist_ok=True)
            # `mkdir` asks the umask, and a new folder takes the group of a setgid one: that bit is not to be lost.
            inherited = folder.stat().st_mode & stat.S_ISGID
            folder.chmod(self.directory | inherited)

    def open_new(self, path: Path) -> BinaryIO:
        """A file that is empty, to be written. It never is open to more people, not even for a moment."""
        path.unlink(missing_ok=True)  # what an earlier attempt left may have another mode
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, self.file)
        try:
            os.fchmod(descriptor, self.file)
            return os.fdopen(descriptor, "wb")
        except BaseException:
            os.close(descriptor)
            raise

    def opener(self, path: str | Path, flags: int) -> int:
        """An opener for `open(path, mode, opener=...)`: nobody else may read a file that it makes. One that is there is
        opened as it is."""
        return os.open(path, flags, self.file)


#: For whoever runs the query alone.
PRIVATE = Permissions(0o700, 0o600)
#: The group may read.
GROUP_READABLE = Permissions(0o750, 0o640)
