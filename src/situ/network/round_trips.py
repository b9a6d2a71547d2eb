"""Networks from measured round trips: a matrix in Parquet, one row and one column per host, in the same order.

Two hosts are linked if a round trip was measured between them, in either direction: missing values and those that
are not positive are left out, and so is a host without any. A link takes half of the shorter round trip. With n hosts
there are up to n (n - 1) / 2 links; where a detour is faster than the direct link, the way takes the detour.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from situ.kernel.arrays import F64
from situ.network.network import Link, Network, NetworkError, Site


def read_round_trips(path: Path) -> Network:
    """Sites have the names of the columns."""
    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise NetworkError(f"is not Parquet: {error}", place=str(path), remedy="Write it as Parquet.") from None
    return network_of_round_trips(table.column_names, _matrix(table, path))


def network_of_round_trips(names: list[str], round_trip_ms: F64) -> Network:
    """`round_trip_ms[i, j]` was measured from host i to host j; NaN where it was not.

    >>> network = network_of_round_trips(["a", "b"], np.array([[0.0, 8.0], [6.0, 0.0]]))
    >>> network.links
    (Link(a='a', b='b', latency_ms=3.0, hops=1, price=1.0, capacity_per_s=None),)
    """
    measured = np.where(np.isfinite(round_trip_ms) & (round_trip_ms > 0), round_trip_ms, np.inf)
    one_way_ms = np.minimum(measured, measured.T) / 2
    np.fill_diagonal(one_way_ms, np.inf)
    linked = np.isfinite(one_way_ms)
    hosts = np.flatnonzero(linked.any(axis=1)) if linked.any() else np.arange(len(names))
    pairs = np.argwhere(np.triu(linked))
    latency_ms = one_way_ms[pairs[:, 0], pairs[:, 1]].tolist()
    links = tuple(Link(names[a], names[b], ms) for (a, b), ms in zip(pairs.tolist(), latency_ms, strict=True))
    return Network(tuple(Site(names[host]) for host in hosts.tolist()), links)


def _matrix(table: pa.Table, path: Path) -> F64:
    for field in table.schema:
        if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type)):
            raise NetworkError(
                f"column {field.name!r} is of type {field.type}", place=str(path), remedy="Columns hold milliseconds."
            )
    if table.num_rows != table.num_columns:
        raise NetworkError(
            f"has {table.num_rows} rows and {table.num_columns} columns",
            place=str(path),
            remedy="A matrix of round trips has a row and a column for each host, in the same order.",
        )
    columns = [column.cast(pa.float64()).to_numpy() for column in table.columns]  # nulls become NaN
    return np.column_stack(columns) if columns else np.zeros((0, 0))
