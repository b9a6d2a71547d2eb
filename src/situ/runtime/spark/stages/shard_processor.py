"""A stage of a streaming query as Spark runs it: one stateful operator, one key for each shard."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from situ.runtime.spark.stages.shipped import loaded_once

if TYPE_CHECKING:
    from situ.runtime.spark.stages.site_stage import SiteStage
    from situ.runtime.spark.stages.stream_stage import Packet, StreamStage

_SCHEMA_WORKER = "transform_with_state_driver_worker.py"
if (getattr(sys.modules["__main__"], "__file__", None) or "").endswith(_SCHEMA_WORKER):
    # The process that Spark asks for the schema of the state tells everything it does, on the user's terminal.
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115

_ROW = Row("stage", "shard", "route", "type", "payload")


class ShardProcessor(StatefulProcessor):
    """Keeps the state of each shard as one value of bytes. Spark knows shards by `keys`.

    `idle`: streams may be idle, so that wall time counts. Spark then gives the time of the micro-batch, which is the
    same for all shards, and when the micro-batch is repeated.

    Spark starts a process for each streaming query that only asks for the schema of the state. So that this one need
    not load the kernel, the stage travels as bytes, which are read where it first has something to do.
    """

    def __init__(self, stage: StreamStage | SiteStage, keys: Sequence[int], idle: bool) -> None:
        self.shipped: bytes = cloudpickle.dumps(stage)  # type: ignore[no-untyped-call]
        self.stage: StreamStage | SiteStage | None = None
        self.shards = {key: shard for shard, key in enumerate(keys)}
        self.idle = idle

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        # Not as a text: each task would ask Java what it means.
        self.state = handle.getValueState("shard", StructType([StructField("state", BinaryType())]))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        from situ.runtime.spark.stages.stream_stage import Packet

        stage, mine = self._loaded(), []
        for row in rows:
            packet = Packet(row.stage, row.shard, row.route, row.type, bytes(row.payload))
            if packet.stage == stage.number:
                mine.append(packet)
            else:
                yield _ROW(*astuple(packet))
        yield from self._step(self.shards[key[0]], mine, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield from self._step(self.shards[key[0]], [], timerValues)

    def _loaded(self) -> StreamStage | SiteStage:
        if self.stage is None:
            self.stage = loaded_once(self.shipped)
        return self.stage

    def _step(self, shard: int, packets: list[Packet], timer_values: Any) -> Iterator[Row]:
        now = timer_values.getCurrentProcessingTimeInMs() / 1e3 if self.idle else 0.0
        stored = self.state.get()
        result = self._loaded().step(shard, bytes(stored[0]) if stored else None, packets, now)
        self.state.update((result.state,))
        if self.idle:
            for moment in list(self.handle.listTimers()):
                self.handle.deleteTimer(moment)
            if result.idle_at is not None:
                self.handle.registerTimer(max(math.ceil(result.idle_at * 1e3), math.ceil(now * 1e3) + 1))
        for batch in result.packets:
            yield from map(_ROW, *(column.to_pylist() for column in batch.columns))

    def close(self) -> None:
        pass
