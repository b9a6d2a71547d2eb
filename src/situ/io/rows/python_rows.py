"""Rows that are Python objects: judged one by one, as JSON lines are, and read by columns where all of them fit.

A row is a mapping. Keys that are not there are null, other keys are passed over. Where JSON has text only, Python's own
values fit, too: bytes for a binary, a date or datetime for a timestamp.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import pyarrow as pa

from situ.core.errors import InputError
from situ.core.types import Decimal, List, Row, Simple, Type, to_arrow
from situ.graph.query import Stream
from situ.io.files.json_text import object_to_json
from situ.io.rows.conform import (
    Conformed,
    asked_columns,
    convert_columns,
    judge,
    rejected_table,
    show_value,
)
from situ.io.rows.conversions import ANY_DECIMAL, Conversion, native_conversion, text_conversion

_WHOLE = (int, np.integer)
_BYTES = (bytes, bytearray, memoryview)


def conform_python_rows(rows: Iterable[object], stream: Stream, place: str = "rows") -> Conformed:
    """All declared columns of the rows that fit the stream's declaration, and the others with their reasons.

    >>> from situ.core.types import INT
    >>> from situ.graph.query import AttributeDeclaration
    >>> stream = Stream("Ping", (AttributeDeclaration("ms", INT),), time="ms", time_unit="ms")
    >>> result = conform_python_rows([{"ms": 1}, {"ms": 1.9}], stream)
    >>> result.times.tolist(), result.rejected.to_pylist()
    ([1000], [{'_reason': 'ms: 1.9 is no int', '_row': '{"ms": 1.9}', '_place': 'rows, row 2'}])
    """
    listed_rows = _listed(rows, stream, place)
    columns, reasons = _attribute_values(listed_rows, stream)
    conversions = {attribute.name: python_conversion(attribute.type) for attribute in stream.attributes}
    converted, misfits = convert_columns(columns, stream, conversions)
    for row, reason in misfits.items():
        reasons[row] = f"{reasons[row]}; {reason}" if row in reasons else reason
    verdict = judge(converted, reasons, stream)
    numbers = sorted(verdict.reasons)
    rejected = rejected_table(
        [verdict.reasons[row] for row in numbers],
        [object_to_json(listed_rows[row]) for row in numbers],
        [f"{place}, row {row + 1}" for row in numbers],
    )
    return Conformed(verdict.select(converted, asked_columns(stream, None)), verdict.times, rejected)


def _listed(rows: Iterable[object], stream: Stream, place: str) -> list[object]:
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise InputError(
            f"the rows do not fit stream {stream.name}: {show_value(rows)} is none",
            place=place,
            remedy="Give a table, a record batch, one event as a dict, or a list of dicts. The attributes are: "
            f"{', '.join(f'{a.name} {a.type}' for a in stream.attributes)}.",
        )
    return list(rows)


def _attribute_values(rows: Sequence[object], stream: Stream) -> tuple[dict[str, list[Any]], dict[int, str]]:
    """The values that attributes come from, null where there are none; and why rows have no such place for them."""
    reasons: dict[int, str] = {}
    objects_by_path: dict[tuple[str, ...], Sequence[Any]] = {(): _objects(rows, (), reasons)}

    def objects_at(path: tuple[str, ...]) -> Sequence[Any]:
        if path not in objects_by_path:
            inner = [outer.get(path[-1]) for outer in objects_at(path[:-1])]
            objects_by_path[path] = _objects(inner, path, reasons)
        return objects_by_path[path]

    columns = {}
    for attribute in stream.attributes:
        *path, name = attribute.source
        columns[attribute.name] = [outer.get(name) for outer in objects_at(tuple(path))]
    return columns, reasons


def _objects(values: Sequence[Any], path: tuple[str, ...], reasons: dict[int, str]) -> Sequence[Any]:
    """Values that must be mappings, an empty one where they are none; that is a reason, but for nested nulls."""
    if all(issubclass(kind, Mapping) for kind in set(map(type, values))):
        return values
    for row, value in enumerate(values):
        if not isinstance(value, Mapping) and (not path or value is not None):
            reason = f"{'.'.join(path)}: {show_value(value)} is no object" if path else "the row is no object"
            reasons[row] = f"{reasons[row]}; {reason}" if row in reasons else reason
    return [value if isinstance(value, Mapping) else {} for value in values]


def python_conversion(declared: Type) -> Conversion:
    """How a list of Python values becomes a column of the declared type. Nothing is guessed: 1.0 is no int, a number is
    no timestamp. Text is read as JSON lines read it: a binary is base64, a time ISO 8601.

    >>> python_conversion(Simple.INT).apply([1, None]).to_pylist()
    [1, None]
    """
    target = to_arrow(declared)

    def apply(values: Sequence[Any]) -> pa.Array:
        kinds = set(map(type, values)) - {type(None)}
        try:
            if kinds and declared is not Simple.STRING and all(issubclass(kind, str) for kind in kinds):
                return _from_text(values, declared)
            if all(_is_kind(kind, declared) for kind in kinds):
                return _from_values(values, kinds, declared)
        except (pa.ArrowException, ValueError, TypeError, ArithmeticError) as error:
            raise pa.ArrowInvalid(str(error)) from error
        raise pa.ArrowInvalid(f"not all of these are {declared}")

    return Conversion(target, apply, fallible=True)


def _is_kind(kind: type, declared: Type) -> bool:
    """Whether values of a class may be of a type, without being read as text."""
    match declared:
        case Simple.BOOLEAN:
            return issubclass(kind, bool | np.bool_)
        case Simple.INT:
            return issubclass(kind, _WHOLE) and kind is not bool
        case Simple.DOUBLE:
            return issubclass(kind, (*_WHOLE, float, np.floating, decimal.Decimal)) and kind is not bool
        case Decimal():
            return issubclass(kind, (*_WHOLE, decimal.Decimal)) and kind is not bool
        case Simple.STRING:
            return issubclass(kind, str)
        case Simple.BINARY:
            return issubclass(kind, _BYTES)
        case Simple.TIMESTAMP:
            return issubclass(kind, datetime.date)  # a datetime is one, too
        case Simple.DURATION | Simple.NULL | Row() | List():
            return False
        case _:
            assert_never(declared)


def _from_text(values: Sequence[Any], declared: Type) -> pa.Array:
    if declared in (Simple.BINARY, Simple.TIMESTAMP) or isinstance(declared, Decimal):
        apply = text_conversion(declared).apply
        assert apply is not None
        return apply(pa.array(values, pa.string()))
    raise pa.ArrowInvalid(f"text is no {declared}")


def _from_values(values: Sequence[Any], kinds: set[type], declared: Type) -> pa.Array:
    target = to_arrow(declared)
    if declared is Simple.DOUBLE and kinds != {float}:
        # Rounding is what a declared double asks for, but Arrow refuses 2**53 + 1.
        return pa.array(_each(float, values), target)
    if isinstance(declared, Decimal):
        # As JSON lines do: 1.500 fits a scale of 2, which it does not where Arrow is given the type at once.
        to_declared = native_conversion(ANY_DECIMAL, declared)
        assert to_declared is not None
        assert to_declared.apply is not None
        exact = _each(
            lambda value: value if isinstance(value, decimal.Decimal) else decimal.Decimal(int(value)), values
        )
        return to_declared.apply(pa.array(exact, ANY_DECIMAL))
    if declared is Simple.TIMESTAMP:
        return pa.array(_each(_as_time, values), target)
    return pa.array(values, target)


def _as_time(value: datetime.date) -> datetime.datetime:
    """A date alone is its midnight."""
    return value if isinstance(value, datetime.datetime) else datetime.datetime(value.year, value.month, value.day)


def _each(convert: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in values]


@dataclass(frozen=True, slots=True)
class PythonSource:
    """Rows given as Python objects, as a bounded source of one chunk."""

    events: Sequence[object]
    stream: Stream
    time_range: tuple[int, int] | None = None

    def chunks(self) -> Iterator[PythonSource]:
        yield self

    @property
    def rows(self) -> int:
        return len(self.events)

    def read(self, columns: Sequence[str]) -> Conformed:
        return conform_python_rows(self.events, self.stream, f"rows of {self.stream.name}")
