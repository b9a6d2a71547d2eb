"""Names of columns in other capitals: `Speed` where a stream declares `speed`.

Files and tables are read letter by letter, and a message names the column that was probably meant. A DataFrame is read
as Spark reads names, which does not look at capitals unless `spark.sql.caseSensitive` says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from situ.core.errors import did_you_mean
from situ.graph.query import AttributeDeclaration, Stream
from situ.lang.unparse import unparse_name


def spelt_as_found(stream: Stream, schema: pa.Schema) -> Stream:
    """The stream with its attributes read from the columns that are called as they are but for capitals.

    A column of the very same name comes first. Where several others would do, none is taken.

    >>> from situ.core.types import INT
    >>> stream = Stream("Ping", (AttributeDeclaration("ms", INT),), time="ms", time_unit="ms")
    >>> spelt_as_found(stream, pa.schema([("MS", pa.int64())])).attributes[0].source
    ('MS',)
    """
    columns = pa.struct(list(schema))
    return replace(stream, attributes=tuple(_spelt(attribute, columns) for attribute in stream.attributes))


def remedy_for_missing(column: str, columns: Iterable[str]) -> str:
    """The remedy where no column has a name.

    >>> remedy_for_missing("speed", ["lane", "Speed"])
    "There is 'Speed'. Capitals count: write `from Speed` behind the type of the attribute, or rename the column."
    """
    names = list(columns)
    alike = [name for name in names if name.lower() == column.lower()]
    if not alike:
        return did_you_mean(column, names)
    source = ".".join(map(unparse_name, alike[0].split(".")))
    return (
        f"There is {' and '.join(map(repr, alike))}. Capitals count: write `from {source}` behind the type of the "
        "attribute, or rename the column."
    )


def _spelt(attribute: AttributeDeclaration, columns: pa.DataType) -> AttributeDeclaration:
    source: list[str] = []
    for name in attribute.source:
        names = [field.name for field in columns] if pa.types.is_struct(columns) else []
        alike = [name] if name in names else [other for other in names if other.lower() == name.lower()]
        if len(alike) != 1:
            return attribute  # what is missing, or there twice, is said where columns are looked up
        source.append(alike[0])
        columns = next(field.type for field in columns if field.name == alike[0])
    return attribute if tuple(source) == attribute.source else replace(attribute, path=tuple(source))
