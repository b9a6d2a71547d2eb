"""The benchmark's streams are the ones that FlinkCep.java draws."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from situ.bench.workload import Pattern, Workload, events, many_queries_text, query_text, stream_on_disk


def test_the_first_events_are_those_of_the_peer() -> None:
    table = events(0, 5, types=100, keys=1000).to_pydict()
    assert table["id"] == [0, 1, 2, 3, 4]
    assert table["key"] == [496, 325, 517, 380, 627]
    assert table["type"] == [41, 48, 69, 92, 63]
    assert table["value"] == [623, 817, 974, 381, 138]


def test_late_events_many_keys_and_few_types_are_those_of_the_peer() -> None:
    table = events(7_999_998, 8_000_000, types=3, keys=100_000).to_pydict()
    assert table["key"] == [48589, 96863]
    assert table["type"] == [2, 1]
    assert table["value"] == [215, 310]


def test_the_time_is_the_number_in_milliseconds() -> None:
    times = events(1_000, 1_003, types=3, keys=10).column("ts")
    assert times.type == pa.timestamp("us", tz="UTC")
    assert times.cast(pa.int64()).to_pylist() == [1_000_000, 1_001_000, 1_002_000]


def test_files_hold_the_stream_in_order(tmp_path: Path) -> None:
    workload = Workload(types=7, keys=5, events=1_003)
    directory = stream_on_disk(workload, tmp_path)
    assert len(list(directory.iterdir())) == 8
    assert pq.read_table(directory).equals(events(0, 1_003, types=7, keys=5))


def test_files_are_made_once(tmp_path: Path) -> None:
    workload = Workload(events=16)
    made = {file: file.stat().st_mtime_ns for file in stream_on_disk(workload, tmp_path).iterdir()}
    assert {file: file.stat().st_mtime_ns for file in stream_on_disk(workload, tmp_path).iterdir()} == made


def test_another_stream_has_other_files(tmp_path: Path) -> None:
    workloads = [Workload(events=16), Workload(events=16, types=3), Workload(events=16, keys=3), Workload(events=17)]
    assert len({stream_on_disk(workload, tmp_path) for workload in workloads}) == len(workloads)


def test_the_pattern_does_not_change_the_stream(tmp_path: Path) -> None:
    paths = {stream_on_disk(Workload(pattern, events=16), tmp_path) for pattern in Pattern}
    assert len(paths) == 1


def test_each_pattern_has_its_query() -> None:
    texts = {pattern: query_text(Workload(pattern, window_ms=250)) for pattern in Pattern}
    assert "then each Event(type = 1)" in texts[Pattern.EACH]
    assert "then Event(type = 1)" in texts[Pattern.NEXT]
    assert "value > a.value + 500" in texts[Pattern.RISING]
    assert all("within 250 ms" in text for text in texts.values())


def test_many_queries_are_the_triples_of_neighbouring_types() -> None:
    text = many_queries_text(Workload(types=5))
    assert text.count("subscribe") == 3
    assert "Event(type = 2) as a then Event(type = 3) as b then Event(type = 4) as c" in text
    assert "type = 5" not in text
