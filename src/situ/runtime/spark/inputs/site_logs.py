"""The logs of a site as a stream of packets: Spark asks the site how far it may read, and tasks read ranges of logs
over Arrow Flight, where they also pack them.

An offset has the position and the watermark of each log, as JSON with sorted keys; a log that is not there is at its
beginning. So time moves with offsets, also where no events come, at most once in a batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from situ.runtime.spark.stages.shards import PACKETS

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

#: The name of the format.
FORMAT = "situ-site"


class SiteDataSource(DataSource):
    """The format `situ-site`. Options: `site`, `address`, `keys` (empty without certificates), `version`, `plan` (JSON)
    and `shards`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return PACKETS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return SiteStreamReader({name.lower(): value for name, value in self.options.items()})


class SitePartition(InputPartition):
    """Ranges of logs; the first one of a batch also has its offsets."""

    def __init__(self, ranges: str, offsets: str) -> None:
        super().__init__(None)
        self.ranges, self.offsets = ranges, offsets


class SiteStreamReader(DataSourceStreamReader):
    """Beside the driver it asks the site; in tasks it reads and packs. What does that is loaded where it is needed."""

    def __init__(self, options: dict[str, str]) -> None:
        self.site, self.address, self.keys = options["site"], options["address"], options.get("keys", "")
        self.version, self.shards, self.plan = int(options["version"]), int(options["shards"]), options["plan"]

    def _logs(self) -> Any:
        from situ.runtime.sites.wire.reading import LogAddress

        return LogAddress(self.site, self.address, self.keys)

    def initialOffset(self) -> dict[str, Any]:
        return {}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return dict(self._logs().offsets(self.version, start))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        from situ.runtime.sites.wire.reading import PART_BYTES

        if start == end:
            return []
        parts = self._logs().parts(self.version, start, end, PART_BYTES)
        offsets = json.dumps([start, end])
        return [SitePartition(json.dumps(part), "" if at else offsets) for at, part in enumerate(parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from situ.runtime.sites.batches import offsets_of_json
        from situ.runtime.sites.rows import read_rows
        from situ.runtime.spark.stages.site_stage import SitePacker

        assert isinstance(partition, SitePartition)
        packer = SitePacker(self.plan, self.site, self.shards)
        if partition.offsets:
            since, until = map(offsets_of_json, json.loads(partition.offsets))
            yield from packer.told(since, until)
        ranges = json.loads(partition.ranges)
        if ranges:
            for event_type, rows in self._logs().rows(ranges):
                yield from packer.packets(event_type, read_rows(rows))
