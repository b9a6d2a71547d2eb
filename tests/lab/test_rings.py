"""The second trace is as it was made, and what SUMO writes becomes such a file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from situ.lab import ingolstadt
from situ.lab.rings import FILE, trace
from situ.lab.sumo_trace import read_trace, write_trace


def test_it_is_like_the_first_one_and_small() -> None:
    assert trace().schema == ingolstadt.trace().schema
    assert len(trace()["vehicle"].unique()) == 1_999
    assert FILE.stat().st_size < 2_000_000


def test_what_sumo_writes_is_read_in_metres_and_by_time(tmp_path: Path) -> None:
    simulated = pa.table(
        {
            "timestep_time": [0.0, 0.0, 1.0, 2.0],
            "vehicle_id": ["b", "a", "b", None],
            "vehicle_x": [-3.5, 10.25, -2.0, None],
            "vehicle_y": [4.0, 5.0, 6.0, None],
            "vehicle_speed": [1.5, 0.0, 1.25, None],
            "vehicle_acceleration": [0.0, 0.0, -0.25, None],
            "vehicle_lane": ["e_0", "f_1", "e_0", None],
        }
    )
    write_trace(simulated, tmp_path / "vehicles.parquet")
    assert read_trace(tmp_path / "vehicles.parquet").to_pylist() == [
        {"time_us": 0, "vehicle": "a", "x": 13.75, "y": 1.0, "speed": 0.0, "acceleration": 0.0, "lane": "f_1"},
        {"time_us": 0, "vehicle": "b", "x": 0.0, "y": 0.0, "speed": 1.5, "acceleration": 0.0, "lane": "e_0"},
        {"time_us": 1_000_000, "vehicle": "b", "x": 1.5, "y": 2.0, "speed": 1.25, "acceleration": -0.25, "lane": "e_0"},
    ]
