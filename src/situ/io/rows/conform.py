"""Rows that fit a stream's declaration, and rows that do not.

Nothing is lost: a row is an event or it is rejected, with the reason, the row itself and its place. What cannot be
said row by row (a missing column, a column of another type) is an InputError before anything is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.errors import InputError
from situ.core.identity_cache import IdentityCache
from situ.core.time import FIRST_TIME_US, LAST_TIME_US
from situ.core.types import TIMESTAMP, Type
from situ.graph.query import AttributeDeclaration, Stream
from situ.io.files.json_text import rows_to_json, single_chunk
from situ.io.rows.column_names import remedy_for_missing
from situ.io.rows.conversions import Conversion, convert, epoch_micros, native_conversion

REJECTED = pa.schema([("_reason", pa.string()), ("_row", pa.string()), ("_place", pa.string())])


@dataclass(frozen=True, slots=True)
class Conformed:
    """Events in columns of the declared types (integers of any width), each column one chunk.

    `times` are microseconds since the epoch, one per event: also where `events` has no column at all.
    """

    events: pa.Table
    times: np.ndarray
    rejected: pa.Table

    def __post_init__(self) -> None:
        # Views of Arrow's memory are read-only and copies are not; to Numba these would be two types.
        self.times.flags.writeable = False

    @staticmethod
    def concat(parts: Sequence[Conformed]) -> Conformed:
        """One after the other. Files may have integers of different widths: the widest wins."""
        if len(parts) == 1:
            return parts[0]
        events = pa.concat_tables([part.events for part in parts], promote_options="permissive")
        return Conformed(
            pa.table([single_chunk(column) for column in events.columns], names=events.column_names),
            np.concatenate([part.times for part in parts]),
            pa.concat_tables([part.rejected for part in parts]),
        )


def conform(
    table: pa.Table | pa.RecordBatch, stream: Stream, columns: Collection[str] | None = None, place: str = "table"
) -> Conformed:
    """The asked columns (None: all declared ones) of the rows that fit the stream's declaration.

    A row fits or not whatever columns are asked for. Columns that already have their type are not copied.

    >>> from situ.core.types import INT
    >>> from situ.graph.query import AttributeDeclaration
    >>> stream = Stream("Ping", (AttributeDeclaration("ms", INT),), time="ms", time_unit="ms")
    >>> result = conform(pa.table({"ms": [1, None]}), stream)
    >>> result.times.tolist(), result.rejected.to_pylist()
    ([1000], [{'_reason': 'ms is null', '_row': '{"ms": null}', '_place': 'table, row 2'}])
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    schema = table.schema
    conversions = _CONVERSIONS.get(stream, schema, lambda: conversions_to(stream, schema, place))
    wanted_columns = asked_columns(stream, columns)
    columns_of = attribute_columns(table, stream, {*wanted_columns, *checked_columns(stream, conversions)})
    converted, misfits = convert_columns(columns_of, stream, conversions)
    verdict = judge(converted, misfits, stream)
    rejected = rejected_rows(verdict.reasons, lambda: table, place)
    return Conformed(verdict.select(converted, wanted_columns), verdict.times, rejected)


#: How the columns of so many streams were converted last: rows that come one by one are mostly alike.
_CONVERSIONS: IdentityCache[Stream, pa.Schema, dict[str, Conversion]] = IdentityCache(most=1 << 10)


def asked_columns(stream: Stream, columns: Collection[str] | None) -> list[str]:
    """The asked columns in declared order."""
    return [a.name for a in stream.attributes if columns is None or a.name in columns]


def conversions_to(stream: Stream, schema: pa.Schema, place: str) -> dict[str, Conversion]:
    """For every declared attribute, how its column is converted; InputError where there is no way."""
    conversions = {}
    for attribute in stream.attributes:
        actual = type_found(attribute, stream, schema, place)
        conversion = native_conversion(actual, attribute.type)
        if conversion is None:
            raise InputError(
                f"column '{attribute.column}' is {actual}, but stream {stream.name} declares it as {attribute.type}",
                place=place,
                remedy=_remedy(attribute.name, actual, attribute.type),
            )
        conversions[attribute.name] = conversion
    return conversions


def require_column(column: str, stream: Stream, columns: Iterable[str], place: str) -> None:
    """InputError unless the column is among those found, once."""
    names = list(columns)
    if column not in names:
        raise InputError(
            f"there is no column '{column}', which stream {stream.name} declares",
            place=place,
            remedy=remedy_for_missing(column, names),
        )
    if names.count(column) > 1:
        raise InputError(
            f"column '{column}' occurs {names.count(column)} times",
            place=place,
            remedy="Give each column a name of its own.",
        )


def type_found(attribute: AttributeDeclaration, stream: Stream, schema: pa.Schema, place: str) -> pa.DataType:
    """The type of the column or nested field that an attribute comes from."""
    actual: pa.DataType = pa.struct(list(schema))
    outer: tuple[str, ...] = ()
    for name in attribute.source:
        if not pa.types.is_struct(actual):
            raise InputError(
                f"column '{'.'.join(outer)}' is {actual} and has no field '{name}', "
                f"which stream {stream.name} declares",
                place=place,
                remedy="Only a column of structs has fields.",
            )
        require_column(".".join((*outer, name)), stream, [".".join((*outer, f.name)) for f in actual], place)
        actual = actual.field(name).type
        outer = (*outer, name)
    return actual


def attribute_columns(table: pa.Table, stream: Stream, names: Collection[str]) -> dict[str, pa.Array]:
    """The named attributes' columns as they were found, each one chunk. Fields of a null struct are null."""
    columns = {}
    for attribute in stream.attributes:
        if attribute.name in names:
            name, *fields = attribute.source
            column = single_chunk(table.column(name))
            columns[attribute.name] = pc.struct_field(column, fields) if fields else column
    return columns


def checked_columns(stream: Stream, conversions: Mapping[str, Conversion]) -> set[str]:
    """The columns that decide whether a row is accepted: the time, and those in which a value may not fit."""
    return {stream.time} | {name for name, conversion in conversions.items() if conversion.fallible}


def convert_columns(
    columns: Mapping[str, pa.Array | Sequence[Any]], stream: Stream, conversions: Mapping[str, Conversion]
) -> tuple[dict[str, pa.Array], dict[int, str]]:
    """Attributes' columns in their declared types, and for each row that does not fit, why."""
    converted: dict[str, pa.Array] = {}
    reasons: dict[int, str] = {}
    for attribute in stream.attributes:
        if attribute.name not in columns:
            continue
        column = columns[attribute.name]
        converted[attribute.name], misfits = convert(column, conversions[attribute.name])
        for row in misfits:
            reason = f"{attribute.name}: {_show(column[row])} is no {attribute.type}"
            reasons[row] = f"{reasons[row]}; {reason}" if row in reasons else reason
    return converted, reasons


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which rows of a table are events: `accepted` is a mask (None: all of them), `times` are those of the events."""

    times: np.ndarray
    accepted: pa.Array | None
    reasons: dict[int, str]

    def select(self, converted: Mapping[str, pa.Array], wanted_columns: Sequence[str]) -> pa.Table:
        """The asked columns of the accepted rows."""
        columns = [converted[name] for name in wanted_columns]
        if self.accepted is not None:
            columns = [column.filter(self.accepted) for column in columns]
        return pa.Table.from_arrays(columns, names=list(wanted_columns))


def judge(converted: Mapping[str, pa.Array], misfits: Mapping[int, str], stream: Stream) -> Verdict:
    """A row is an event if all its values fit and it has a time."""
    column = converted[stream.time]
    times, timed = _event_times(column, stream)
    reasons = dict(misfits)
    if timed is not None:
        for row in np.flatnonzero(~timed).tolist():
            reasons.setdefault(row, _untimed(column[row], stream))
    if not reasons:
        return Verdict(times, None, reasons)
    accepted = np.ones(len(column), np.bool_)
    accepted[list(reasons)] = False
    return Verdict(times[accepted], pa.array(accepted), reasons)


def rejected_table(reasons: Collection[str], rows: Collection[str] | pa.Array, places: Collection[str]) -> pa.Table:
    """Rejected rows, as every source gives them."""
    return pa.table([pa.array(c, pa.string()) for c in (reasons, rows, places)], schema=REJECTED)


#: What is rejected of most tables.
_NONE_REJECTED = rejected_table([], [], [])


def rejected_rows(
    reasons: Mapping[int, str], all_rows: Callable[[], pa.Table], place: str, first_row: int = 0
) -> pa.Table:
    """Rejected rows of a table, which is only asked for with all its columns if there are any."""
    if not reasons:
        return _NONE_REJECTED
    rows = sorted(reasons)
    places = [f"{place}, row {first_row + row + 1}" for row in rows]
    return rejected_table([reasons[row] for row in rows], rows_to_json(all_rows().take(rows)), places)


def _event_times(column: pa.Array, stream: Stream) -> tuple[np.ndarray, np.ndarray | None]:
    """Microseconds since the epoch, and which rows have any in range (None: all). Timestamps are viewed, not copied."""
    timed: np.ndarray | None = None
    if stream.time_unit is not None:
        micros, timed = epoch_micros(column, _type_of(stream, stream.time), stream.time_unit)
    elif column.null_count == 0:
        micros = column.view(pa.int64()).to_numpy()
    else:
        micros = column.view(pa.int64()).fill_null(0).to_numpy()
        timed = column.is_valid().to_numpy(zero_copy_only=False)
    if len(micros) and not (micros.min() >= FIRST_TIME_US and micros.max() <= LAST_TIME_US):
        in_range = (micros >= FIRST_TIME_US) & (micros <= LAST_TIME_US)
        timed = in_range if timed is None else timed & in_range
    return micros, None if timed is None or timed.all() else timed


def _type_of(stream: Stream, name: str) -> Type:
    return next(attribute.type for attribute in stream.attributes if attribute.name == name)


def _untimed(value: pa.Scalar, stream: Stream) -> str:
    if not value.is_valid:
        return f"{stream.time} is null"
    return f"{stream.time}: {_show(value)} {stream.time_unit or ''} is no time in range".replace("  ", " ")


def show_value(value: object) -> str:
    """A value as a person would write it; of a long one, the beginning.

    >>> show_value("fast"), show_value(1.5)
    ("'fast'", '1.5')
    """
    try:
        text = repr(value) if isinstance(value, str | bytes) else str(value)
    except Exception:  # an int of thousands of digits; or somebody's own class, which may do anything
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _show(value: Any) -> str:
    if not isinstance(value, pa.Scalar):
        return show_value(value)
    try:
        return show_value(value.as_py())
    except (ValueError, OverflowError):  # times beyond Python's calendar
        return show_value(value.cast(pa.int32() if pa.types.is_date32(value.type) else pa.int64()).as_py())


def _remedy(name: str, actual: pa.DataType, declared: Type) -> str:
    if declared is TIMESTAMP and (pa.types.is_integer(actual) or pa.types.is_floating(actual)):
        kind = "int" if pa.types.is_integer(actual) else "double"
        return f"Declare `{name} {kind}` and, if it is the event time, its unit: `time {name} in ms`."
    for test, kind in _DECLARABLE:
        if test(actual):
            return f"Declare it as {kind}, or convert the column."
    return "Convert the column; situ reads boolean, int, double, decimal, string, binary and timestamp columns."


_DECLARABLE: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "int"),
    (pa.types.is_floating, "double"),
    (pa.types.is_decimal, "decimal"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_timestamp, "timestamp"),
)
