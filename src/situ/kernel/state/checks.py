"""What a snapshot says, looked at before it is believed.

The checksum of a snapshot tells what was damaged by chance. It says nothing of bytes that somebody else made, and
compiled kernels do not look whether an index is one: so numbers are held against what they count, once, when a state is
taken over. Values of attributes are not judged here; they are those of some events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from situ.core.errors import SituError, StateError
from situ.core.time import BEGINNING, END, LIMIT
from situ.kernel.arrays import I64

#: Before every time.
#: Times of complex events lie a window behind those of events at the most; counts are as far from an overflow.
FARTHEST = 2 * LIMIT


def damaged(what: str) -> StateError:
    """The error for a state that cannot be one."""
    return StateError(
        f"the snapshot is damaged: {what}",
        remedy="Go back to one that is whole, or start without a snapshot, or with a new checkpoint.",
    )


@contextmanager
def damage_is_told() -> Iterator[None]:
    """While a state is taken over, every mistake is one of the state: StateError, and nothing else."""
    try:
        yield
    except SituError:
        raise
    except Exception as error:  # a missing table or column, a type that nobody wrote: there is no list of these
        raise damaged(f"{type(error).__name__} {error}".splitlines()[0]) from error


def require(condition: bool | np.bool_, what: str) -> None:
    """StateError, unless a condition on a state holds."""
    if not condition:
        raise damaged(what)


def numbers(column: pa.Array | pa.ChunkedArray, dtype: type, what: str) -> np.ndarray:
    """The numbers of a column, as a copy that can be written: kernels are compiled for each kind of array that they are
    given. StateError if one is missing, or they are of another type.

    >>> numbers(pa.array([1, 2]), np.int64, "places").tolist()
    [1, 2]
    """
    require(column.type == pa.from_numpy_dtype(dtype), f"{what} are {column.type}")
    require(column.null_count == 0, f"some {what} are missing")
    values = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    return values.copy()


def require_between(values: np.ndarray, low: int | np.ndarray, high: int | np.ndarray, what: str) -> None:
    """StateError, unless all values are at least `low` and below `high`.

    >>> require_between(np.array([0, 3]), 0, 3, "places")
    Traceback (most recent call last):
    ...
    situ.core.errors.StateError: the snapshot is damaged: places are out of range.
      Go back to one that is whole, or start without a snapshot, or with a new checkpoint.
    """
    require(((values >= low) & (values < high)).all(), f"{what} are out of range")


def require_times(times: np.ndarray, what: str) -> None:
    """StateError, unless these are times, or stand for the beginning or the end of all of them."""
    ends = (times == BEGINNING) | (times == END)
    require((ends | ((times > -FARTHEST) & (times < FARTHEST))).all(), f"{what} are out of range")


def require_event_times(times: np.ndarray) -> None:
    require_between(times, 1 - FARTHEST, FARTHEST, "times of events")


def require_type(column: pa.Array | pa.ChunkedArray, expected: pa.DataType, what: str) -> None:
    """StateError, unless a column has its type; integers may be of any width."""
    both_whole = pa.types.is_integer(column.type) and pa.types.is_integer(expected)
    require(both_whole or column.type == expected, f"{what} is {column.type}, not {expected}")


def require_whole(column: pa.Array | pa.ChunkedArray, what: str) -> None:
    """StateError if a value is missing, or a part of one."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    for chunk in chunks:
        require(chunk.null_count == 0, f"some of {what} is missing")
        if pa.types.is_struct(chunk.type):
            for part in chunk.flatten():
                require_whole(part, what)
        elif pa.types.is_list(chunk.type) or pa.types.is_large_list(chunk.type):
            require_whole(chunk.flatten(), what)


def require_columns(columns: Mapping[str, pa.Array], expected: Mapping[str, pa.DataType], whole: bool = False) -> None:
    """StateError, unless all expected columns are there, in their types. `whole`: and without nulls."""
    for name, type_ in expected.items():
        require(name in columns, f"it lacks {name}")
        require_type(columns[name], type_, name)
        if whole:
            require_whole(columns[name], name)


def require_sorted(values: np.ndarray, what: str, strictly: bool = False) -> None:
    before, after = values[:-1], values[1:]
    require((before < after).all() if strictly else (before <= after).all(), f"{what} are not in order")


def owners(lengths: I64) -> I64:
    """By element, the number of the list that it is in."""
    return np.repeat(np.arange(len(lengths)), lengths)
