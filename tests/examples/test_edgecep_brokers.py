"""EdgeCEP's laboratory at six brokers: actors are delivered what one process finds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cli.command import situ

EDGECEP = Path(__file__).parents[2] / "examples" / "edgecep"


@pytest.mark.storm
def test_six_brokers_deliver_to_actors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EDGECEP, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    files = {"Tracking@b3": "tracking", "Temperature@b2": "temperature", "Humidity@b5": "humidity", "Video@b6": "video"}
    sources = [word for where, name in files.items() for word in ("--source", f"{where}={name}.csv")]
    network = ("--network", "laboratory.json", "--root", "b1", "--scale", "0")
    code, out, error = situ("up", "edgecep.situ", "--functions", "faces", *network, "--once", *sources)
    assert code == 0, error
    assert "User1_2: 2 complex events, delivered to AirController" in out
    together = [word for where, name in files.items() for word in ("--source", f"{where[:-3]}={name}.csv")]
    situ("run", "edgecep.situ", "--functions", "faces", "--engine", "embedded", "--out", "found", *together)
    for actor, names in {"air": ("User1_1", "User1_2"), "gateway": ("User1_3",)}.items():
        assert {folder.name for folder in Path("delivered", actor).iterdir()} == {*names}
        for name in names:
            key = [("_time", "ascending"), ("location", "ascending"), ("timestamp", "ascending")]
            delivered, found = (pq.read_table(Path(d, name)).sort_by(key) for d in (f"delivered/{actor}", "found"))
            assert delivered.select(found.column_names).to_pylist() == found.to_pylist()
