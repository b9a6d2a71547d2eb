"""What of a DataFrame crosses to Python: Catalyst judges conditions on single events, and leaves out the rest."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from situ.core.functions import Functions
from situ.core.types import INT
from situ.graph.operators import OperatorGraph
from situ.graph.typing import Scope
from situ.runtime.spark.catalyst.conditions import all_of, any_of, expression_to_column
from situ.runtime.spark.plan.plan import Read
from situ.runtime.spark.stages.batch_stage import MARKS_PER_COLUMN, TIME, mark_columns
from situ.runtime.spark.stages.stream_packer import MISFIT


def crossing(events: DataFrame, read: Read, graph: OperatorGraph, functions: Functions) -> DataFrame:
    """The rows and columns of a table that cross, under names that cannot clash."""
    tests = [] if read.indexed else _tests(read, graph, functions)
    if read.filtered and not read.indexed:
        events = events.filter(_is_taken(read, tests))
    columns = [column(TIME), *_marks(tests, len(mark_columns(read))), *map(column, read.columns)]
    return events.select(*(c.alias(f"c{n}") for n, c in enumerate(columns)))


def crossing_of_stream(rows: DataFrame, read: Read, graph: OperatorGraph, functions: Functions) -> DataFrame:
    """The same of a stream. All rows cross, with their times, or as misfits; other columns only of those that some
    rule takes: where they are null, little crosses."""
    fits = column(MISFIT).isNull()
    judged = [] if read.indexed else _tests(read, graph, functions)
    tests = [F.coalesce(test, F.lit(False)) & fits for test in judged]
    names = mark_columns(read, always=True)
    taken = _is_taken(read, tests) if read.filtered and not read.indexed else fits
    columns = [F.when(fits, column(TIME)), *_marks(tests, len(names))]
    columns += [F.when(taken, column(name)) for name in read.columns]
    columns.append(column(MISFIT))
    return rows.select(*(c.alias(f"c{n}") for n, c in enumerate(columns)))


def column(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")


def _tests(read: Read, graph: OperatorGraph, functions: Functions) -> list[Column]:
    """What of each test Catalyst can say."""
    schema = graph.schemas[read.stream.name]
    scope = Scope({}, functions=functions).with_this(read.stream.name, schema)

    def attribute(name: str) -> Column:
        return column(name).cast("bigint") if schema.type_of(name) is INT else column(name)

    def judged(number: int) -> Column:
        conditions = [expression_to_column(c, scope, attribute, column(TIME)) for c in read.tests[number].pushed]
        return all_of([c for c in conditions if c is not None])

    return [judged(number) for number in range(len(read.tests))]


def _is_taken(read: Read, tests: list[Column]) -> Column:
    taken = sorted(frozenset[int]().union(*(taker.tests or () for taker in read.takers)))
    return any_of([tests[number] for number in taken])


def _marks(tests: list[Column], columns: int) -> list[Column]:
    return [_bits(tests[n * MARKS_PER_COLUMN :][:MARKS_PER_COLUMN]) for n in range(columns)]


def _bits(tests: list[Column]) -> Column:
    """Tests as bits of one number."""
    width = next(name for bits, name in _WIDTHS.items() if len(tests) <= bits)
    bits = [F.when(test, F.lit(1 << n).cast(width)).otherwise(F.lit(0).cast(width)) for n, test in enumerate(tests)]
    return reduce(Column.bitwiseOR, bits)


#: The narrowest integer for so many bits: every byte crosses to Python and is shuffled.
_WIDTHS = {7: "tinyint", 15: "smallint", 31: "int", MARKS_PER_COLUMN: "bigint"}
