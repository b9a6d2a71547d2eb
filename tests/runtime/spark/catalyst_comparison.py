"""The same expressions over the same rows, by Catalyst and by the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.random_expressions import SCHEMA, SCOPE
from situ.graph.expressions import Expression, rename_alias
from situ.graph.typing import THIS, Scope
from situ.kernel.columns.evaluate import EventRows, evaluate
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.lang.unparse import unparse_expression

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

STREAM = f"stream A({', '.join(f'{name} {type_}' for name, type_ in SCHEMA.attributes)}) time at"


def parsed(text: str) -> Expression:
    """An expression of the language about the event `a`, with the alias that a condition has."""
    graph = resolve(parse(f"{STREAM} subscribe S detect A as a assign r = {text}"))
    return rename_alias(graph.operators[0].rule.cases[0].assign[0].expression, "a", THIS)


@dataclass(frozen=True)
class Table:
    """The same rows for the kernel and for Spark."""

    rows: EventRows
    frame: DataFrame

    @classmethod
    def of(cls, spark: SparkSession, path: Path, events: pa.RecordBatch, times: pa.Array, **options: Any) -> Table:
        columns = {name: events.column(name) for name in events.schema.names}
        numbered = pa.table({**columns, "_time": times.cast(pa.int64()), "_row": range(len(times))})
        pq.write_table(numbered, path, **options)
        return cls(EventRows(THIS, events, times), spark.read.parquet(str(path)))


def column_of(expression: Expression, scope: Scope = SCOPE) -> Column | None:
    from pyspark.sql import functions as F

    from situ.runtime.spark.catalyst.conditions import expression_to_column

    return expression_to_column(expression, scope, F.col, F.col("_time"))


def differences(expressions: Sequence[Expression], table: Table, scope: Scope = SCOPE) -> Iterator[str]:
    """Where Spark and the kernel differ; 80 columns at a time, which is few enough for code generation."""
    said = [(expression, column_of(expression, scope)) for expression in expressions]
    columns = [(expression, column) for expression, column in said if column is not None]
    for first in range(0, len(columns), 80):
        part = columns[first : first + 80]
        frame = table.frame.select("_row", *(column.alias(f"r{n}") for n, (_, column) in enumerate(part)))
        found = frame.toArrow().sort_by("_row")
        for n, (expression, _) in enumerate(part):
            expected = evaluate(expression, table.rows)
            if pa.types.is_timestamp(expected.type) or pa.types.is_duration(expected.type):
                expected = expected.cast(pa.int64())
            elif pa.types.is_null(expected.type):
                expected = expected.cast(pa.bool_())
            actual = found[f"r{n}"].combine_chunks()
            pairs = zip(exact(actual), exact(expected), strict=True)
            rows = [f"{a!r}, not {e!r} in row {row}" for row, (a, e) in enumerate(pairs) if a != e]
            if rows or actual.type != expected.type:
                yield f"{unparse_expression(expression)} ({actual.type}, {expected.type}): {rows[:3]}"


def exact(values: pa.Array) -> list[Any]:
    """Doubles by their bits: -0.0 is not 0.0, and one NaN is as good as another."""
    return [value.hex() if isinstance(value, float) else value for value in values.to_pylist()]
