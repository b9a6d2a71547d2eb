"""`make demo`: the traffic example finds what a plain loop over the same rows finds."""

from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cli.command import situ

TRAFFIC = Path(__file__).parents[2] / "examples" / "traffic"
STANDING = 0.5
MANY = 12


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "out"
    source = f"Vehicle={TRAFFIC / 'vehicles.parquet'}"
    code, _, err = situ("run", TRAFFIC / "traffic.situ", "--source", source, "--out", out)
    assert code == 0, err
    return out


def fast_braking(rows: list[dict]) -> set[tuple[str, float]]:
    """Vehicle and time of every braking: the first loss of more than 8 m/s in 2 s, then on after it."""
    tracks = defaultdict(list)
    for row in rows:
        tracks[row["vehicle"]].append((row["time_s"], row["speed"]))
    brakings = set()
    for vehicle, track in tracks.items():
        begin = 0
        while begin < len(track):
            time, speed = track[begin]
            following = [i for i in range(begin + 1, min(begin + 3, len(track))) if track[i][0] <= time + 2]
            end = next((i for i in following if track[i][1] < speed - 8), None)
            if end is not None and track[end][1] > 8:
                brakings.add((vehicle, track[end][0]))
            begin = begin + 1 if end is None else end + 1
    return brakings


def queues(rows: list[dict]) -> set[tuple[str, int]]:
    """Lane and end, in minutes, of every three minutes in a row in which many vehicles stand; each minute once."""
    standing = defaultdict(set)
    for row in rows:
        if row["speed"] < STANDING:
            standing[row["lane"], int(row["time_s"]) // 60].add(row["vehicle"])
    crowded = {place for place, vehicles in standing.items() if len(vehicles) > MANY}
    found, taken = set(), set()
    for lane, minute in sorted(crowded):
        three = {(lane, minute + i) for i in range(3)}
        if three <= crowded and not three & taken:
            found.add((lane, minute + 3))
            taken |= three
    return found


@pytest.mark.slow
def test_the_demo_finds_what_a_loop_finds(found: Path) -> None:
    rows = pq.read_table(TRAFFIC / "vehicles.parquet").to_pylist()
    brakings = pq.read_table(found / "FastBraking").to_pylist()
    expected = fast_braking(rows)
    assert {(row["vehicle"], row["_time"].timestamp()) for row in brakings} == expected
    assert len(brakings) == len(expected) > 0
    expected_queues = queues(rows)
    found_queues = pq.read_table(found / "Queue").to_pylist()
    assert {(row["lane"], int(row["_time"].timestamp()) // 60) for row in found_queues} == expected_queues
    assert len(found_queues) == len(expected_queues) > 0


@pytest.mark.slow
def test_every_situation_of_the_demo_happens_inside_the_map(found: Path) -> None:
    for name in ("FastBraking", "Queue", "Accident"):
        table = pq.read_table(found / name)
        assert table.num_rows > 0
        for row in table.to_pylist():
            assert 0 <= row["_x_min"] <= row["_x_max"] <= 2_670
            assert 0 <= row["_y_min"] <= row["_y_max"] <= 2_680
