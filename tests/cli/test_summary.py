"""The first complex events of a run are the same, however they were found."""

import random

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from situ.cli.summary import Summary
from situ.flow.earliest import earliest


def table(rows: list[tuple[int, float | None, str | None]]) -> pa.Table:
    return pa.table(
        {
            "value": pa.array([value for _, value, _ in rows], pa.float64()),
            "nothing": pa.nulls(len(rows)),
            "name": pa.array([name for _, _, name in rows], pa.string()),
            "_time": pa.array([time for time, _, _ in rows], pa.timestamp("us", tz="UTC")),
        }
    )


ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.none() | st.sampled_from([-1.0, 0.0, 2.5, float("inf"), float("nan")]),
        st.none() | st.sampled_from(["", "a", "ab", "ä"]),
    ),
    max_size=12,
)


def key(row: tuple[int, float | None, str | None]) -> tuple[object, ...]:
    """By hand: time, value, name; null before everything, NaN after all numbers, text by its bytes."""
    time, value, name = row
    number = (0, 0.0) if value is None else (2, 0.0) if value != value else (1, value)
    return time, number, (name is not None, (name or "").encode())


def shown(rows: list[tuple[int, float | None, str | None]]) -> str:
    return str([(time, value, name) for time, value, name in rows])


def rows_of(found: pa.Table) -> list[tuple[int, float | None, str | None]]:
    times = found.column("_time").cast(pa.int64()).to_pylist()
    return list(zip(times, found.column("value").to_pylist(), found.column("name").to_pylist(), strict=True))


@settings(derandomize=True)
@given(ROWS, st.integers(0, 13))
def test_the_earliest_rows(rows: list[tuple[int, float | None, str | None]], limit: int) -> None:
    assert shown(rows_of(earliest(table(rows), limit))) == shown(sorted(rows, key=key)[:limit])


@settings(derandomize=True)
@given(ROWS, st.integers(0, 13), st.integers(0, 12), st.integers())
def test_pieces_in_any_order_leave_the_same_rows(
    rows: list[tuple[int, float | None, str | None]], limit: int, cut: int, seed: int
) -> None:
    mixed = random.Random(seed).sample(rows, len(rows))
    summary = Summary(limit)
    for piece in (mixed[:cut], mixed[cut:]):
        summary.keep_first("Jam", table(piece))
    kept = rows_of(summary.first["Jam"]) if "Jam" in summary.first else []
    assert shown(kept) == shown(sorted(rows, key=key)[:limit])
