"""The queries of a Spark site, in a thread of their own: Spark's session, and one streaming query for each version that
has operators here. Batches wait here until the core has them on disk."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from situ.core.errors import SituError, StateError
from situ.runtime.sites.actions import BatchMade
from situ.runtime.sites.batches import Offsets
from situ.runtime.sites.wire.reading import LogAddress

if TYPE_CHECKING:
    from situ.runtime.spark.site_query import SiteQuery

#: A task that fails is tried so often before its query fails; Spark's own default has one attempt on this machine.
LOCAL = "local[*,4]"
#: With this code a site's process ends that is to be started again: Spark's Java process is gone.
START_AGAIN = 75
_LOOK_S = 0.1
#: A query that fails so often in a row, without a batch in between, has a reason.
_ATTEMPTS = 5


#: What is said where Spark's Java process is not there any more.
_GONE = ("Py4JNetworkError", "Connection refused", "Java process has ended", "stopped SparkContext")


class SparkGoneError(SituError):
    """Spark's Java process has ended: the site's process has to be started again."""


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """How a site runs Spark."""

    directory: Path
    master: str = LOCAL
    conf: Mapping[str, str] = field(default_factory=dict)
    trigger_ms: int = 100
    keys: str = ""

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")


@dataclass
class _Running:
    query: SiteQuery
    failures: int = 0
    batches_at_failure: int = -1


class SparkQueries:
    """Runs the query of each version that is `wanted`. `give` tells the core an event, `fail` that nothing goes on."""

    def __init__(
        self,
        engine: SparkEngine,
        logs: LogAddress,
        give: Callable[[BatchMade], None],
        fail: Callable[[Exception], None],
        say: Callable[[str], None],
    ) -> None:
        self._engine, self._logs, self._give, self._fail, self._say = engine, logs, give, fail, say
        self.readable: dict[int, Offsets] = {}
        self.restarts, self.started_s = 0, 0.0
        self._wanted: dict[int, str] = {}
        self._running: dict[int, _Running] = {}
        self._taken: dict[tuple[int, int], threading.Event] = {}
        self._closed, self._changed = threading.Event(), threading.Event()
        self._session: Any = None
        self._thread = threading.Thread(target=self._run, name="situ-spark", daemon=True)
        self._thread.start()

    # ---- from the core's thread

    def want(self, plans: Mapping[int, str]) -> None:
        """The versions, with their plans as JSON, that have operators here."""
        if plans.keys() != self._wanted.keys():
            self._wanted = dict(plans)
            self._changed.set()

    def taken(self, version: int, number: int) -> None:
        """The core has a batch on disk."""
        if (waiting := self._taken.get((version, number))) is not None:
            waiting.set()

    def figures(self) -> dict[str, Any]:
        """What `situ status` shows of Spark."""
        return {
            "started": self._session is not None,
            "start_s": round(self.started_s, 3),
            "restarts": self.restarts,
            "batches": {str(v): running.query.batches for v, running in sorted(self._running.items())},
        }

    def close(self) -> None:
        self._closed.set()
        self._changed.set()
        self._thread.join(10.0)

    # ---- in a thread of Spark's

    def _hand_over(self, batch: BatchMade) -> None:
        """Give a batch to the core, and wait until it is on disk."""
        taken = self._taken[batch.version, batch.number] = threading.Event()
        try:
            self._give(batch)
            while not taken.wait(_LOOK_S):
                if self._closed.is_set() or batch.version not in self._wanted:
                    raise StateError(f"the site ends before it has batch {batch.number}")
        finally:
            del self._taken[batch.version, batch.number]

    # ---- in the thread of the queries

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                self._look()
                self._changed.wait(_LOOK_S)
                self._changed.clear()
        except ConnectionError:
            self._fail(SparkGoneError("Spark's Java process has ended", remedy="What it printed above says more."))
        except Exception as error:
            self._fail(SparkGoneError(_gone_in_words(error)) if _is_gone(error) else error)
        finally:
            self._end()

    def _look(self) -> None:
        wanted = dict(self._wanted)
        for version in [version for version in self._running if version not in wanted]:
            self._running.pop(version).query.stop()
            shutil.rmtree(self._checkpoint(version), ignore_errors=True)
        for version, plan in wanted.items():
            if version not in self._running:
                self._running[version] = _Running(self._started(version, plan))
        for version, running in self._running.items():
            if (error := running.query.failure()) is not None:
                self._running[version] = self._again(version, wanted[version], running, error)

    def _checkpoint(self, version: int) -> Path:
        return self._engine.directory / f"version-{version}"

    def _started(self, version: int, plan: str) -> SiteQuery:
        from situ.runtime.spark.session.errors import spark_errors
        from situ.runtime.spark.site_query import SiteQuery

        if self._session is None:
            self._start_spark()
        begun = time.perf_counter()
        query = SiteQuery(
            self._session, plan, self._logs, self._checkpoint(version), self._hand_over, self._engine.trigger_ms
        )
        with spark_errors(f"the query of version {version} does not start"):
            query.start()
        self._say(f"the query of version {version} runs on Spark after {time.perf_counter() - begun:.1f} s")
        return query

    def _start_spark(self) -> None:
        from situ.runtime.spark.session.session import spark_session

        self._say("starting Spark ...")
        begun = time.perf_counter()
        # On this machine, more shards than cores would only be more tasks in each batch.
        here = {"spark.sql.shuffle.partitions": str(os.cpu_count() or 1)} if self._engine.is_local else {}
        self._session = spark_session(self._engine.master, here | dict(self._engine.conf))
        self.started_s = time.perf_counter() - begun

    def _again(self, version: int, plan: str, running: _Running, error: Exception) -> _Running:
        """Start a query again that has failed, unless the reason will not go away."""
        if isinstance(error, StateError) or _is_gone(error):
            raise error
        has_moved = running.query.batches != running.batches_at_failure
        failures = 1 if has_moved else running.failures + 1
        if failures >= _ATTEMPTS:
            raise error
        self.restarts += 1
        self._say(f"the query of version {version} has failed, and is started again: {error}")
        running.query.stop()
        return _Running(self._started(version, plan), failures, 0)

    def _end(self) -> None:
        for running in self._running.values():
            try:
                running.query.stop()
            except Exception as error:  # it ends anyway; what is not done is done again at the next start
                self._say(f"a query could not be stopped: {_gone_in_words(error)}")


def _is_gone(error: Exception) -> bool:
    """Whether Spark's Java process is there no more."""
    text = f"{type(error).__name__} {error} {type(error.__cause__).__name__}"
    return any(word in text for word in _GONE)


def _gone_in_words(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
