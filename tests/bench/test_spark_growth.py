"""The picture of growth is drawn of whatever was measured."""

from __future__ import annotations

from pathlib import Path

from situ.bench.spark_growth import AXES, GrowthLine, draw
from situ.bench.workload import Workload


def test_every_axis_has_a_workload_for_each_value() -> None:
    assert all(len(axis.values) == len(axis.workloads) for axis in AXES)
    assert {axis.workloads[axis.values.index(8_000_000)] for axis in AXES[:1]} == {Workload(types=3)}


def test_draw(tmp_path: Path) -> None:
    lines = [
        GrowthLine(axis, way, cores, tuple(float(n + cores) for n in range(len(axis.values))))
        for axis in AXES
        for way in ("slices", "spark")
        for cores in (1, 2)
    ]
    draw(lines, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
