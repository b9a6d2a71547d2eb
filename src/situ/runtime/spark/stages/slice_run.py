"""Slices of time, each read and detected by one task: files in, rows of the tagged table out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from situ.core.time import END
from situ.kernel.operator import Produced
from situ.runtime.embedded.pieces import StreamReader, read_in_order
from situ.runtime.spark.inputs.splits import SplitChunk, SplitFiles, SplitReader
from situ.runtime.spark.plan.plan import Read, SparkPlan
from situ.runtime.spark.plan.time_slices import TimeSlice, is_read, judged_before
from situ.runtime.spark.session.functions import loaded
from situ.runtime.spark.session.task_memory import memory_of_task
from situ.runtime.spark.stages.batch_stage import tagged
from situ.runtime.spark.stages.output import TaggedOutput
from situ.runtime.spark.stages.stage_flow import StageFlow, stage_programs


@dataclass(frozen=True)
class SliceRun:
    """Numbers of slices -> rows of the tagged table, in one step: a plan of one stage whose rules find in slices of
    time what they find in all of it (see `plan_reach_us`)."""

    plan: SparkPlan
    files: Mapping[str, SplitFiles]  # by stream
    slices: tuple[TimeSlice, ...]
    reach_us: int
    output: TaggedOutput
    memory_bytes: int | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """`id` is the number of a slice."""
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from self.detect(self.slices[number])

    def detect(self, part: TimeSlice) -> Iterator[pa.RecordBatch]:
        """What begins in a slice. Rows come in order of time, piece by piece, and go as soon as windows are over."""
        (stage,) = self.plan.stages
        own_us = part.since_us, part.until_us
        programs = stage_programs(self.plan, stage, loaded(()), owns=False, own_us=own_us, in_order=False)
        running = StageFlow.of(self.plan, stage, programs, memory_of_task(self.memory_bytes))
        ports = {name: [port for port in running.ports.values() if port.type == name] for name in self.files}
        columns_read = running.flow.columns_read
        readers = {
            read.stream.name: StreamReader(read.stream, columns_read(read.stream.name), provenance=False)
            for read in self.plan.reads
        }
        sources = {
            read.stream.name: _SliceSource(read, self.files[read.stream.name], part, self.reach_us)
            for read in self.plan.reads
        }
        is_over = False
        for piece, following in read_in_order(sources, readers):
            if piece.rejected.num_rows:
                yield self.output.rejected(piece.stream, piece.rejected.combine_chunks().to_batches()[0])
            for port in ports[piece.stream]:
                running.flow.add(port, piece.batch)
            yield from self._own(part, running.flow.advance(following))
            is_over = following == END
        if not is_over:
            yield from self._own(part, running.flow.advance(END))

    @cached_property
    def _judged_before(self) -> frozenset[str]:
        return judged_before(self.plan)

    def _own(self, part: TimeSlice, produced: Mapping[str, Produced]) -> Iterator[pa.RecordBatch]:
        """What is the slice's own of what operators gave. Those that compare events know it; what is judged of single
        events was judged of all that the task has read."""
        for name in self._judged_before & produced.keys():
            events = produced[name].events
            is_own = (events.times >= part.since_us) & (events.times < part.until_us)
            produced = {**produced, name: replace(produced[name], events=events.take(is_own))}
        yield from tagged(self.output, produced)


@dataclass(frozen=True)
class _SliceSource:
    """What a task reads of a stream, as a source. The rejected rows of a split are told by the task in whose slice it
    begins."""

    read: Read
    files: SplitFiles
    part: TimeSlice
    reach_us: int
    rows: int | None = None

    def chunks(self) -> Iterator[SplitChunk]:
        reader = SplitReader(self.read.stream, self.files.root, self.read.asked)
        since_us, until_us = self.part.since_us, self.part.until_us
        last_us = END if until_us == END else until_us + self.reach_us
        for split in self.files.splits:
            assert split.time_range is not None
            first_us, end_us = split.time_range
            if is_read(first_us, end_us, self.part, self.reach_us):
                yield SplitChunk(reader, split, since_us, last_us, rejects=since_us <= first_us < until_us)
