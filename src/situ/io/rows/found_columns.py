"""The columns of files and tables, and the types in which a stream would declare them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from situ.core.types import BINARY, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Decimal, Type, is_numeric
from situ.io.files.by_suffix import files_of_one_format
from situ.io.files.csv_lines import header_of
from situ.io.files.json_lines import objects_at_start
from situ.io.files.parquet import open_parquet
from situ.io.rows.conversions import convert, is_bytes, native_conversion, text_conversion

#: Rows that are looked at for the size of numbers.
SAMPLE_ROWS = 10_000
#: Digits that a decimal of Spark's, and so one of situ's, can have.
MAX_DIGITS = 38
#: Types that a text may have, the first that holds all values counts.
TEXT_TYPES: tuple[Type, ...] = (INT, DOUBLE, BOOLEAN, TIMESTAMP)


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column, or a field within columns (`path`), with the type in which situ reads it (None: it does not).

    `found` is the type in the words of its source. `largest` is the largest of the numbers that were looked at, which
    tells seconds from milliseconds; None where nobody looked.
    """

    path: tuple[str, ...]
    type: Type | None
    found: str
    largest: float | None = None


def columns_of_path(path: Path) -> list[FoundColumn]:
    """The columns of a file, or of the first file below a directory. Of text, the beginning is looked at."""
    files, format_ = files_of_one_format(path)
    match format_:
        case "parquet":
            return columns_of_parquet(files[0])
        case "csv":
            return _columns_of_csv(files[0])
        case "json":
            return list(_columns_of_objects(objects_at_start(files[0])))


def columns_of_parquet(path: Path) -> list[FoundColumn]:
    with open_parquet(path) as file:
        rows = next(file.iter_batches(SAMPLE_ROWS), None)
        return columns_of_table(file.schema_arrow, None if rows is None else pa.table(rows))


def columns_of_table(schema: pa.Schema, rows: pa.Table | None = None) -> list[FoundColumn]:
    """The columns of a schema, and the fields of its structs; the sizes of numbers are those of some rows."""
    values = [None] * len(schema) if rows is None else [column.combine_chunks() for column in rows.columns]
    return [
        found_column
        for field, column in zip(schema, values, strict=True)
        for found_column in _columns_of_field((field.name,), field.type, column)
    ]


def declared_type(actual: pa.DataType) -> Type | None:
    """The type in which a stream declares a column of an Arrow type; None where situ does not read it.

    >>> str(declared_type(pa.int16())), str(declared_type(pa.decimal128(9, 2))), declared_type(pa.list_(pa.int8()))
    ('int', 'decimal(9, 2)', None)
    """
    if pa.types.is_dictionary(actual):
        return declared_type(actual.value_type)
    if pa.types.is_null(actual):
        return STRING
    if is_bytes(actual):
        return BINARY
    if pa.types.is_decimal(actual):
        fits = actual.precision <= MAX_DIGITS and 0 <= actual.scale <= actual.precision
        return Decimal(actual.precision, actual.scale) if fits else DOUBLE
    readable = (BOOLEAN, INT, DOUBLE, TIMESTAMP, STRING)
    return next((type_ for type_ in readable if native_conversion(actual, type_) is not None), None)


def _columns_of_field(path: tuple[str, ...], actual: pa.DataType, values: pa.Array | None) -> Iterator[FoundColumn]:
    if pa.types.is_struct(actual):
        for number, inner in enumerate(actual):
            of_field = None if values is None else pc.struct_field(values, [number])
            yield from _columns_of_field((*path, inner.name), inner.type, of_field)
        return
    type_ = declared_type(actual)
    yield FoundColumn(path, type_, str(actual), _largest(values) if type_ and is_numeric(type_) else None)


def _largest(values: pa.Array | None) -> float | None:
    if values is None or values.null_count == len(values):
        return None
    plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    largest = pc.max(pc.abs(plain.cast(pa.float64(), safe=False))).as_py()
    return None if largest is None else float(largest)


# ---- text


def _columns_of_csv(path: Path) -> list[FoundColumn]:
    header = header_of(path)
    if header is None:
        return []
    numbers = [str(number) for number in range(len(header.names))]
    text = header.rows.decode("utf-8", "replace").encode()
    if not text.strip():
        return [FoundColumn((name,), STRING, "text, without any row") for name in header.names]
    rows = pyarrow.csv.read_csv(
        pa.BufferReader(text),
        read_options=pyarrow.csv.ReadOptions(column_names=numbers),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda row: "skip"),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(numbers, pa.string()), null_values=[""], strings_can_be_null=True
        ),
    )
    return [
        _text_column((name,), rows.column(number).combine_chunks(), TEXT_TYPES)
        for name, number in zip(header.names, numbers, strict=True)
    ]


def _text_column(path: tuple[str, ...], values: pa.Array, types: Sequence[Type]) -> FoundColumn:
    """The first type that all values have. Numbers with leading zeros are names: 007 is not 7."""
    values = values.drop_null()
    if len(values) and not any(re.match(r"\s*[+-]?0\d", text) for text in values.to_pylist()):
        for type_ in types:
            converted, misfits = convert(values, text_conversion(type_))
            if not misfits:
                return FoundColumn(path, type_, "text", _largest(converted) if is_numeric(type_) else None)
    return FoundColumn(path, STRING, "text")


def _columns_of_objects(rows: Sequence[dict[str, Any]], outer: tuple[str, ...] = ()) -> Iterator[FoundColumn]:
    """The keys of objects in the order in which they first occur."""
    for key in dict.fromkeys(key for row in rows for key in row):
        path = (*outer, key)
        values = [row[key] for row in rows if row.get(key) is not None]
        kinds = {type(value) for value in values}
        if kinds == {dict}:
            yield from _columns_of_objects(values, path)
        elif kinds == {str}:
            yield _text_column(path, pa.array(values, pa.string()), (TIMESTAMP,))
        elif kinds == {bool}:
            yield FoundColumn(path, BOOLEAN, "boolean")
        elif kinds and kinds <= {int, float}:
            fits_int = kinds == {int} and all(-(2**63) <= value < 2**63 for value in values)
            yield FoundColumn(path, INT if fits_int else DOUBLE, "number", float(max(map(abs, values))))
        else:
            words = ", ".join(sorted(kind.__name__ for kind in kinds))
            yield FoundColumn(path, None if kinds else STRING, words or "null")
