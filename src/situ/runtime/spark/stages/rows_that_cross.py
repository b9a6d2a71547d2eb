"""Rows that situ read itself -> rows with marks, as Catalyst lets them through to Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from situ.graph.typing import THIS
from situ.io.rows.conform import Conformed
from situ.kernel.batch import Batch, Calls, one_chunk
from situ.kernel.columns.values import Mask
from situ.kernel.operator import attributes_read
from situ.runtime.spark.plan.plan import Read, SparkPlan, StreamTest
from situ.runtime.spark.session.functions import loaded
from situ.runtime.spark.stages.batch_stage import MARKS_PER_COLUMN, TIME, mark_columns

#: The narrowest integers for so many marks.
_WIDTHS: dict[int, Any] = {7: np.int8, 15: np.int16, 31: np.int32, MARKS_PER_COLUMN: np.int64}


def rows_that_cross(
    part: Conformed, read: Read, left_behind: frozenset[str] = frozenset(), always_marked: bool = False
) -> pa.RecordBatch:
    """The rows that some route takes, with their times, marks of the tests that they fulfil, and the columns that cross
    but for those that are `left_behind`."""
    columns = {name: one_chunk(part.events.column(name)) for name in part.events.column_names}
    batch = Batch(part.times, columns)
    judged = [] if read.indexed else [_judged(batch, test) for test in read.tests]
    crossing = {TIME: pa.array(part.times)} | _marks(judged, mark_columns(read, always_marked))
    crossing |= {name: columns[name] for name in read.columns if name not in left_behind}
    rows = pa.RecordBatch.from_arrays(list(crossing.values()), names=list(crossing))
    if not read.takers:
        return rows.slice(0, 0)
    if not read.filtered or read.indexed:  # the packer asks its index
        return rows
    is_taken = np.logical_or.reduce([judged[n] for taker in read.takers for n in taker.tests or ()])
    return rows if is_taken.all() else rows.filter(pa.array(is_taken))


def columns_tested(read: Read, plan: SparkPlan) -> set[str]:
    """The attributes that tests read."""
    conditions = [(condition, {THIS: read.stream.name}) for test in read.tests for condition in test.pushed]
    return attributes_read(conditions, plan.graph.schemas).get(read.stream.name, set())


def _judged(batch: Batch, test: StreamTest) -> Mask:
    """Which rows fulfil what Catalyst would judge of a test."""
    mask = batch.mask(test.pushed, Calls(functions=loaded(()), errors=Counter()))
    return np.ones(len(batch), np.bool_) if mask is None else mask


def _marks(judged: list[Mask], names: list[str]) -> dict[str, pa.Array]:
    """Which tests rows fulfil, as bits of the narrowest integers: every byte of them is shuffled."""
    marks = {}
    for number, name in enumerate(names):
        masks = judged[number * MARKS_PER_COLUMN :][:MARKS_PER_COLUMN]
        width = next(type_ for bits, type_ in _WIDTHS.items() if len(masks) <= bits)
        bits = np.zeros(len(masks[0]), width)
        for bit, mask in enumerate(masks):
            bits |= mask.astype(width) << width(bit)
        marks[name] = pa.array(bits)
    return marks
