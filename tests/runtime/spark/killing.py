"""Kills a streaming query, at moments that can be told from the files of its checkpoint and of its sink."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import pyspark

#: How long anything may take before a test gives up; nothing depends on it otherwise.
PATIENCE_S = 240.0
_SHORT_S = 0.001

#: Of the query: levels of state, and partitions of each.
LEVELS, PARTITIONS = 2, 2


@dataclass(frozen=True, slots=True)
class Seen:
    """How far a query is. `planned`, `committed`: the last micro-batches of which that can be said; -1: none.

    Of the planned micro-batch: `states` are the partitions of each level whose state has been committed; `begun`: the
    sink has begun to write results; `written`: it has them all.
    """

    planned: int
    committed: int
    states: tuple[int, ...]
    begun: bool
    written: bool

    @property
    def running(self) -> bool:
        return self.planned > self.committed


#: Moments at which a crash differs from one at others: by what has been written, and what has not.
POINTS: dict[str, Callable[[Seen], bool]] = {
    "state": lambda seen: seen.running and seen.states == (2, 2) and not seen.written,
    "results begun": lambda seen: seen.running and seen.begun and not seen.written,
    "results written": lambda seen: seen.running and seen.written,
}


@dataclass
class Query:
    """The query of `kill_query.py` in a directory, whichever process runs it."""

    directory: Path
    sink: str
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    # --- start and end

    def start(self, master: str = "local[1,4]") -> None:
        """`local[1,4]`: a task may fail three times. `local[2]`: the query fails with the first task."""
        for name in ("fatal", "died"):
            (self.directory / name).mkdir(exist_ok=True)
        script = "from runtime.spark.kill_query import main; main()"
        paths = os.pathsep.join(path for path in sys.path if path)
        environment = {**os.environ, "PYTHONPATH": paths, "SPARK_HOME": str(self._spark_home())}
        environment.pop("SPARK_REMOTE", None)
        command = [sys.executable, "-c", script, str(self.directory), self.sink, master]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def _spark_home(self) -> Path:
        """Spark's files, in a directory into which its executors may write."""
        home = self.directory / "spark"
        if not home.exists():
            home.mkdir()
            for file in Path(pyspark.__file__).parent.iterdir():
                (home / file.name).symlink_to(file)
        return home

    def end(self) -> None:
        """Waits until all input has been read."""
        assert self.process is not None
        code = self.process.wait(PATIENCE_S)
        self.kill()  # what it may have left
        assert code == 0, self.said()

    def kill(self) -> None:
        """All processes, at once."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        # Python workers are groups of their own; they end when they notice that nobody is left to work for.
        while rest := list(processes_of(self.process.pid)):
            for pid in rest:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process = None

    def said(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-3000:]

    # --- moments

    def seen(self) -> Seen:
        checkpoint = f"{self.directory}/checkpoint"
        planned, committed = (_last(f"{checkpoint}/{name}") for name in ("offsets", "commits"))
        states = tuple(
            sum(os.path.exists(f"{checkpoint}/state/{level}/{p}/{planned + 1}.changelog") for p in range(PARTITIONS))
            for level in reversed(range(LEVELS))  # Spark counts from the end
        )
        # The sink has nothing before all state is committed, and this is asked often.
        results = self._results(planned) if sum(states) == LEVELS * PARTITIONS else (False, False)
        return Seen(planned, committed, states, *results)

    def _results(self, batch: int) -> tuple[bool, bool]:
        """Whether the sink has begun to write results, and whether it has them all."""
        out = self.directory / "out"
        if self.sink == "parquet":
            log = out / "_spark_metadata"
            return False, any((log / name).exists() for name in (f"{batch}", f"{batch}.compact"))
        names = {path.name for folder in out.glob("[A-Z]*") for path in folder.glob(f"*batch-{batch:09d}.*")}
        begun = any(name.startswith(".") for name in names)
        return begun, bool(names) and not begun

    def wait_for(self, point: Callable[[Seen], bool], what: str, after: int) -> Seen:
        """Looks again and again until it is so, in a micro-batch after the given one."""
        assert self.process is not None
        pause, deadline = threading.Event(), monotonic() + PATIENCE_S
        while True:
            ended = self.process.poll() is not None
            seen = self.seen()
            if seen.planned > after and point(seen):
                return seen
            assert not ended, f"the query ended before this could be seen: {what}\n{self.said()}"
            assert monotonic() < deadline, f"not seen: {what}; {seen}\n{self.said()}"
            pause.wait(_SHORT_S)

    def kill_at(self, name: str) -> Seen:
        """Kills at one of POINTS, in a micro-batch that had not been planned before. The processes are halted first: if
        the moment has passed by then, they go on, and the next micro-batch has such a moment, too."""
        assert self.process is not None
        after = self.seen().planned
        while True:
            seen = self.wait_for(POINTS[name], name, after)
            os.killpg(self.process.pid, signal.SIGSTOP)
            _wait_until_halted(self.process.pid)
            still = self.seen()
            if still.planned == seen.planned and POINTS[name](still):
                self.kill()
                return still
            os.killpg(self.process.pid, signal.SIGCONT)
            after = seen.planned

    def kill_after(self, delay_s: float) -> Seen:
        """Kills some time after the first new micro-batch was planned."""
        after = self.seen().planned
        self.wait_for(lambda seen: seen.running, "a micro-batch", after)
        threading.Event().wait(delay_s)
        self.kill()
        return self.seen()

    def kill_by_order(self) -> Seen:
        """Waits for a death that was ordered of the query itself (see `kill_query._die`)."""
        assert self.process is not None
        code = self.process.wait(PATIENCE_S)
        assert code == -signal.SIGKILL, f"ended with {code}\n{self.said()}"
        self.kill()
        return self.seen()

    def kill_some(self, word: str, rng: random.Random, after: int) -> int:
        """Kills one of the processes with a word in their command, in the middle of a micro-batch; its number."""
        assert self.process is not None
        found: list[int] = []

        def there(seen: Seen) -> bool:
            found[:] = sorted(pid for pid in processes_of(self.process.pid) if word in _command(pid))  # type: ignore[union-attr]
            return seen.running and bool(found)

        batch = self.wait_for(there, f"a process of {word}", after).planned
        with suppress(ProcessLookupError):
            os.kill(rng.choice(found), signal.SIGKILL)
        return batch


def processes_of(session: int) -> Iterator[int]:
    """The processes that have been started by a process with a session of its own, and by those, and so on."""
    for directory in Path("/proc").glob("[0-9]*"):
        fields = _stat(directory / "stat")
        if fields and int(fields[3]) == session and fields[0] != "Z":
            yield int(directory.name)


def _wait_until_halted(group: int) -> None:
    """A signal to halt is on its way for a while."""
    while not all(_is_halted(pid) for pid in processes_of(group) if os.getpgid(pid) == group):
        pass


def _is_halted(pid: int) -> bool:
    """Threads are halted (T), have ended (Z), or wait in the kernel (D): such as one that is about to start a process
    which is itself halted."""
    states = [_stat(thread / "stat")[:1] for thread in Path(f"/proc/{pid}/task").glob("[0-9]*")]
    return all(state in ([], ["T"], ["Z"], ["D"]) for state in states)


def _stat(file: Path) -> list[str]:
    """State, parent, group, session, ... of a process or thread; nothing if it has ended."""
    try:
        return file.read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _last(directory: str) -> int:
    """The largest number that is the name of a file."""
    try:
        return max((int(name) for name in os.listdir(directory) if name.isdigit()), default=-1)
    except FileNotFoundError:
        return -1
