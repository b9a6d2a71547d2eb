"""Networks from measured round trips."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from situ.network.load import load_network
from situ.network.network import NetworkError
from situ.network.round_trips import network_of_round_trips

PLANETLAB = Path(__file__).parent / "data" / "planetlab_12_hosts_rtt_ms.parquet"


def test_measured_round_trips() -> None:
    network = load_network(PLANETLAB)
    measured = pq.read_table(PLANETLAB)
    assert list(network.names) == measured.column_names
    assert len(network.links) == 12 * 11 // 2
    half_ms = np.column_stack([column.to_numpy() for column in measured.columns]).astype(float) / 2
    latency_ms = network.ways_among(None).latency_ns / 1e6
    assert (latency_ms <= half_ms + 1e-6).all()
    assert (latency_ms < half_ms - 1e-3).any()  # somewhere a detour is faster
    link = network.links[0]
    assert link.latency_ms == half_ms[network.number(link.a), network.number(link.b)]


def test_the_shorter_direction_counts_and_what_is_missing_is_left_out() -> None:
    nan = np.nan
    network = network_of_round_trips(
        ["a", "b", "c", "d"],
        np.array([[0, 8, nan, nan], [6, 0, -1, 0], [nan, 10, 0, nan], [nan, nan, nan, 0]]),
    )
    assert network.names == ("a", "b", "c")
    assert [(link.a, link.b, link.latency_ms) for link in network.links] == [("a", "b", 3.0), ("b", "c", 5.0)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [0.0, 1.0, 2.0], "b": [1.0, 0.0, 2.0]}, "net.parquet: has 3 rows and 2 columns"),
        ({"a": ["x"]}, "net.parquet: column 'a' is of type string"),
        ({}, "net.parquet: the network has no sites"),
        ({"a": [0.0, None], "b": [None, 0.0]}, "net.parquet: the network falls into 2 parts"),
    ],
)
def test_errors(tmp_path: Path, columns: dict[str, list[object]], message: str) -> None:
    path = tmp_path / "net.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(NetworkError, match=message):
        load_network(path)


def test_whole_numbers_and_nulls(tmp_path: Path) -> None:
    path = tmp_path / "net.parquet"
    pq.write_table(pa.table({"a": [0, None], "b": [4, 0]}), path)
    assert [link.latency_ms for link in load_network(path).links] == [2.0]


def test_what_is_no_parquet(tmp_path: Path) -> None:
    path = tmp_path / "net.parquet"
    path.write_text("no")
    with pytest.raises(NetworkError, match="is not Parquet"):
        load_network(path)
