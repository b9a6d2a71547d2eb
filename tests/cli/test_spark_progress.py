"""Progress from Spark's stages, told by a tracker whose story is written down here."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

import pytest

from situ.cli.spark_progress import StageWatch, TaskProgress, polled, progress_of, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Stage(NamedTuple):
    numTasks: int
    numCompletedTasks: int


class Tracker:
    """A status tracker that says what the next line of its story says; then the last one, for ever."""

    def __init__(self, *story: dict[int, Stage]) -> None:
        self._story = list(story)
        self.told = threading.Event()

    def getActiveStageIds(self) -> list[int]:
        self._now = self._story.pop(0) if len(self._story) > 1 else self._story[0]
        if len(self._story) == 1:
            self.told.set()
        return list(self._now)

    def getStageInfo(self, stageId: int) -> Stage | None:
        return self._now.get(stageId)


def test_tasks_of_all_stages_are_added_up() -> None:
    scan = Stage(4, 0)
    watch = StageWatch(
        Tracker(
            {},
            {},
            {1: scan},
            {1: scan._replace(numCompletedTasks=3), 2: Stage(6, 0)},
            {2: Stage(6, 5)},
            {},
        )
    )
    assert [watch.look() for _ in range(5)] == [
        None,
        TaskProgress(0, 4, 1),
        TaskProgress(3, 10, 2),
        TaskProgress(9, 10, 2),
        TaskProgress(10, 10, 2),
    ]


def test_stages_that_ran_before_do_not_count() -> None:
    earlier = Stage(100, 50)
    watch = StageWatch(Tracker({7: earlier}, {7: earlier}, {7: earlier, 8: Stage(4, 1)}))
    assert [watch.look(), watch.look()] == [None, TaskProgress(1, 4, 1)]


def test_a_stage_that_is_over_when_it_is_asked_for() -> None:
    class Forgetful(Tracker):
        def getStageInfo(self, stageId: int) -> None:
            return None

    assert StageWatch(Forgetful({}, {1: Stage(4, 0)})).look() is None


def test_what_is_seen_is_shown_while_it_runs() -> None:
    shown: list[TaskProgress] = []
    tracker = Tracker({}, {1: Stage(2, 1)}, {1: Stage(2, 2)})
    with polled(StageWatch(tracker), shown.append, period_s=0.001):
        assert tracker.told.wait(60)
    assert shown[0] == TaskProgress(1, 2, 1)
    assert set(shown) <= {TaskProgress(1, 2, 1), TaskProgress(2, 2, 1)}
    assert not any(thread.name == "spark-progress" for thread in threading.enumerate())


def test_an_error_ends_the_watch_too() -> None:
    with pytest.raises(RuntimeError), polled(StageWatch(Tracker({})), lambda done: None):
        raise RuntimeError("the job failed")
    assert not any(thread.name == "spark-progress" for thread in threading.enumerate())


def test_nothing_is_shown_where_nobody_watches(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    with progress_of(spark, "counting"):
        assert spark.range(10).count() == 10
    assert capfd.readouterr().err == ""


def test_spark_tells_of_its_tasks(spark: SparkSession) -> None:
    shown: list[TaskProgress] = []
    started = threading.Event()

    def show(done: TaskProgress) -> None:
        shown.append(done)
        started.set()

    with watched(spark, show):
        while not started.is_set():  # one of these jobs is running when the tracker is asked
            assert spark.range(0, 1000, 1, 4).count() == 1000
    assert 0 <= shown[0].tasks <= shown[0].total
    assert shown[0].total > 0
