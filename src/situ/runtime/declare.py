"""`situ.declare`: the declaration of a stream for a file or a table, so that nobody types thirty columns by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from situ.core.errors import InputError
from situ.io.files.by_suffix import files_of_one_format
from situ.io.rows.declare import Declaration, declare_columns, stream_name
from situ.io.rows.found_columns import SAMPLE_ROWS, FoundColumn, columns_of_path, columns_of_table


def declare(events: Any, name: str | None = None) -> str:
    """The `stream` declaration for a file or directory (its path), a DataFrame of Spark, pandas or Polars, or an Arrow
    table; comments say what was guessed. Spark runs nothing for it.

    >>> print(declare(pa.table({"car": ["a"], "speed": [3.5], "ts_ms": [0]}), "Car"), end="")
    -- time: ts_ms is called like a time; ms by its name
    -- key: car is called like the stream
    stream Car(car string, speed double, ts_ms int)
      time ts_ms in ms  key car
    """
    return str(declaration_of(events, name))


def declaration_of(events: Any, name: str | None = None) -> Declaration:
    """The same before it is a text. A stream without a name is called like its file."""
    if not isinstance(events, str | Path):
        return declare_columns(_columns_of_rows(events), name or "Event")
    path = Path(events)
    try:
        declaration = declare_columns(columns_of_path(path), name or stream_name(path.resolve().name.partition(".")[0]))
    except InputError as error:
        raise InputError(error.cause, place=error.place or str(path), remedy=error.remedy) from None
    if files_of_one_format(path)[1] == "parquet":
        return declaration
    by_rows = "types: by the first rows; a later row that does not fit them is rejected, with the reason"
    return replace(declaration, notes=(*declaration.notes, by_rows))


def _columns_of_rows(events: Any) -> list[FoundColumn]:
    if type(events).__module__.startswith("pyspark.sql"):
        from situ.runtime.spark.inputs.tables import arrow_schema

        return columns_of_table(arrow_schema(events))
    if not hasattr(events, "__arrow_c_stream__"):
        raise InputError(
            f"{type(events).__name__} of {type(events).__module__} has no columns that situ knows",
            remedy="Give the path of a file, a DataFrame, or an Arrow table.",
        )
    table = pa.table(events)
    return columns_of_table(table.schema, table.slice(0, SAMPLE_ROWS))
