"""Processes of Spark's that tests look for, by whose children they are."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterable

#: What the command of a Python worker, and of the process that it was forked from, has in it; and that of an executor.
TASKS, EXECUTOR = "daemon pyspark.worker", "CoarseGrainedExecutorBackend"


def processes_below(parents: Iterable[int], words: str) -> list[int]:
    """The processes below others that have some words in their command, children after their parents."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    generation, found = {*parents}, []
    while generation:
        below = [(int(pid), command) for pid, parent, command in rows if int(parent) in generation]
        found += [pid for pid, command in below if words in command]
        generation = {pid for pid, _ in below}
    return found


def wait_for(holds: Callable[[], bool], seconds: float) -> None:
    """Looks until something holds, for so long that a busy machine gets there, too."""
    pause = threading.Event()
    assert any(holds() or pause.wait(0.1) for _ in range(int(seconds * 10)))
