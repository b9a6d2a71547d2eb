"""How far Spark has come: tasks done of those that are known, for a person who waits."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Between two looks at Spark's stages.
PERIOD_S = 0.2


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """Tasks done of `total`, in the `stages` that have run or run now; Spark plans more of them as it goes."""

    tasks: int
    total: int
    stages: int

    def __str__(self) -> str:
        """
        >>> str(TaskProgress(3, 8, 2))
        'stage 2, 3 of 8 tasks'
        """
        return f"stage {self.stages}, {self.tasks:,} of {self.total:,} tasks"


class StageInfo(Protocol):
    """One stage, as `pyspark.SparkStageInfo` describes it. Its name there is a line of situ's code: of no interest."""

    @property
    def numTasks(self) -> int: ...

    @property
    def numCompletedTasks(self) -> int: ...


class StatusTracker(Protocol):
    """The part of `pyspark.StatusTracker` that is asked."""

    def getActiveStageIds(self) -> list[int]: ...

    def getStageInfo(self, stageId: int) -> StageInfo | None: ...


class StageWatch:
    """Adds up what a status tracker says, from the moment at which it is made."""

    def __init__(self, tracker: StatusTracker) -> None:
        self._tracker = tracker
        self._stages: dict[int, tuple[int, int]] = {}
        self._earlier = max(tracker.getActiveStageIds(), default=-1)

    def look(self) -> TaskProgress | None:
        """How far the tasks of all stages are; None as long as no stage runs."""
        active = [stage for stage in self._tracker.getActiveStageIds() if stage > self._earlier]
        # A stage that has left the list since the last look has done all its tasks.
        for stage, (_, total) in self._stages.items():
            if stage not in active:
                self._stages[stage] = (total, total)
        for stage in active:
            info = self._tracker.getStageInfo(stage)
            if info is not None:
                self._stages[stage] = (info.numCompletedTasks, info.numTasks)
        if not self._stages:
            return None
        tasks, total = map(sum, zip(*self._stages.values(), strict=True))
        return TaskProgress(tasks, total, len(self._stages))


@contextmanager
def waiting(activity: str) -> Iterator[None]:
    """Says what is being waited for, on standard error, if a person is watching."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{activity} ..."):
        yield


@contextmanager
def progress_of(session: SparkSession, activity: str) -> Iterator[None]:
    """Shows what Spark does, on standard error, if a person is watching."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(activity, total=None)

        def show(task_progress: TaskProgress) -> None:
            progress.update(
                task,
                description=f"{activity}: {task_progress}",
                completed=task_progress.tasks,
                total=task_progress.total,
            )

        with watched(session, show):
            yield


@contextmanager
def watched(session: SparkSession, show: Callable[[TaskProgress], None]) -> Iterator[None]:
    """Calls `show` from time to time with how far Spark has come."""
    from situ.runtime.spark.session.session import is_connect

    if is_connect(session):
        with _told_by_connect(session, show):
            yield
    else:
        with polled(StageWatch(session.sparkContext.statusTracker()), show):
            yield


@contextmanager
def polled(watch: StageWatch, show: Callable[[TaskProgress], None], period_s: float = PERIOD_S) -> Iterator[None]:
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(period_s):
            if (task_progress := watch.look()) is not None:
                show(task_progress)

    thread = threading.Thread(target=poll, name="spark-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _told_by_connect(session: SparkSession, show: Callable[[TaskProgress], None]) -> Iterator[None]:
    """Spark Connect says by itself how far it is."""

    def told(stages: Any, **more: Any) -> None:
        if stages:
            completed = sum(stage.num_completed_tasks for stage in stages)
            show(TaskProgress(completed, sum(stage.num_tasks for stage in stages), len(stages)))

    handler: Any = told
    session.registerProgressHandler(handler)
    try:
        yield
    finally:
        session.removeProgressHandler(handler)
