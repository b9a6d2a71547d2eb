"""The trace as it is packaged is the trace of the example."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from situ.lab.ingolstadt import FILE, trace

EXAMPLE = Path(__file__).parents[2] / "examples" / "traffic" / "vehicles.parquet"


def test_columns() -> None:
    assert trace().schema == pa.schema(
        [
            ("time_us", pa.int64()), ("vehicle", pa.string()), ("x", pa.float64()), ("y", pa.float64()),
            ("speed", pa.float64()), ("acceleration", pa.float64()), ("lane", pa.string()),
        ]
    )  # fmt: skip


def test_the_same_rows_as_in_the_example() -> None:
    ours = trace()
    theirs = pq.read_table(EXAMPLE).sort_by([("time_s", "ascending"), ("vehicle", "ascending")])
    assert ours["vehicle"].to_pylist() == theirs["vehicle"].to_pylist()
    assert ours["lane"].to_pylist() == theirs["lane"].to_pylist()
    np.testing.assert_array_equal(ours["time_us"].to_numpy(), theirs["time_s"].to_numpy().astype(np.int64) * 1_000_000)
    for name in ("x", "y", "speed", "acceleration"):
        np.testing.assert_allclose(ours[name].to_numpy(), theirs[name].to_numpy(), atol=2e-4)


def test_it_is_small() -> None:
    assert FILE.stat().st_size < 2_000_000
