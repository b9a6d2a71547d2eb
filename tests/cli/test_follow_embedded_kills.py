"""`situ run --follow --engine embedded` is killed with SIGKILL, at random moments and at named points of its journal:
what it has found in the end is what feeding finds."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cli.test_follow_embedded import SHUT, STREAM, follow, found, move_in, rows
from situ.runtime.embedded import Engine

pytestmark = [pytest.mark.jit_only, pytest.mark.kills]

KILLED = Path(__file__).parents[1] / "runtime" / "sites" / "killed_site.py"
FILES, KILLS = 40, 8


def follower(tmp_path: Path, point: str, number: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(KILLED), point, str(number), "run", str(tmp_path / "doors.situ"), "--follow"]
    command += ["--engine", "embedded", "--source", f"Door={tmp_path / 'in'}", "--checkpoint", str(tmp_path / "state")]
    return subprocess.Popen([*command, "--out", str(tmp_path / "out"), "--json"], stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("seed", range(3))
def test_a_follower_that_is_killed_loses_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    (tmp_path / "in").mkdir()
    (tmp_path / "doors.situ").write_text(STREAM + SHUT)
    engine = Engine(STREAM + SHUT)
    expected, late, kills = [], 0, 0
    process = follower(tmp_path, rng.choice(["before", "after"]), rng.randrange(2, 8))
    for k in range(FILES):
        piece = rows(100 * k, 100, seed=1000 * seed + k)
        move_in(piece, tmp_path / "in", f"{k:03d}.parquet")
        output = engine.feed(piece)
        expected += output.complex_events["Shut"].to_pylist()
        late += sum(table.num_rows for table in output.late.values())
        if process.poll() is None and kills < KILLS and rng.random() < 0.4:
            time.sleep(rng.uniform(0, 3))  # any moment of its life: no assertion rests on it
            process.kill()
            process.wait()
        if process.poll() is not None:
            kills += 1
            assert process.returncode == -signal.SIGKILL
            process = follower(tmp_path, "never", 0)
    process.kill()
    process.wait()
    follow(tmp_path)  # to the end of what is there
    print(f"{kills + 1} kills")
    assert kills >= 3
    assert found(tmp_path, "Shut") == expected
    assert pq.read_table(tmp_path / "out" / "_late" / "Door").num_rows == late
