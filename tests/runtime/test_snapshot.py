"""Snapshots: bytes of one version, in sections, of the same program."""

from __future__ import annotations

import pyarrow as pa
import pytest

from situ.core.errors import StateError
from situ.kernel.state import snapshot
from situ.runtime.embedded import Engine

STREAM = "stream Reading(sensor string, value double, ts int) time ts in s\n"
RISE = """subscribe Rise
  detect   Reading as a then Reading(value > a.value + {}) as b within 10 s
  assign   sensor = a.sensor, by = b.value - a.value
  group by sensor
"""


def readings(*rows: tuple[str, float, int]) -> pa.Table:
    sensors, values, times = zip(*rows, strict=True)
    return pa.table({"sensor": sensors, "value": values, "ts": times})


def fed(text: str) -> Engine:
    engine = Engine(text)
    engine.feed(readings(("a", 1.0, 0), ("b", 1.0, 1), ("a", 2.0, 2), ("c", 9.0, 3)))
    return engine


def rises(engine: Engine) -> list[tuple[str, float]]:
    found = engine.feed(readings(("a", 7.5, 4), ("b", 7.5, 5))).complex_events["Rise"].to_pylist()
    found += engine.close().complex_events["Rise"].to_pylist()
    return sorted((row["sensor"], row["by"]) for row in found)


def test_another_engine_goes_on() -> None:
    engine = fed(STREAM + RISE.format(5))
    other = Engine(STREAM + RISE.format(5))
    other.restore(engine.snapshot())
    assert rises(other) == rises(engine) == [("a", 5.5), ("a", 6.5), ("b", 6.5)]


def test_a_snapshot_of_a_restored_engine_is_the_same() -> None:
    data = fed(STREAM + RISE.format(5)).snapshot()
    other = Engine(STREAM + RISE.format(5))
    other.restore(data)
    assert snapshot.unpack(other.snapshot()) == snapshot.unpack(data)


def test_state_of_another_program_is_refused() -> None:
    data = fed(STREAM + RISE.format(5)).snapshot()
    changed = Engine(STREAM + RISE.format(6))
    with pytest.raises(StateError, match="state of Rise is of another program"):
        changed.restore(data)


@pytest.mark.parametrize(
    ("old", "new"),
    [("by = b.value - a.value", "by = a.ts"), ("group by sensor", "group by sensor after match skip past last")],
)
def test_state_for_other_assignments_or_policies_is_refused(old: str, new: str) -> None:
    data = fed(STREAM + RISE.format(5)).snapshot()
    with pytest.raises(StateError, match="of another program"):
        Engine(STREAM + RISE.format(5).replace(old, new)).restore(data)


def test_a_changed_rule_starts_afresh_and_leaves_the_others_alone() -> None:
    second = RISE.format(1).replace("Rise", "Other")
    data = fed(STREAM + RISE.format(5) + second).snapshot()
    engine = Engine(STREAM + RISE.format(5) + second.replace("10 s", "11 s"))
    engine.restore(data, changed=["Other"])
    output = engine.feed(readings(("a", 7.5, 4), ("z", 0.0, 9)))
    assert output.complex_events["Rise"].num_rows == 2
    assert output.complex_events["Other"].num_rows == 0  # its partial matches are gone; (c, 3) and (a, 4) do not rise


def test_groups_by_number_keep_their_state() -> None:
    """Keys that do not come in their own order, and a null."""
    query = (STREAM + RISE.format(5)).replace("sensor string", "sensor int")
    rows = [(7, 1.0, 0), (None, 1.0, 1), (3, 2.0, 2), (5, 9.0, 3)]
    engine = Engine(query)
    engine.feed([{"sensor": sensor, "value": value, "ts": ts} for sensor, value, ts in rows])
    for _ in range(2):
        other = Engine(query)
        other.restore(engine.snapshot())
        engine = other
    engine.feed([{"sensor": sensor, "value": 7.5, "ts": 4} for sensor in (3, 7, None)])
    found = engine.close().complex_events["Rise"].to_pylist()
    assert sorted((str(row["sensor"]), row["by"]) for row in found) == [("3", 5.5), ("7", 6.5), ("None", 6.5)]


def test_sections_are_rows_by_group() -> None:
    tables = snapshot.unpack(fed(STREAM + RISE.format(5)).snapshot())
    section = tables["operator/Rise/case 0"]
    assert section.column("key 0").to_pylist() == ["a", "b"]  # c is at the watermark and not read yet
    only_b = dict(tables)
    only_b["operator/Rise/case 0"] = section.filter(pa.array([False, True])).replace_schema_metadata(
        section.schema.metadata
    )
    engine = Engine(STREAM + RISE.format(5))
    engine.restore(snapshot.pack(only_b))
    assert rises(engine) == [("b", 6.5)]


@pytest.mark.parametrize("data", [b"", b"not a snapshot", b"\xff" * 100])
def test_bytes_that_are_no_snapshot(data: bytes) -> None:
    with pytest.raises(StateError, match="no snapshot"):
        Engine(STREAM + RISE.format(5)).restore(data)


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = fed(STREAM + RISE.format(5)).snapshot()
    written = snapshot.VERSION
    monkeypatch.setattr(snapshot, "VERSION", written + 1)
    with pytest.raises(StateError, match=f"version {written}, this situ reads version {written + 1}"):
        Engine(STREAM + RISE.format(5)).restore(data)


def test_state_is_bounded_by_windows() -> None:
    """Ever new keys, each with one event: the state forgets them when their windows have passed."""
    engine = Engine(STREAM + RISE.format(5))
    sizes = []
    for block in range(40):
        rows = [(f"s{block}-{i}", 0.0, block * 20 + i % 10) for i in range(500)]
        engine.feed(readings(*sorted(rows, key=lambda row: row[2])))
        sizes.append(len(engine.snapshot()))
    assert max(sizes[20:]) <= max(sizes[:20])
    node = engine._flow.nodes["Rise"].operator
    assert len(node.cases[0].state.groups) <= 12_000  # of 20,000 keys  # type: ignore[attr-defined]
