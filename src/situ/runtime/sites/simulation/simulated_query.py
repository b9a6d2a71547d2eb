"""A streaming query of Spark in the simulation: the packer and the stages that Spark would run, its checkpoint, and
batches that are redone. What Spark does in between, this does by hand."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from situ.runtime.sites.actions import BatchMade
from situ.runtime.sites.batches import Offsets, next_offsets, parts_of_batch
from situ.runtime.sites.journal import Journal
from situ.runtime.sites.rows import read_rows
from situ.runtime.spark.plan.site_plan import site_plan
from situ.runtime.spark.stages.shards import FINISHED
from situ.runtime.spark.stages.site_stage import SitePacker, SiteStage, batch_of_packets
from situ.runtime.spark.stages.stream_stage import Packet

#: The states of shards, by stage and shard.
States = dict[tuple[int, int], bytes]


@dataclass
class SimulatedCheckpoint:
    """What survives a kill: the offsets of all batches that were planned, how many are done, and the states after
    them."""

    planned: list[tuple[Offsets, Offsets]] = field(default_factory=list)
    done: int = 0
    states: States = field(default_factory=dict)


@dataclass
class SimulatedQuery:
    """The query of one version at one site. `plan` is JSON."""

    plan: str
    site: str
    shards: int
    checkpoint: SimulatedCheckpoint
    journal: Journal
    random: random.Random

    def plan_batch(self, readable: Offsets) -> bool:
        """Plan the next batch, unless one is planned and not done; whether there is one."""
        checkpoint = self.checkpoint
        if checkpoint.done < len(checkpoint.planned):
            return True
        since: Offsets = checkpoint.planned[-1][1] if checkpoint.planned else {}
        most_bytes = self.random.choice([1, 2000, 1 << 20])
        until = next_offsets(since, readable, self.journal.stubs_between, most_bytes)
        if until == since:
            return False
        checkpoint.planned.append((since, until))
        return True

    def make_batch(self) -> tuple[BatchMade, States]:
        """What the planned batch makes, and the states after it, which are not the checkpoint's yet."""
        number = self.checkpoint.done
        since, until = self.checkpoint.planned[number]
        packer = SitePacker(self.plan, self.site, self.shards)
        planned = site_plan(self.plan, self.site)
        packets = list(_packets(packer.told(since, until)))
        part_bytes = self.random.choice([1, 3000, 1 << 20])
        for part in parts_of_batch(since, until, self.journal.stubs_between, part_bytes):
            for range_ in part:
                for stub in self.journal.stubs_between(*range_):
                    rows = read_rows(self.journal.rows(range_.log, stub.first))
                    packets += _packets(packer.packets(range_.log.type, rows))
        states = dict(self.checkpoint.states)
        for stage in planned.stages.stages:
            packets = list(self._run(SiteStage(self.plan, self.site, stage.number, self.shards), packets, states))
        assert all(packet.stage == FINISHED for packet in packets)
        self.random.shuffle(packets)
        return batch_of_packets(planned, number, packets), states

    def _run(self, stage: SiteStage, packets: list[Packet], states: States) -> Iterator[Packet]:
        arrived: dict[int, list[Packet]] = defaultdict(list)
        for packet in packets:
            if packet.stage == stage.number:
                arrived[packet.shard].append(packet)
            else:
                yield packet
        shards = list(arrived)
        self.random.shuffle(shards)
        for shard in shards:
            self.random.shuffle(arrived[shard])
            step = stage.step(shard, states.get((stage.number, shard)), arrived[shard])
            states[stage.number, shard] = step.state
            yield from _packets(step.packets)

    def commit(self, number: int, states: States) -> None:
        """The site has taken a batch: it is done."""
        assert number == self.checkpoint.done
        self.checkpoint.done, self.checkpoint.states = number + 1, states


def _packets(batches: Iterable[pa.RecordBatch]) -> Iterator[Packet]:
    for batch in batches:
        for row in batch.to_pylist():
            yield Packet(**row)
