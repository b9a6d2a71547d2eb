"""The operators of a version at a site as a streaming query of Spark: logs of the site in, batches for its core out."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from situ.core.errors import SituError, StateError
from situ.io.permissions import PRIVATE
from situ.io.whole_file import write_whole
from situ.runtime.sites.actions import BatchMade
from situ.runtime.sites.wire.reading import LogAddress
from situ.runtime.spark.detect_stream import keyed_by_shard, require_rocksdb
from situ.runtime.spark.follow.query_errors import INTERRUPTED, query_error
from situ.runtime.spark.inputs.site_logs import FORMAT, SiteDataSource
from situ.runtime.spark.plan.site_plan import site_plan
from situ.runtime.spark.session.errors import spark_exceptions
from situ.runtime.spark.session.query_settings import EMPTY_BATCHES, setting_for_queries
from situ.runtime.spark.session.task_memory import memory_setting
from situ.runtime.spark.session.versions import require_site_streams
from situ.runtime.spark.session.workers import require_python_beside_driver, require_situ_on_workers
from situ.runtime.spark.stages.shard_processor import ShardProcessor
from situ.runtime.spark.stages.shards import PACKETS, even_keys
from situ.runtime.spark.stages.shipped import Shipped
from situ.runtime.spark.stages.site_stage import SiteStage, batch_of_packets
from situ.runtime.spark.stages.stream_stage import Packet

#: What a checkpoint says of itself, beside Spark's own files.
_ABOUT = "site.json"


@dataclass
class SiteQuery:
    """A query that runs until it is stopped or fails. `plan` is JSON. `give` hands a batch to the core of the site, and
    returns when it is on disk."""

    session: SparkSession
    plan: str
    logs: LogAddress
    checkpoint: Path
    give: Callable[[BatchMade], None]
    trigger_ms: int
    error: Exception | None = None
    batches: int = 0
    _query: StreamingQuery | None = None
    _stopped: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Start it; StateError if the checkpoint is that of another site or plan."""
        require_site_streams(self.session.version)
        require_situ_on_workers(self.session)
        require_python_beside_driver(self.session)
        require_rocksdb(self.session)
        planned = site_plan(self.plan, self.logs.site)
        shards = self._opened(planned.compiled.plan.version, planned.compiled.plan.digest)
        stages = [
            SiteStage(self.plan, self.logs.site, stage.number, shards, memory_setting(self.session))
            for stage in planned.stages.stages
        ]
        threading.Thread(target=_start_workers, args=(self.session, stages), name="situ-workers", daemon=True).start()
        self.session.dataSource.register(SiteDataSource)
        options = {
            "site": self.logs.site,
            "address": self.logs.address,
            "keys": self.logs.keys,
            "version": str(planned.compiled.plan.version),
            "plan": self.plan,
            "shards": str(shards),
        }
        packets = self.session.readStream.format(FORMAT).options(**options).load()
        keys = even_keys(shards)
        for stage in stages:
            packets = keyed_by_shard(packets, keys).transformWithState(
                ShardProcessor(stage, keys, idle=False), PACKETS, "Append", "None"
            )
        writer = packets.writeStream.foreachBatch(self._write).queryName(self.checkpoint.name)
        writer = writer.option("checkpointLocation", str(self.checkpoint / "spark"))
        # A batch without offsets of its own has nothing to tell.
        with setting_for_queries(self.session, EMPTY_BATCHES, "false"):
            self._query = writer.trigger(processingTime=f"{self.trigger_ms} milliseconds").start()

    def _opened(self, version: int, digest: str) -> int:
        """The number of shards: as the checkpoint says, or, of a new one, as the session does."""
        file = self.checkpoint / _ABOUT
        about = {"site": self.logs.site, "version": version, "plan": digest}
        if not file.exists():
            shards = int(self.session.conf.get("spark.sql.shuffle.partitions") or 200)
            PRIVATE.make_directory(self.checkpoint)
            write_whole(file, json.dumps(about | {"shards": shards}))
            return shards
        said = json.loads(file.read_text(encoding="utf-8"))
        if {name: said.get(name) for name in about} != about:
            raise StateError(
                f"this is the checkpoint of version {said.get('version')} at site {said.get('site')!r}, and not of "
                f"version {version} at {self.logs.site!r}",
                place=str(self.checkpoint),
                remedy="Give each site a directory of its own, and leave what is in it as it is.",
            )
        return int(said["shards"])

    def _write(self, packets: DataFrame, number: int) -> None:
        """What a batch made, for the core."""
        try:
            made = _packets(packets.toArrow())
            self.give(batch_of_packets(site_plan(self.plan, self.logs.site), number, made))
            self.batches += 1
        except Exception as error:
            if not self._stopped.is_set():
                self.error = error if isinstance(error, SituError) else query_error(str(error))
            # Spark looks through what is raised for these words, with an expression that long texts overflow.
            raise InterruptedError(INTERRUPTED) from None

    def failure(self) -> Exception | None:
        """Why the query has ended, if it has and nobody has stopped it."""
        query = self._query
        if query is None or query.isActive or self._stopped.is_set():
            return None
        if self.error is not None:
            return self.error
        raised = query.exception()
        return query_error("it ended by itself" if raised is None else str(raised))

    def stop(self) -> None:
        self._stopped.set()
        if self._query is not None:
            self._query.stop()


def _start_workers(session: SparkSession, stages: list[SiteStage]) -> None:
    """Let Spark start its Python workers, and these compile, while the driver plans the query: both take seconds."""
    tasks = session.sparkContext.defaultParallelism
    with suppress(*spark_exceptions(), ConnectionError):  # the query's own tasks find out, and say it
        for stage in stages:
            session.range(0, tasks, 1, tasks).mapInArrow(Shipped.of(stage, "prepare"), "id long").collect()


def _packets(table: pa.Table) -> Iterator[Packet]:
    for batch in table.to_batches():
        for row in batch.to_pylist():
            yield Packet(**row)
