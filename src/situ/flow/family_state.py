"""The state of a rule as that of its template, and back: the same rows, with and without the template's columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from situ.kernel.batch import one_chunk
from situ.kernel.operator import RULE
from situ.kernel.program.shape import is_of_template

_KEY = "key "


def own_tables(table: pa.Table, rule: int, constants: int) -> pa.Table:
    """The state of one rule by itself, from that of its template with this rule alone."""
    columns = {}
    for name in table.column_names:
        if name.startswith(_KEY):
            number = int(name.removeprefix(_KEY)) - 1 - constants
            if number >= 0:
                columns[f"{_KEY}{number}"] = table.column(name)
        elif name == "events":
            columns[name] = _without(one_chunk(table.column(name)))
        elif not is_of_template(name):
            columns[name] = table.column(name)
    return pa.table(columns)


def template_tables(table: pa.Table, wanted: pa.Schema, rule: int, constants: Sequence[float | str]) -> pa.Table:
    """The inverse; `wanted` is the schema of the template's state."""
    values = (rule, *constants)
    columns = {}
    for field in wanted:
        if field.name.startswith(_KEY):
            number = int(field.name.removeprefix(_KEY))
            columns[field.name] = (
                _repeated(values[number], field.type, table.num_rows)
                if number < len(values)
                else table.column(f"{_KEY}{number - len(values)}")
            )
        elif is_of_template(field.name):
            columns[field.name] = _repeated(_value(field.name, values), field.type, table.num_rows)
        elif field.name in table.column_names:
            column = table.column(field.name)
            columns[field.name] = _with(one_chunk(column), field.type, values) if field.name == "events" else column
    return pa.table(columns)


def _value(column: str, values: Sequence[float | str]) -> float | str:
    name = column.rpartition(".")[2]
    return values[0] if name == RULE else values[1 + int(name.rpartition(" ")[2])]


def _repeated(value: float | str, type_: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, type_), count)


def _without(events: pa.ListArray) -> pa.ListArray:
    """Lists of events without the columns of the template."""
    structs = events.flatten()
    names = [field.name for field in structs.type if not is_of_template(field.name)]
    kept = pa.StructArray.from_arrays([structs.field(name) for name in names], names)
    return _lists(events, kept)


def _with(events: pa.ListArray, type_: pa.ListType, values: Sequence[float | str]) -> pa.ListArray:
    """Lists of events with the columns of the template."""
    structs = events.flatten()
    given = {field.name: structs.field(field.name) for field in structs.type}
    columns = {
        field.name: _repeated(_value(field.name, values), field.type, len(structs))
        if is_of_template(field.name)
        else given[field.name]
        for field in type_.value_type
        if is_of_template(field.name) or field.name in given
    }
    return _lists(events, pa.StructArray.from_arrays(list(columns.values()), list(columns)))


def _lists(like: pa.ListArray, structs: pa.StructArray) -> pa.ListArray:
    offsets = like.offsets
    begin = offsets[0].as_py() if len(offsets) else 0
    shifted = pa.compute.subtract(offsets, pa.scalar(begin, offsets.type)) if begin else offsets
    return type(like).from_arrays(shifted, structs)
