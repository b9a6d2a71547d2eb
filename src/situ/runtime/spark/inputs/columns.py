"""Attributes and times as Catalyst columns: the same values that `situ.io.rows.conversions` makes of Arrow columns.

Nothing here raises for a row, with or without ANSI mode: what does not fit is null, and a misfit says so.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, types
from pyspark.sql import functions as F

from situ.core.time import FIRST_TIME_US, LAST_TIME_US
from situ.core.types import BINARY, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Decimal, Type
from situ.graph.query import TimeUnit

#: A date or a timestamp without a zone is cast within these bounds only: beyond, Spark's cast overflows and raises.
_DAYS = 106_751_980
_MICROS = 2**62

_SPARK: dict[Type, types.DataType] = {
    BOOLEAN: types.BooleanType(),
    INT: types.LongType(),
    DOUBLE: types.DoubleType(),
    STRING: types.StringType(),
    BINARY: types.BinaryType(),
    TIMESTAMP: types.TimestampType(),
}

_ARROW: dict[type[types.DataType], pa.DataType] = {
    types.NullType: pa.null(),
    types.BooleanType: pa.bool_(),
    types.ByteType: pa.int8(),
    types.ShortType: pa.int16(),
    types.IntegerType: pa.int32(),
    types.LongType: pa.int64(),
    types.FloatType: pa.float32(),
    types.DoubleType: pa.float64(),
    types.StringType: pa.string(),
    types.CharType: pa.string(),
    types.VarcharType: pa.string(),
    types.BinaryType: pa.binary(),
    types.DateType: pa.date32(),
    types.TimestampType: pa.timestamp("us", tz="UTC"),
    types.TimestampNTZType: pa.timestamp("us"),
}


@dataclass(frozen=True)
class Reading:
    """A value in its type, and when a row has none: columns that are true or false and never null."""

    value: Column
    misfits: tuple[Column, ...] = ()


def to_spark(declared: Type) -> types.DataType:
    """The Spark type of an attribute.

    >>> to_spark(INT), to_spark(Decimal(10, 2))
    (LongType(), DecimalType(10,2))
    """
    return types.DecimalType(declared.precision, declared.scale) if isinstance(declared, Decimal) else _SPARK[declared]


def spark_to_arrow(found: types.DataType) -> pa.DataType:
    """The Arrow type by which a Spark column is judged. One that situ does not read keeps its name in messages.

    >>> spark_to_arrow(types.StructType().add("x", types.DoubleType()))
    StructType(struct<x: double>)
    """
    if isinstance(found, types.DecimalType):
        return pa.decimal128(found.precision, found.scale)
    if isinstance(found, types.StructType):
        return pa.struct([(field.name, spark_to_arrow(field.dataType)) for field in found])
    if isinstance(found, types.ArrayType):
        return pa.list_(spark_to_arrow(found.elementType))
    if isinstance(found, types.MapType):
        return pa.map_(spark_to_arrow(found.keyType), spark_to_arrow(found.valueType))
    return _ARROW.get(type(found)) or pa.opaque(pa.null(), found.simpleString(), "spark")


def shown_type(found: types.DataType) -> types.DataType:
    """As what a column of a rejected row crosses to Python: text where situ knows no better.

    >>> shown_type(types.StructType().add("x", types.DoubleType()).add("since", types.YearMonthIntervalType()))
    StructType([StructField('x', DoubleType(), True), StructField('since', StringType(), True)])
    """
    match found:
        case types.StructType():
            return types.StructType([types.StructField(f.name, shown_type(f.dataType), f.nullable) for f in found])
        case types.ArrayType():
            return types.ArrayType(shown_type(found.elementType), found.containsNull)
        case types.MapType():
            return types.MapType(shown_type(found.keyType), shown_type(found.valueType), found.valueContainsNull)
        case types.DecimalType():
            return found
        case _:
            return found if type(found) in _ARROW else types.StringType()


def any_of(conditions: Sequence[Column]) -> Column:
    """Whether one of them holds."""
    either = F.lit(False)
    for condition in conditions:
        either = either | condition
    return either


# ---- attributes


def attribute_reading(column: Column, found: pa.DataType, declared: Type) -> Reading:
    """A column of a type that `native_conversion` accepts, in the declared type."""
    target = to_spark(declared)
    if pa.types.is_decimal(found) and declared is not DOUBLE:
        return _from_decimal(column, found, target)
    if pa.types.is_integer(found) and isinstance(declared, Decimal):
        return _integer_to_decimal(column, declared)
    if pa.types.is_binary(found) and declared is STRING:
        text = column.cast(target)
        return Reading(text, (~F.coalesce(F.is_valid_utf8(text), F.lit(True)),))
    if pa.types.is_date(found):
        # Folded to a constant, where a Python date ends with the year 9999.
        return _zoneless(column, *(F.date_from_unix_date(F.lit(days)) for days in (-_DAYS, _DAYS)))
    if pa.types.is_timestamp(found) and found.tz is None:
        return _zoneless(column, *(_micros(micros).cast("timestamp_ntz") for micros in (-_MICROS, _MICROS)))
    if declared is INT:
        return Reading(column)  # of any width: what is widened here would cross to Python twice as long
    return Reading(column if spark_to_arrow(target) == found and declared is not STRING else column.cast(target))


def _from_decimal(column: Column, found: pa.DataType, target: types.DataType) -> Reading:
    """To an integer or another decimal. It fits if the way there and back changes nothing."""
    value = column.try_cast(target)
    back = value.try_cast(types.DecimalType(found.precision, found.scale))
    if isinstance(target, types.DecimalType):
        whole_digits = target.precision - target.scale
        if target.scale >= found.scale and whole_digits >= found.precision - found.scale:
            return Reading(column if spark_to_arrow(target) == found else value)
    return Reading(value, (~back.eqNullSafe(column),))


def _integer_to_decimal(column: Column, declared: Decimal) -> Reading:
    largest = 10 ** (declared.precision - declared.scale) - 1
    value = column.try_cast(to_spark(declared))
    if largest >= 2**63 - 1:
        return Reading(value)
    beyond = (column < F.lit(-largest)) | (column > F.lit(largest))
    return Reading(value, (column.isNotNull() & beyond,))


def _zoneless(column: Column, first: Column, last: Column) -> Reading:
    beyond = column.isNotNull() & ((column < first) | (column > last))
    return Reading(F.when(~beyond, column).cast("timestamp"), (beyond,))


# ---- times


def time_reading(column: Column, value: Column, declared: Type, unit: TimeUnit | None) -> Reading:
    """Microseconds since the epoch of the time attribute, which was read from `column` as `value`.

    As far as may be, conditions are comparisons of the column itself, by which a scan of Parquet prunes: rejected rows
    are few, and are then found by the statistics.
    """
    if unit is None:
        beyond = column.isNull() | _outside(value, _micros(FIRST_TIME_US), _micros(LAST_TIME_US))
        return Reading(F.unix_micros(value), (beyond,))
    if isinstance(declared, Decimal):
        return _decimal_time(value, declared, unit)
    return _double_time(value, unit) if declared is DOUBLE else _integer_time(value.cast("bigint"), unit)


def _integer_time(value: Column, unit: TimeUnit) -> Reading:
    if unit == "ns":  # rounded down, where `div` rounds towards zero
        down = F.when(value % F.lit(1000) < F.lit(0), F.lit(1)).otherwise(F.lit(0))
        return Reading(F.call_function("div", value, F.lit(1000)) - down, (value.isNull(),))
    factor = 10 ** _POWER[unit]
    first, last = -(-FIRST_TIME_US // factor), LAST_TIME_US // factor
    micros = value if unit == "us" else F.try_multiply(value, F.lit(factor))
    return Reading(micros, (_outside(value, F.lit(first), F.lit(last)),))


def _double_time(value: Column, unit: TimeUnit) -> Reading:
    factor = float(decimal.Decimal(10) ** _POWER[unit])
    before = -_first_double_from(math.nextafter(float(-FIRST_TIME_US), math.inf), factor)
    end = _first_double_from(float(LAST_TIME_US + 1), factor)
    # NaN is larger than every number in Spark, but statistics in Parquet files may be of the other values only: a
    # scan that pruned by them would lose its row. So this is no condition that can be pushed down.
    outside = value.isNull() | F.isnan(value) | (value <= F.lit(before)) | (value >= F.lit(end))
    return Reading(F.rint(value * F.lit(factor)).try_cast("bigint"), (outside,))


def _first_double_from(product: float, factor: float) -> float:
    """The smallest double that, times the factor, is at least a product; products grow with the double."""
    first = product / factor
    while first * factor >= product:
        first = math.nextafter(first, 0)
    while first * factor < product:
        first = math.nextafter(first, math.inf)
    return first


def _decimal_time(value: Column, declared: Decimal, unit: TimeUnit) -> Reading:
    """Rounded down to microseconds. Bounds have the column's own type: Spark would round a mixed comparison."""
    power, step = _POWER[unit], decimal.Decimal(1).scaleb(-declared.scale)
    with decimal.localcontext(prec=100):
        first = decimal.Decimal(FIRST_TIME_US).scaleb(-power).quantize(step, decimal.ROUND_CEILING)
        # The last time is just below the year 10000, however fine the column is.
        last = decimal.Decimal(LAST_TIME_US + 1).scaleb(-power).quantize(step, decimal.ROUND_CEILING) - step
        most = decimal.Decimal(10**declared.precision - 1).scaleb(-declared.scale)
    outside = value.isNull()
    if first > -most:
        outside = outside | (value < F.lit(first).cast(to_spark(declared)))
    if last < most:
        outside = outside | (value > F.lit(last).cast(to_spark(declared)))
    floor = F.floor(value, power)
    if power < 0:
        micros = F.call_function("div", floor.try_cast("decimal(22, 0)"), F.lit(10**-power))
    else:
        micros = (floor.try_cast(types.DecimalType(19, power)) * F.lit(decimal.Decimal(10**power))).try_cast("bigint")
    return Reading(micros, (outside,))


#: A unit is ten to this power microseconds.
_POWER: dict[TimeUnit, int] = {"s": 6, "ms": 3, "us": 0, "ns": -3}


def _outside(column: Column, first: Column, last: Column) -> Column:
    return column.isNull() | (column < first) | (column > last)


def _micros(micros: int) -> Column:
    return F.timestamp_micros(F.lit(micros))
