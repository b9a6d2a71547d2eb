"""`situ run --follow --engine embedded`: a site of one, started again and again, with rules that change."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.command import situ
from situ.runtime.embedded import Engine

pytestmark = pytest.mark.jit_only

STREAM = "stream Door(door string, open bool, n int, ts int) time ts in ms watermark 20 ms order n\n"
SHUT = """
subscribe Shut
  detect   Door(open) as a then Door(not open) as b within 100 ms
  assign   door = b.door, opened = a.n, shut = b.n
  group by door
"""
TWICE = """
subscribe Twice
  detect   Door(open) as a then immediately Door(open) as b within 50 ms
  assign   door = b.door, first = a.n, second = b.n
  group by door
"""


def rows(first: int, count: int, seed: int) -> pa.Table:
    """Rows from a time on, a little out of order, a few of them late."""
    rng = random.Random(seed)
    numbers = range(first, first + count)
    times = [10 * n - rng.choice([0, 5, 12, 15, 40]) for n in numbers]
    doors = [rng.choice("ab") for _ in numbers]
    is_open = [rng.random() < 0.6 for _ in numbers]
    return pa.table({"door": doors, "open": is_open, "n": list(numbers), "ts": times})


def move_in(table: pa.Table, directory: Path, name: str) -> None:
    pq.write_table(table, directory / f".{name}")
    (directory / f".{name}").rename(directory / name)


def follow(tmp_path: Path, *further: object, code: int = 0) -> dict[str, object]:
    arguments = ["run", tmp_path / "doors.situ", "--follow", "--engine", "embedded", "--source"]
    arguments += [f"Door={tmp_path / 'in'}", "--checkpoint", tmp_path / "state", "--out", tmp_path / "out"]
    exit_code, out, _ = situ(*arguments, "--once", "--json", *further)
    assert exit_code == code, out
    return dict(json.loads(out.splitlines()[-1]))


def found(tmp_path: Path, name: str) -> list[dict[str, object]]:
    folder = tmp_path / "out" / name
    return pq.read_table(folder).to_pylist() if folder.exists() else []


def test_pieces_and_restarts_give_what_feeding_gives(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "doors.situ").write_text(STREAM + SHUT)
    engine, expected, late = Engine(STREAM + SHUT), [], 0
    for k in range(3):
        piece = rows(100 * k, 100, seed=k)
        move_in(piece, tmp_path / "in", f"{k}.parquet")
        ended = follow(tmp_path)
        output = engine.feed(piece)
        expected += output.complex_events["Shut"].to_pylist()
        late += sum(table.num_rows for table in output.late.values())
        assert ended["events"] == 100
        assert found(tmp_path, "Shut") == expected
    assert late
    assert pq.read_table(tmp_path / "out" / "_late" / "Door").num_rows == late


def test_rules_of_the_control_directory(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    control = tmp_path / "control"
    control.mkdir()
    (tmp_path / "doors.situ").write_text(STREAM + SHUT)
    move_in(rows(0, 100, seed=0), tmp_path / "in", "0.parquet")
    follow(tmp_path, "--control", control)
    (control / "twice.situ").write_text(TWICE)
    move_in(rows(100, 100, seed=1), tmp_path / "in", "1.parquet")
    ended = follow(tmp_path, "--control", control)
    (change,) = ended["rule_changes"]  # type: ignore[misc]
    assert change["added"] == ["Twice"]
    assert found(tmp_path, "Twice")
    assert min(row["first"] for row in found(tmp_path, "Twice")) >= 95  # type: ignore[type-var,operator]
    engine = Engine(STREAM + SHUT)  # the rule that stays finds what it would have found
    fed = [row for k in range(2) for row in engine.feed(rows(100 * k, 100, seed=k)).complex_events["Shut"].to_pylist()]
    in_order = [sorted(of, key=lambda row: (row["shut"], row["opened"])) for of in (found(tmp_path, "Shut"), fed)]
    assert in_order[0] == in_order[1]
    assert any(row["opened"] < 100 <= row["shut"] for row in fed)
    (control / "twice.situ").write_text("subscribe Wrong detect Nothing as n assign x = n.x")
    ended = follow(tmp_path, "--control", control)
    assert ended["rules_refused"] == 1
    assert ended["rule_changes"] == []


def test_demands_are_measured_and_change_in_the_control_directory(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    control = tmp_path / "control"
    control.mkdir()
    (tmp_path / "doors.situ").write_text(STREAM + TWICE)
    ended = {}
    for k, demand in enumerate(("latency < 1 h, hops < 3", "latency < 1 us")):
        (control / "shut.situ").write_text(SHUT + f"  demand {demand}\n")
        move_in(rows(100 * k, 100, seed=k), tmp_path / "in", f"{k}.parquet")
        ended[k] = follow(tmp_path, "--control", control)
    judged = [{name: demand[name] for name in ("metric", "limit", "kept")} for of in ended.values()
              for demand in of["demands"]]  # type: ignore[attr-defined]  # fmt: skip
    assert judged == [
        {"metric": "latency", "limit": 3_600_000_000, "kept": True},
        {"metric": "latency", "limit": 1, "kept": False},
    ]
    (change,) = ended[1]["rule_changes"]  # type: ignore[misc]
    assert change["replaced"] == ["Shut"]
    engine = Engine(STREAM + SHUT)  # the rule goes on with its state
    fed = [row for k in range(2) for row in engine.feed(rows(100 * k, 100, seed=k)).complex_events["Shut"].to_pylist()]
    assert any(row["opened"] < 100 <= row["shut"] for row in fed)
    in_order = [sorted(of, key=lambda row: (row["shut"], row["opened"])) for of in (found(tmp_path, "Shut"), fed)]
    assert in_order[0] == in_order[1]


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "doors.situ").write_text(STREAM + SHUT)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").touch()
    assert "not empty" in str(follow(tmp_path, code=1))
    assert "--every is for Spark" in str(follow(tmp_path, "--every", "1s", code=1))
    (tmp_path / "out" / "mine.txt").unlink()
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "query.json").touch()
    assert "something else than a checkpoint of the embedded engine" in str(follow(tmp_path, code=1))
    (tmp_path / "doors.situ").write_text(STREAM + "subscribe All detect Door as d then Door as e assign n = d.n")
    (tmp_path / "state" / "query.json").unlink()
    assert "within" in str(follow(tmp_path, code=1))


def test_what_ends_the_site_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "doors.situ").write_text(STREAM + SHUT)
    move_in(rows(0, 100, seed=0), tmp_path / "in", "0.parquet")

    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device", "out")

    monkeypatch.setattr("situ.runtime.sites.sinks.files.write_part", no_room)
    assert "No space left on device" in str(follow(tmp_path, code=1))
    monkeypatch.undo()
    follow(tmp_path)
    assert (
        found(tmp_path, "Shut") == Engine(STREAM + SHUT).feed(rows(0, 100, seed=0)).complex_events["Shut"].to_pylist()
    )
