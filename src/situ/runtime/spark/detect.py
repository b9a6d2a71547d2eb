"""A query over DataFrames: `situ.detect`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cached_property, reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from situ.core.errors import InputError, SituWarning, did_you_mean
from situ.core.functions import Function, Functions
from situ.core.functions import default as default_functions
from situ.core.time import format_duration, time_to_micros
from situ.graph.describe import schema_text
from situ.graph.html import svg_to_image, table_to_html
from situ.graph.operators import OperatorGraph
from situ.graph.picture import to_svg
from situ.graph.query import Query, Stream
from situ.kernel.batch import EXTENT
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.lang.resolve import warnings as warnings_of
from situ.reuse.totals import Totals
from situ.runtime.spark.detect_stream import detect_stream
from situ.runtime.spark.inputs.dataframes import dataframes_by_stream
from situ.runtime.spark.inputs.files import rejected_in_tasks
from situ.runtime.spark.inputs.little import one_task_is_enough
from situ.runtime.spark.inputs.own_files import Files, OwnFiles, divided, one_task_each, open_files, slices_in_place
from situ.runtime.spark.inputs.plain_files import plain_files
from situ.runtime.spark.inputs.tables import (
    JudgedRows,
    StreamInput,
    dataframe_to_input,
    dataframe_to_rows,
    nothing_rejected,
)
from situ.runtime.spark.plan.crossing import column, crossing
from situ.runtime.spark.plan.partitioning import OneTask
from situ.runtime.spark.plan.plan import SparkPlan, plan_on_spark
from situ.runtime.spark.plan.sliced_keys import with_sliced_keys
from situ.runtime.spark.session.functions import functions_used
from situ.runtime.spark.session.sliced_keys import keys_are_sliced
from situ.runtime.spark.session.tallies import tallies_setting
from situ.runtime.spark.session.task_memory import memory_setting
from situ.runtime.spark.session.workers import require_situ_on_workers
from situ.runtime.spark.stages.batch_stage import Packer, StageRun
from situ.runtime.spark.stages.metrics import observed
from situ.runtime.spark.stages.output import (
    CALLS,
    COMPLEX_EVENT,
    FAILED_CALL,
    FIGURES,
    KINDS,
    LATE,
    LATENESS,
    REASONS,
    REJECTED,
    REUSE,
    TIMED_OUT,
    TOTALS,
    TaggedOutput,
)
from situ.runtime.spark.stages.restart import AS_BEFORE, Restart
from situ.runtime.spark.stages.shards import PACKETS, begin_packets
from situ.runtime.spark.stages.slice_run import SliceRun
from situ.runtime.spark.stages.split_packer import SplitPacker
from situ.runtime.spark.stages.timed_task import in_task

#: A character that stands in no name.
_BETWEEN_WORDS = "\x1f"
#: Taken to run side by side where Spark does not say how many tasks do.
TASKS_AT_ONCE = 8


def detect(
    query: str | Path | Query | OperatorGraph,
    streams: Mapping[str, DataFrame | Files] | DataFrame | Files,
    functions: Functions = default_functions,
    show_definitions: bool = False,
    *,
    shards: int | None = None,
    levels: int | None = None,
    changed: Collection[str] = (),
    clock_back_to: datetime | None = None,
    start: datetime | None = None,
) -> Detection:
    """The situations that a query finds in DataFrames, one for each of its streams: by the streams' names, or by itself
    where the query has one stream only. The query may be a text, or the `Path` of a file. Files that situ opens itself,
    `situ.read(spark, "parquet", path)`, may be given instead of DataFrames that end.

    Nothing runs until Spark is asked for rows of the result. `show_definitions` gives the complex events of definitions
    too. `start` (in UTC, if it has no zone): when silences that come first begin, in rules without groups; if not
    given, with the first event.

    Streaming DataFrames give streaming DataFrames. Four settings are theirs alone. State is kept in `shards` (if not
    given, as many as `spark.sql.shuffle.partitions`), however many group keys there are. `levels` gives the checkpoint
    room for rules that regroup more often than today's. Rules named in `changed` may differ from those of the
    checkpoint, or be gone: they start afresh. A checkpoint whose clock followed an event with a wrong time, far ahead,
    goes back to `clock_back_to` (in UTC, if it has no zone), once. The time between two calls is no silence of streams
    that may be idle, so call this before every start.
    """
    parsed = parse(query) if isinstance(query, str | Path) else query
    graph = parsed if isinstance(parsed, OperatorGraph) else resolve(parsed, functions)
    if start is not None:
        graph = replace(graph, start_us=time_to_micros(start))
    for message in warnings_of(graph):
        warnings.warn(message, SituWarning, stacklevel=2)
    given = dataframes_by_stream(graph, streams)
    endless = {name: df for name, df in given.items() if isinstance(df, DataFrame) and df.isStreaming}
    if not endless:
        inputs = {stream.name: _opened(given[stream.name], stream) for stream in graph.streams}
        return detect_inputs(graph, inputs, functions, show_definitions)
    if bounded := [name for name in given if name not in endless]:
        raise InputError(
            f"the DataFrame of stream {bounded[0]} ends, and that of {next(iter(endless))} is a stream that does not",
            remedy="Make all of them streaming (spark.readStream) or none. To look rows up in a table, join it first.",
        )
    rows = {stream.name: dataframe_to_rows(endless[stream.name], stream) for stream in graph.streams}
    back_to_us = None if clock_back_to is None else time_to_micros(clock_back_to)
    restart = Restart(frozenset(changed), (time.time(),), back_to_us)
    return detect_rows(graph, rows, functions, show_definitions, shards=shards, levels=levels, restart=restart)


def detect_rows(
    graph: OperatorGraph,
    rows: Mapping[str, JudgedRows],
    functions: Functions = default_functions,
    show_definitions: bool = False,
    *,
    shards: int | None = None,
    levels: int | None = None,
    restart: Restart = AS_BEFORE,
) -> Detection:
    """The same for rows of streams that have been judged."""
    detected = detect_stream(graph, rows, functions, show_definitions, shards, levels, restart)
    return Detection(detected.plan, detected.output, detected.rows, None)


def _opened(given: DataFrame | Files, stream: Stream) -> StreamInput | OwnFiles:
    if isinstance(given, Files):
        return open_files(given.spark, given.path, stream)
    return plain_files(given, stream) or dataframe_to_input(given, stream)


def detect_inputs(
    graph: OperatorGraph,
    inputs: Mapping[str, StreamInput | OwnFiles],
    functions: Functions = default_functions,
    show_definitions: bool = False,
    timed: bool = False,
) -> Detection:
    """The same for rows that have been checked against the declarations of their streams, and for files whose footers
    have been. `timed`: tasks say how long they took for what."""
    session = _session_of(next(iter(inputs.values())))
    require_situ_on_workers(session)
    used = functions_used(graph, functions)
    tallies = not show_definitions and tallies_setting(session)
    plan = plan_on_spark(graph, functions, tallies=tallies)
    own = {read.stream.name: i for read in plan.reads if isinstance(i := inputs[read.stream.name], OwnFiles)}
    rejecting = tuple(name for name, files in own.items() if files.may_reject)
    output = TaggedOutput.of(plan.contexts(functions), show_definitions, used, (), plan.reuses, rejecting, timed)
    slice_run = None if used else slices_in_place(plan, own, output, _tasks_at_once(session))
    if slice_run is not None:
        schema = from_arrow_schema(pa.schema(list(output.fields.items())))
        found = one_task_each(session, len(slice_run.slices)).mapInArrow(
            in_task(slice_run, "run", "slices", output), schema
        )
    else:
        plan = with_sliced_keys(plan) if keys_are_sliced(session) else plan
        found = _shuffled(graph, plan, inputs, functions, output, used, session)
    rejected = [
        input_.rejected
        if isinstance(input_, StreamInput)
        else rejected_in_tasks(session, input_.root, input_.paths, input_.stream)
        for name, input_ in inputs.items()
        if name not in own
    ]
    by_files = tuple(_in_words(name, files, slice_run) for name, files in own.items())
    return Detection(plan, output, found, reduce(DataFrame.union, rejected) if rejected else None, by_files)


def _in_words(stream: str, files: OwnFiles, slice_run: SliceRun | None) -> str:
    """How the files of a stream are read."""
    if slice_run is None:
        return f"files of {stream}: {len(files.splits):,} splits, packed by the tasks that read them"
    count = len(slice_run.slices)
    after = f", {'each ' * (count > 1)}with the {format_duration(slice_run.reach_us)} that follow"
    slices = f"{count:,} slice{'s' * (count > 1)} of time{after * (slice_run.reach_us > 0)}"
    return f"files of {stream}: {slices}; nothing is shuffled"


def _session_of(given: StreamInput | OwnFiles) -> SparkSession:
    return given.spark if isinstance(given, OwnFiles) else given.events.sparkSession


def _shuffled(
    graph: OperatorGraph,
    plan: SparkPlan,
    inputs: Mapping[str, StreamInput | OwnFiles],
    functions: Functions,
    output: TaggedOutput,
    used: tuple[Function, ...],
    session: SparkSession,
) -> DataFrame:
    """Packets of all streams, and the stages one after the other. Where there is little to read, one task does it."""
    tables = {
        read.stream.name: crossing(input_.events, read, graph, functions)
        for read in plan.reads
        if isinstance(input_ := inputs[read.stream.name], StreamInput)
    }
    files = [i for read in plan.reads if isinstance(i := inputs[read.stream.name], OwnFiles)]
    is_little = one_task_is_enough(session, [*tables.values()], sum(opened.rows for opened in files))
    shards = 1 if is_little else int(session.conf.get("spark.sql.shuffle.partitions") or 200)
    tasks = _tasks_at_once(session)
    moving_shards = min(shards, tasks)
    packed = []
    for read in plan.reads:
        input_, packer = inputs[read.stream.name], Packer(read, plan, shards, moving_shards)
        place = f"read {read.stream.name}"
        if isinstance(input_, OwnFiles):
            split_packer = SplitPacker(packer, input_.root, divided(input_.splits, tasks), output)
            rows, task = (
                one_task_each(session, len(split_packer.tasks)),
                in_task(split_packer, "pack", place, output, shards),
            )
        else:
            rows, task = tables[read.stream.name], in_task(packer, "pack", place, output, shards)
        packed.append(rows.mapInArrow(task, PACKETS))
    if plan.beginning_stages:
        words = begin_packets(plan.beginning_stages, OneTask.shard).to_pylist()
        packed.append(session.createDataFrame(words, PACKETS))
    packets = reduce(DataFrame.union, packed)
    for stage in plan.stages:
        run = StageRun(plan, stage.number, shards, moving_shards, output, used, memory_setting(session))
        schema = from_arrow_schema(pa.schema(list(output.fields.items()))) if run.is_last else PACKETS
        task = in_task(run, "run", f"stage {stage.number + 1}", output, None if run.is_last else shards)
        met = packets.coalesce(1) if is_little else packets.repartition("shard")
        packets = met.mapInArrow(task, schema)
    return packets


def _tasks_at_once(session: SparkSession) -> int:
    """How many tasks run side by side, if Spark says so: a remote session does not."""
    context = getattr(session, "sparkContext", None)
    return TASKS_AT_ONCE if context is None else int(context.defaultParallelism)


def _spelt(column: str, words: tuple[str, ...]) -> Column:
    """Numbers as the words that they stand for. An array of literals would take several calls to Java for each word;
    Spark splits this one before anything runs."""
    return F.element_at(F.split(F.lit(_BETWEEN_WORDS.join(words)), _BETWEEN_WORDS), F.col(column) + F.lit(1))


@dataclass(frozen=True, repr=False)
class Detection:
    """What a query finds, as DataFrames: `detection["Name"]` has the complex events of a subscription.

    Each of them runs when Spark is asked for its rows; `events` has all of them at the price of one run.
    """

    plan: SparkPlan
    output: TaggedOutput
    found: DataFrame
    rejected_rows: DataFrame | None  # those that are not among `found`
    files: tuple[str, ...] = ()  # how files that situ opens itself are read, in words

    @property
    def events(self) -> DataFrame:
        """Everything in one table: `_kind` and `_name` say what a row is."""
        spelt = {"_kind": _spelt("_kind", KINDS), "_name": _spelt("_name", self.output.names)}
        if self.found.isStreaming:
            kept = observed(self.found, self.plan.reuses).filter(F.col("_kind") != KINDS.index(FIGURES))
            return kept.drop("_figures").withColumns(spelt)
        # Columns that no task has anything for do not cross.
        if CALLS not in self.output.fields:
            spelt[CALLS] = F.lit(None).cast("bigint")
        if self.rejected_rows is None:
            if not self.output.rejecting:
                spelt |= dict.fromkeys(REASONS, F.lit(None).cast("string"))
            return self.found.withColumns(spelt)
        tags = [F.lit(REJECTED).alias("_kind"), F.col("_stream").alias("_name")]
        rejected = self.rejected_rows.select(*tags, *REASONS)
        return self.found.withColumns(spelt).unionByName(rejected, allowMissingColumns=True)

    @property
    def names(self) -> tuple[str, ...]:
        """The subscriptions, and the definitions if they are shown."""
        return self.output.shown

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self.names:
            raise KeyError(f"no subscription {name!r} in the query. {did_you_mean(name, self.names)}")
        return self._rows(COMPLEX_EVENT, name)

    @cached_property
    def timed_out(self) -> dict[str, DataFrame]:
        """For each rule that says `report timed out`, partial matches whose window passed."""
        return {o.name: self._rows(TIMED_OUT, o.name) for o in self.output.operators if o.rule.timed_out}

    @property
    def rejected(self) -> DataFrame:
        """Rows that do not fit the declaration of their stream, and why."""
        parts = [] if self.rejected_rows is None else [self.rejected_rows]
        if self.found.isStreaming or self.output.rejecting:
            parts.append(self._of_kind(REJECTED).select(self._stream, *REASONS))
        return reduce(DataFrame.union, parts) if parts else nothing_rejected(self.found.sparkSession)

    @property
    def late(self) -> DataFrame:
        """Events of streaming DataFrames that came too late for rules that would have read them: `_row` has the
        attributes that the query reads, `_lateness` is how far time had come beyond `_time`."""
        if not self.found.isStreaming:
            raise InputError("a table is sorted, so none of its rows are late", remedy="Ask streaming DataFrames only.")
        return self._of_kind(LATE).select(self._stream, "_time", LATENESS, "_row")

    def _of_kind(self, kind: str) -> DataFrame:
        return self.found.filter(F.col("_kind") == KINDS.index(kind))

    @property
    def _stream(self) -> Column:
        return _spelt("_name", self.output.names).alias("_stream")

    @property
    def failed_calls(self) -> DataFrame:
        """How many calls of each function of yours failed, and so gave null."""
        failed = self._of_kind(FAILED_CALL)
        function = _spelt("_name", self.output.names).alias("function")
        calls = F.col(CALLS) if CALLS in self.output.fields else F.lit(0).cast("bigint")  # then there are no rows
        return failed.groupBy(function).agg(F.sum(calls).alias("calls"))

    @property
    def reuse(self) -> DataFrame:
        """Of tables: what consumers have shared, a row for each subscription that asks for a quality. Precision and
        recall are means over the spans that others' regions served."""
        if not self.output.reuses or self.found.isStreaming:
            raise InputError(
                "no subscription of this query shares anything, or not all of it is there yet",
                remedy="Ask for a `quality`, and of tables; a stream says it in its progress.",
            )
        name = _spelt("_name", self.output.names).alias("subscription")
        sums = {f.name: F.sum(f"{TOTALS}.{f.name}") for f in fields(Totals)}
        served = F.greatest(sums["spans"], F.lit(1))
        means = {
            name: F.when(sums["spans"] > 0, sums[name] / served).otherwise(1.0) for name in ("precision", "recall")
        }
        return self._of_kind(REUSE).groupBy(name).agg(*(c.alias(n) for n, c in (sums | means).items()))

    def _rows(self, kind: str, name: str) -> DataFrame:
        (operator,) = (o for o in self.output.operators if o.name == name)
        numbers = KINDS.index(kind), self.output.names.index(name)
        rows = self.found.filter((F.col("_kind") == numbers[0]) & (F.col("_name") == numbers[1]))
        attributes = [column(self.output.columns[name, a][0]).alias(a) for a in operator.schema.names]
        extent = EXTENT if name in self.output.located else ()
        return rows.select(*attributes, "_time", *extent)

    def __str__(self) -> str:
        return "\n".join((*self.files, str(self.plan)))

    def __repr__(self) -> str:
        """The subscriptions and their columns; `print` shows the plan."""
        schemas = {operator.name: operator.schema for operator in self.output.operators}
        shown = ", ".join(f"{name}({schema_text(schemas[name])})" for name in self.names)
        return f"Detection({shown}{', of streams that do not end' * self.found.isStreaming})"

    def _repr_html_(self) -> str:
        """The graph as a picture, the subscriptions and their columns, and the plan for who asks for it."""
        graph = self.plan.graph
        located = {name: ", ".join(("_time", *(EXTENT if name in self.output.located else ()))) for name in self.names}
        rows = [
            (f'detection["{operator.name}"]', schema_text(operator.schema), located[operator.name])
            for operator in self.output.operators
            if operator.name in located
        ]
        return (
            svg_to_image(to_svg(graph), repr(graph))
            + table_to_html("DataFrames, which run when they are asked for rows", ("", "columns", "and"), rows)
            + self.plan._repr_html_()
        )
