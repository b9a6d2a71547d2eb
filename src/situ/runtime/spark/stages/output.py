"""What comes out of Spark: one table of all complex events, tagged, and how to read one subscription from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property

import numpy as np
import pyarrow as pa

from situ.core.functions import Function
from situ.core.types import INT, NULL, STRING, TIMESTAMP_ARROW, Type, to_arrow
from situ.graph.operators import Operator
from situ.kernel.arrays import I64
from situ.kernel.batch import EXTENT, Batch, as_timestamps
from situ.kernel.operator import Context
from situ.reuse.totals import Totals

COMPLEX_EVENT, TIMED_OUT, FAILED_CALL = "complex event", "timed out", "failed call"
REJECTED, LATE, FIGURES, REUSE, TIMING = "rejected", "late", "figures", "reuse", "timing"
#: Kinds cross from Python as their number here.
KINDS = (COMPLEX_EVENT, TIMED_OUT, FAILED_CALL, REJECTED, LATE, FIGURES, REUSE, TIMING)

#: The columns of a failed call beside its name, of a rejected row, and of a late one.
CALLS = "_calls"
REASONS = ("_reason", "_row", "_place")
LATENESS = "_lateness"
#: How long a task was at a hop: what it did, and where.
HOP, SECONDS = "_hop", "_seconds"
#: What a task has shared for a subscription: see `situ.reuse.totals`.
TOTALS = "_totals"
TOTALS_TYPE = pa.struct([(f.name, pa.float64() if f.type == "float" else pa.int64()) for f in fields(Totals)])

#: What one shard of a stage reports of one step: not for users, but for the metrics of a streaming query.
#: `input` counts rows that were read, `events` those that reached the shard; `reuse` is what subscriptions that share
#: have shared in this step; latencies are from the time of complex events to the moment in which they were found.
#: A row has a list of one. All others have null, which is 4 bytes there; a null struct has all the bytes of a full one.
_FIGURES = pa.struct(
    [
        ("stage", pa.int32()),
        ("shard", pa.int32()),
        ("input", pa.int64()),
        ("events", pa.int64()),
        ("duplicates", pa.int64()),
        ("reuse", TOTALS_TYPE),
        ("state_bytes", pa.int64()),
        ("busy_ms", pa.float64()),
        ("watermark", TIMESTAMP_ARROW),
        ("found", pa.int64()),
        ("latency_sum_s", pa.float64()),
        ("latency_max_s", pa.float64()),
    ]
)
FIGURES_TYPE = pa.list_(_FIGURES)


@dataclass(frozen=True)
class TaggedOutput:
    """The tagged table; `shown` are the operators whose complex events are in it.

    Attributes of one name and type share a column; where the types differ, or the names do so in case only, which
    Spark's do not, later ones are called `Subscription_attribute`.
    """

    operators: tuple[Operator, ...]
    located: frozenset[str]
    shown: tuple[str, ...]
    functions: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()  # of streaming queries, whose late and rejected rows are rows of the table, too
    reuses: bool = False
    rejecting: tuple[str, ...] = ()  # streams of tables whose rejected rows are rows of the table
    timed: bool = False  # tasks say how long they took for what

    @classmethod
    def of(
        cls,
        contexts: Mapping[str, Context],
        show_definitions: bool,
        functions: tuple[Function, ...] = (),
        streams: tuple[str, ...] = (),
        reuses: bool = False,
        rejecting: tuple[str, ...] = (),
        timed: bool = False,
    ) -> TaggedOutput:
        """The complex events of subscriptions (or of all), and what times out."""
        operators = [context.operator for context in contexts.values()]
        shown = tuple(o.name for o in operators if show_definitions or o.subscription is not None)
        is_shown = frozenset(shown)
        named = tuple(o for o in operators if o.name in is_shown or o.rule.timed_out)
        located = frozenset(o.name for o in named if contexts[o.name].located)
        names = tuple(function.name for function in functions)
        return cls(named, located, shown, names, streams, reuses, rejecting, timed)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What a row can be called; names, too, cross as numbers."""
        return (
            *(operator.name for operator in self.operators),
            *self.functions,
            *self.streams,
            *self.rejecting,
            FIGURES,
        )

    @cached_property
    def columns(self) -> dict[tuple[str, str], tuple[str, Type]]:
        """For every operator and attribute, the name and type of its column."""
        taken: dict[str, tuple[str, Type]] = {}
        columns = {}
        for operator in self.operators:
            for name, type_ in operator.schema.attributes:
                stored = STRING if type_ is NULL else type_
                column = name
                if taken.setdefault(column.lower(), (column, stored)) != (column, stored):
                    column = f"{operator.name}_{name}"
                    taken[column.lower()] = (column, stored)
                columns[operator.name, name] = (column, stored)
        return columns

    @cached_property
    def _number(self) -> dict[str, int]:
        """What a name crosses as: the first, if several things have it."""
        return {name: number for number, name in reversed([*enumerate(self.names)])}

    @cached_property
    def _columns_of(self) -> dict[str, list[tuple[str, str, Type]]]:
        """For every operator, its attributes, each with the name and type of its column."""
        of_operator: dict[str, list[tuple[str, str, Type]]] = {operator.name: [] for operator in self.operators}
        for (operator, attribute), (column, type_) in self.columns.items():
            of_operator[operator].append((attribute, column, type_))
        return of_operator

    @cached_property
    def fields(self) -> dict[str, pa.DataType]:
        """The columns of the table, as they leave Python: with numbers for tags."""
        fields = {"_kind": pa.int8(), "_name": pa.int32(), "_time": TIMESTAMP_ARROW}
        fields |= dict.fromkeys(EXTENT if self.located else (), pa.float64())
        fields |= {column: to_arrow(type_) for column, type_ in self.columns.values()}
        if self.functions or self.streams:  # a column that nobody asks for would still cross with every row
            fields |= {CALLS: to_arrow(INT)}
        fields |= {TOTALS: TOTALS_TYPE} if self.reuses else {}
        fields |= {HOP: pa.string(), SECONDS: pa.float64()} if self.timed else {}
        if self.streams or self.rejecting:
            fields |= dict.fromkeys(REASONS, pa.string())
        if self.streams:
            fields |= {LATENESS: pa.duration("us"), "_figures": FIGURES_TYPE}
        return fields

    def rows(self, kind: str, name: str, batch: Batch) -> pa.RecordBatch:
        """Complex events as rows of the table."""
        values = {"_time": as_timestamps(batch.times)}
        values |= {column: batch.columns[column] for column in EXTENT if column in batch.columns}
        for attribute, column, type_ in self._columns_of[name]:
            values[column] = batch.columns[attribute].cast(to_arrow(type_))
        return self._filled(kind, name, values, len(batch))

    def failed_calls(self, function: str, calls: int) -> pa.RecordBatch:
        return self._filled(FAILED_CALL, function, {CALLS: pa.array([calls], pa.int64())}, 1)

    def shared(self, name: str, totals: Totals) -> pa.RecordBatch:
        """What was shared for a subscription."""
        return self._filled(REUSE, name, {TOTALS: pa.array([asdict(totals)], TOTALS_TYPE)}, 1)

    def timing(self, seconds: Mapping[str, float]) -> pa.RecordBatch:
        """How long a task was at each hop."""
        values = {HOP: pa.array(seconds, pa.string()), SECONDS: pa.array(seconds.values(), pa.float64())}
        return self._filled(TIMING, FIGURES, values, len(seconds))

    def rejected(self, stream: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that do not fit their stream, with `_reason`, `_row` and `_place`."""
        return self._filled(REJECTED, stream, {name: rows.column(name) for name in REASONS}, rows.num_rows)

    def late(self, stream: str, times: I64, lateness_us: I64, rows: pa.Array) -> pa.RecordBatch:
        """Events that came too late; `rows` are their texts."""
        values = {"_time": as_timestamps(times), LATENESS: pa.array(lateness_us, pa.duration("us")), "_row": rows}
        return self._filled(LATE, stream, values, len(times))

    def figures(self, values: Mapping[str, object]) -> pa.RecordBatch:
        return self._filled(FIGURES, FIGURES, {"_figures": pa.array([[values]], FIGURES_TYPE)}, 1)

    def _filled(self, kind: str, name: str, values: dict[str, pa.Array], length: int) -> pa.RecordBatch:
        values["_kind"] = pa.array(np.full(length, KINDS.index(kind), np.int8))
        values["_name"] = pa.array(np.full(length, self._number[name], np.int32))
        columns = [values.get(column, pa.nulls(length, type_)) for column, type_ in self.fields.items()]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(list(self.fields.items())))
