"""A query over DataFrames: `situ.detect`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from situ.core.errors import InputError, SituWarning, did_you_mean
from situ.core.functions import Functions
from situ.core.functions import default as default_functions
from situ.core.types import INT
from situ.graph.operators import OperatorGraph
from situ.graph.query import Query
from situ.graph.typing import Scope
from situ.kernel.batch import EXTENT
from situ.kernel.operator import contexts_of
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.lang.resolve import warnings as warnings_of
from situ.runtime.spark.catalyst import all_of, any_of, expression_to_column
from situ.runtime.spark.functions import functions_used
from situ.runtime.spark.inputs import StreamInput, dataframe_to_input
from situ.runtime.spark.output import CALLS, COMPLEX_EVENT, FAILED_CALL, KINDS, REASONS, REJECTED, TIMED_OUT, Output
from situ.runtime.spark.plan import Read, SparkPlan, plan_on_spark
from situ.runtime.spark.shards import PACKETS
from situ.runtime.spark.stage import MARKS_PER_COLUMN, TIME, Packer, StageRun, mark_columns


def detect(
    query: str | Query | OperatorGraph,
    streams: Mapping[str, DataFrame],
    functions: Functions = default_functions,
    show_definitions: bool = False,
) -> Detection:
    """The situations that a query finds in DataFrames, one for each of its streams.

    Nothing runs until Spark is asked for rows of the result. `show_definitions` gives the complex events of definitions
    too.
    """
    parsed = parse(query) if isinstance(query, str) else query
    graph = parsed if isinstance(parsed, OperatorGraph) else resolve(parsed, functions)
    for message in warnings_of(graph):
        warnings.warn(message, SituWarning, stacklevel=2)
    names = [stream.name for stream in graph.streams]
    for name in streams:
        if name not in names:
            raise InputError(f"no stream {name!r} in the query", remedy=did_you_mean(name, names))
    if missing := [name for name in names if name not in streams]:
        raise InputError(
            f"no DataFrame for stream {missing[0]}", remedy=f"DataFrames are needed for: {', '.join(missing)}."
        )
    for name, df in streams.items():
        if df.isStreaming:
            raise InputError(
                f"the DataFrame of stream {name} is a stream that does not end",
                remedy="Give a bounded one (spark.read, not spark.readStream), or feed a situ.Engine.",
            )
    inputs = {stream.name: dataframe_to_input(streams[stream.name], stream) for stream in graph.streams}
    return detect_inputs(graph, inputs, functions, show_definitions)


def detect_inputs(
    graph: OperatorGraph,
    inputs: Mapping[str, StreamInput],
    functions: Functions = default_functions,
    show_definitions: bool = False,
) -> Detection:
    """The same for rows that have been checked against the declarations of their streams."""
    used = functions_used(graph, functions)
    plan = plan_on_spark(graph, functions)
    output = Output.of(contexts_of(graph, functions, provenance=False), show_definitions, used)
    some = next(iter(inputs.values())).events
    shards = int(some.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
    packets: DataFrame | None = None
    for stage in plan.stages:
        parts = [] if packets is None else [packets]
        for read in stage.reads:
            crossing = _crossing(inputs[read.stream.name].events, read, graph, functions)
            packer = Packer(read, stage.routes, stage.number, shards)
            parts.append(crossing.mapInArrow(packer.pack, PACKETS))
        run = StageRun(plan, stage.number, shards, output, used)
        schema = from_arrow_schema(pa.schema(list(output.fields.items()))) if run.is_last else PACKETS
        packets = reduce(DataFrame.union, parts).repartition("shard").mapInArrow(run.run, schema)
    assert packets is not None
    rejected = reduce(DataFrame.union, [input_.rejected for input_ in inputs.values()])
    return Detection(plan, output, packets, rejected)


def _crossing(events: DataFrame, read: Read, graph: OperatorGraph, functions: Functions) -> DataFrame:
    """The rows and columns of a stream that cross to Python, under names that cannot clash."""
    schema = graph.schemas[read.stream.name]
    scope = Scope({}, functions=functions).with_this(read.stream.name, schema)

    def attribute(name: str) -> Column:
        return _column(name).cast("bigint") if schema.type_of(name) is INT else _column(name)

    def judged(number: int) -> Column:
        conditions = [expression_to_column(c, scope, attribute, _column(TIME)) for c in read.tests[number].pushed]
        return all_of([c for c in conditions if c is not None])

    tests = [judged(number) for number in range(len(read.tests))]
    if read.filtered:
        taken = sorted(frozenset[int]().union(*(taker.tests or () for taker in read.takers)))
        events = events.filter(any_of([tests[number] for number in taken]))
    marks = [_marks(tests[n * MARKS_PER_COLUMN :][:MARKS_PER_COLUMN]) for n in range(len(mark_columns(read)))]
    crossing = [_column(TIME), *marks, *(_column(name) for name in read.columns)]
    return events.select(*(column.alias(f"c{n}") for n, column in enumerate(crossing)))


def _marks(tests: list[Column]) -> Column:
    """Tests as bits of one number."""
    width = next(name for bits, name in _WIDTHS.items() if len(tests) <= bits)
    bits = [F.when(test, F.lit(1 << n).cast(width)).otherwise(F.lit(0).cast(width)) for n, test in enumerate(tests)]
    return reduce(Column.bitwiseOR, bits)


#: The narrowest integer for so many bits: every byte crosses to Python and is shuffled.
_WIDTHS = {7: "tinyint", 15: "smallint", 31: "int", MARKS_PER_COLUMN: "bigint"}


def _spelt(column: str, words: tuple[str, ...]) -> Column:
    """Numbers as the words that they stand for."""
    return F.element_at(F.array(*(F.lit(word) for word in words)), F.col(column) + F.lit(1))


def _column(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")


@dataclass(frozen=True)
class Detection:
    """What a query finds, as DataFrames: `detection["Name"]` has the complex events of a subscription.

    Each of them runs when Spark is asked for its rows; `events` has all of them at the price of one run.
    """

    plan: SparkPlan
    output: Output
    found: DataFrame
    rejected_rows: DataFrame

    @property
    def events(self) -> DataFrame:
        """Everything in one table: `_kind` and `_name` say what a row is."""
        spelt = {"_kind": _spelt("_kind", KINDS), "_name": _spelt("_name", self.output.names)}
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
        return self.rejected_rows

    @property
    def failed_calls(self) -> DataFrame:
        """How many calls of each function of yours failed, and so gave null."""
        failed = self.found.filter(F.col("_kind") == KINDS.index(FAILED_CALL))
        function = _spelt("_name", self.output.names).alias("function")
        return failed.groupBy(function).agg(F.sum(CALLS).alias("calls"))

    def _rows(self, kind: str, name: str) -> DataFrame:
        (operator,) = (o for o in self.output.operators if o.name == name)
        numbers = KINDS.index(kind), self.output.names.index(name)
        rows = self.found.filter((F.col("_kind") == numbers[0]) & (F.col("_name") == numbers[1]))
        attributes = [_column(self.output.columns[name, a][0]).alias(a) for a in operator.schema.names]
        extent = EXTENT if name in self.output.located else ()
        return rows.select(*attributes, "_time", *extent)

    def __str__(self) -> str:
        return str(self.plan)
