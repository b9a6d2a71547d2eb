"""The figures of a benchmark, with few events and without the peer's process."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cli.command import situ
from situ.bench.flinkcep import PeerError, run
from situ.bench.measure import Disagreement, Measurement, measure_beside, time_embedded
from situ.bench.peer import PeerRun
from situ.bench.workload import Pattern, Workload, many_queries_text, query_text, stream_on_disk

#: What FlinkCEP 2.3 finds in the first 300,000 events.
FLINKCEP_MATCHES = [
    (Workload(Pattern.NEXT, events=300_000), 1_275),
    (Workload(Pattern.NEXT, types=3, events=300_000), 98_229),
    (Workload(Pattern.RISING, events=300_000), 389),
    (Workload(Pattern.EACH, events=300_000), 4_578),
]


@pytest.mark.parametrize(("workload", "matches"), FLINKCEP_MATCHES)
@pytest.mark.storm
def test_situ_finds_what_flinkcep_finds(workload: Workload, matches: int, tmp_path: Path) -> None:
    assert time_embedded(query_text(workload), stream_on_disk(workload, tmp_path)).matches == matches


def test_many_queries_find_what_they_find_alone(tmp_path: Path) -> None:
    workload = Workload(types=5, keys=10, events=2_000)
    directory = stream_on_disk(workload, tmp_path)
    alone = [time_embedded(_with_types(i, workload), directory).matches for i in range(3)]
    assert time_embedded(many_queries_text(workload), directory).matches == sum(alone)
    assert min(alone) > 0


def _with_types(first: int, workload: Workload) -> str:
    text = query_text(workload)
    for i in (2, 1, 0):
        text = text.replace(f"type = {i})", f"type = {first + i})")
    return text


def test_the_peer_reads_fewer_events_and_the_ratio_is_of_rates(tmp_path: Path) -> None:
    asked: list[Workload] = []

    def peer(workload: Workload) -> PeerRun:
        asked.append(workload)
        matches = time_embedded(query_text(workload), stream_on_disk(workload, tmp_path)).matches
        return PeerRun("flinkcep", workload.events, matches, 1_000.0)

    workload = Workload(types=3, keys=10, events=4_000)
    measurement = measure_beside(peer, time_embedded, workload, 1_000, tmp_path)
    assert asked == [replace(workload, events=1_000)]
    assert measurement.ratio == pytest.approx(measurement.events_per_s / 1_000)


def test_a_peer_that_finds_something_else_is_an_error(tmp_path: Path) -> None:
    workload = Workload(types=3, keys=10, events=4_000)
    with pytest.raises(Disagreement, match="in the same 1,000 events"):
        measure_beside(
            lambda shorter: PeerRun("flinkcep", shorter.events, 7, 1.0), time_embedded, workload, 1_000, tmp_path
        )


def test_figures_as_json() -> None:
    figures = Measurement(Workload(events=1_000), 12, 0.5, 2.0, PeerRun("flinkcep", 100, 1, 200.0)).to_json()
    assert figures["events_per_s"] == 2_000
    assert figures["cold_events_per_s"] == 500
    assert figures["peer"] == {"name": "flinkcep", "events": 100, "matches": 1, "events_per_s": 200}
    assert figures["ratio"] == 10.0


def test_without_a_peer_there_is_no_ratio() -> None:
    assert not {"peer", "ratio"} & Measurement(Workload(), 12, 0.5, 2.0).to_json().keys()


def test_the_peer_needs_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PeerError, match="needs 'java'"):
        run(Workload(events=10), tmp_path)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command = ["bench", "--engine", "embedded", "--types", 3, "--keys", 10, "--events", 2_000]
    code, out, err = situ(*command, "--json")
    assert code == 0, err
    figures = json.loads(out)
    assert (figures["workload"], figures["events"]) == ("next", 2_000)
    assert figures["matches"] > 0
    assert figures["events_per_s"] > 0
    code, out, _ = situ(*command)
    assert code == 0
    assert "events per s" in out
