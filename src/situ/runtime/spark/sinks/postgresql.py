"""DataFrames as rows of PostgreSQL: a batch is in the table once, however often it is repeated."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyspark.sql.functions as F
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from situ.core.errors import InputError
from situ.io.postgresql import PostgresqlAddress, require_column_name, require_columns, require_psycopg, upsert_rows

_TYPES: dict[type[T.DataType], str] = {
    T.BooleanType: "boolean",
    T.ByteType: "smallint",
    T.ShortType: "smallint",
    T.IntegerType: "integer",
    T.LongType: "bigint",
    T.FloatType: "real",
    T.DoubleType: "double precision",
    T.StringType: "text",
    T.CharType: "text",
    T.VarcharType: "text",
    T.NullType: "text",
    T.BinaryType: "bytea",
    T.DateType: "date",
    T.TimestampType: "timestamp with time zone",
    T.TimestampNTZType: "timestamp without time zone",
    T.DayTimeIntervalType: "interval",
    T.StructType: "jsonb",
    T.ArrayType: "jsonb",
    T.MapType: "jsonb",
}


def upsert_batch(df: DataFrame, address: PostgresqlAddress, table: str, query_id: str, batch_id: int) -> None:
    """Makes the table's rows of this batch those of the DataFrame, neither more nor fewer.

    `table` is `name` or `schema.name`. It is made if it is not there. The rows come to the driver first, as few as
    complex events are, and go on from there in one transaction: who reads the table sees all of them or none.

    PostgreSQL has no character NUL and no text that is not UTF-8: both become the replacement character U+FFFD.
    """
    require_psycopg()
    columns = table_columns(df.schema)
    nested = {name for name, type_ in columns.items() if type_ == "jsonb"}
    names = {name: f"`{name.replace('`', '``')}`" for name in columns}
    keep_nulls = {"ignoreNullFields": "false"}
    rows = df.select(
        *(F.to_json(F.col(n), keep_nulls).alias(name) if name in nested else F.col(n) for name, n in names.items())
    ).toArrow()
    upsert_rows(address, table, rows, columns, query_id, batch_id)


def require_tables(address: PostgresqlAddress, tables: Mapping[str, pa.Table]) -> None:
    """InputError, if rows of such tables cannot be written: for their columns, or for a table that is there already."""
    require_columns(address, {name: table_columns(from_arrow_schema(rows.schema)) for name, rows in tables.items()})


def table_columns(schema: T.StructType) -> dict[str, str]:
    """The columns of a table for rows of a DataFrame, with their types, without the key.

    >>> table_columns(T.StructType().add("speed", "double").add("toll", "decimal(9,2)").add("at", "timestamp"))
    {'speed': 'double precision', 'toll': 'numeric(9,2)', 'at': 'timestamp with time zone'}
    """
    columns: dict[str, str] = {}
    for column in schema.fields:
        name, type_ = column.name, column.dataType
        require_column_name(name, columns)
        if isinstance(type_, T.DecimalType):
            columns[name] = f"numeric({type_.precision},{type_.scale})"
        elif type(type_) in _TYPES:
            columns[name] = _TYPES[type(type_)]
        else:
            remedy = "Cast it, or leave the column out."
            raise InputError(f"PostgreSQL has no type for column '{name}', {type_.simpleString()}", remedy=remedy)
    return columns
