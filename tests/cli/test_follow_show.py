"""How `situ run --follow` says what happens: figures, summaries, and the last complex events."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from rich.console import Console

from cli.command import DOORS
from situ.cli.follow_recent import LastFew, RecentDirectory
from situ.cli.follow_show import JsonLines, Lines, Rate, Screen, figures_table
from situ.cli.follow_summary import FollowSummary, change_line, figures_line, lasting
from situ.core.errors import QueryError
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.reuse.totals import Totals
from situ.runtime.spark.sinks.result_tables import Tables, table_to_bytes
from situ.runtime.spark.stages.output import TaggedOutput
from situ.service.figures import MicroBatch, StreamCounts, StreamTotals
from situ.service.rules import Change
from situ.service.told import Began, Progressed, RulesChanged, RulesRefused, TimePassed

if TYPE_CHECKING:
    pass

BATCH = MicroBatch(
    number=7,
    begun=1_772_359_200.0,
    seconds=2.0,
    input=500,
    candidates=40,
    complex_events=3,
    late=1,
    rejected=2,
    state_bytes=2_500_000,
    largest_shard_bytes=2_000_000,
    largest_shard_candidates=30,
    mean_shard_candidates=10.0,
    watermark=1_772_359_190.0,
    mean_latency_s=0.5,
    max_latency_s=1.25,
)
CHANGE = RulesChanged(2, Change(added=("Fall",)), 8, 1_772_359_190.0, 0.8125, ("Fall: no window.",))


def totals() -> StreamTotals:
    found = StreamTotals(rule_changes=1)
    found.add(BATCH)
    return found


def test_figures_in_a_line() -> None:
    assert figures_line(totals(), 250.0) == (
        "500 events, 250 events/s, 3 complex events, 2 rejected, 1 late, micro-batch 7 in 2.00 s, state 2.5 MB, "
        "watermark 2026-03-01 09:59:50, latency 0.50 s, at most 1.25 s"
    )
    failed = StreamTotals()
    failed.add(replace(BATCH, failed_calls=4))
    assert "1 late, 4 failed calls, micro-batch 7" in figures_line(failed, 250.0)
    shared = StreamTotals(StreamCounts(input=9, reuse=Totals(interests=40, covered=36)))
    assert "36 of 40 interests covered" in figures_line(shared, 250.0)
    assert figures_line(StreamTotals(), 0.0) == "0 events, 0 events/s, 0 complex events, watermark none yet"


def test_a_change_in_a_line() -> None:
    assert change_line(CHANGE) == (
        "rules 2: added Fall; from micro-batch 8 on, after 2026-03-01 09:59:50, pause 0.81 s"
    )
    unknown = RulesChanged(2, Change(removed=("Fall",)), 8, None, None)
    assert change_line(unknown) == "rules 2: removed Fall; from micro-batch 8 on"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.5, "0.50 s"), (119.0, "119.00 s"), (1800.0, "30 min"), (86400.0 * 365, "365 days")]
)
def test_latencies(seconds: float, shown: str) -> None:
    assert lasting(seconds) == shown


def test_a_rate_is_of_the_last_seconds() -> None:
    now = [0.0]
    rate = Rate(lambda: now[-1])
    assert rate.now() == 0.0
    for moment, seen in [(1.0, 100), (2.0, 200), (10.0, 1000), (12.0, 1400)]:
        now.append(moment)
        rate.see(seen)
    assert rate.now() == (1400 - 200) / 10
    now.append(22.0)
    assert rate.now() == (1400 - 200) / 20


def test_the_figures_of_a_terminal() -> None:
    console = Console(file=io.StringIO(), width=100)
    console.print(figures_table(totals(), 250.0))
    assert isinstance(console.file, io.StringIO)
    text = " ".join(console.file.getvalue().split())
    assert "events 500, 250 per second now" in text
    assert "state 2.5 MB, the largest shard has 3.0 times the mean" in text


def summary(**more: Any) -> FollowSummary:
    values: dict[str, Any] = {"totals": totals(), "changes": (CHANGE,), "refused": 1, "seconds": 4.0}
    values |= {"out": "found", "checkpoint": Path("ck"), "counts": {}}
    return FollowSummary(**(values | more))


def test_the_summary() -> None:
    assert str(summary()).splitlines() == [
        "500 events, 3 complex events in 1 micro-batch and 4.00 s (125 events/s), 2 rejected, 1 late, "
        "1 change of rules refused",
        "rules 2: added Fall; from micro-batch 8 on, after 2026-03-01 09:59:50, pause 0.81 s",
        "results are in found",
        "the same command goes on from here: --checkpoint ck",
    ]
    assert "           3  Rise" in str(summary(out=None, counts={"Rise": 3}))


def told_everything(show: JsonLines | Lines | Screen) -> None:
    show.tell(Began("id", 1, 7, 4, 1, ("Rise: no window.",)))
    show.totals.add(BATCH)
    show.tell(Progressed(BATCH))
    show.tell(CHANGE)
    show.tell(RulesRefused(QueryError("no such thing", place="a.situ", remedy="Leave it.")))
    show.tell(TimePassed())


def events(name: str, **columns: list[Any]) -> pa.Table:
    rows = pa.table({"name": [name], "rows": [5], "packed": pa.array([table_to_bytes(pa.table(columns))], pa.binary())})
    return table_to_bytes(rows)


@pytest.fixture
def recent(tmp_path: Path) -> RecentDirectory:
    times = pa.array([0, 1_000_000], pa.timestamp("us", tz="UTC"))
    (tmp_path / "7").write_bytes(events("Rise", low=pa.array([1.0, 2.0]), _time=times))
    return RecentDirectory(tmp_path, 10)


def test_json_lines(capsys: pytest.CaptureFixture[str], recent: RecentDirectory) -> None:
    show = JsonLines(StreamTotals(), recent, lambda error: {"cause": error.cause})
    told_everything(show)
    show.end(summary())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.pop("event") for line in lines] == [
        "began", "micro-batch", "complex events", "rules changed", "rules refused", "end"
    ]  # fmt: skip
    began, batch, found, changed, refused, end = lines
    assert began == {
        "query": "id", "rules": 1, "micro_batch": 7, "shards": 4, "levels": 1, "warnings": ["Rise: no window."]
    }  # fmt: skip
    assert (batch["number"], batch["events"], batch["events_per_s"], batch["skew"]) == (7, 500, 250.0, 3.0)
    assert (found["name"], found["count"], [row["low"] for row in found["last"]]) == ("Rise", 5, [1.0, 2.0])
    assert (changed["added"], changed["micro_batch"], changed["pause_s"]) == (["Fall"], 8, 0.812)
    assert refused == {"error": {"cause": "no such thing"}}
    assert (end["events"], end["rules_refused"], end["rule_changes"]) == (500, 1, [changed])


def test_lines_come_every_few_seconds(capsys: pytest.CaptureFixture[str], recent: RecentDirectory) -> None:
    now = 0.0
    show = Lines(StreamTotals(), recent, lambda: now)
    told_everything(show)
    out, err = capsys.readouterr()
    assert "following, from micro-batch 7 on" in out
    assert "rules 2: added Fall" in out
    assert "warning: Fall: no window." in out
    assert "500 events, " in out
    assert "Rise at 1970-01-01 00:00:01: low 2.00" in out
    assert err == "the rules stay as they are: a.situ: no such thing.\n  Leave it.\n"
    now = 4.0
    show.totals.add(BATCH)
    show.tell(Progressed(BATCH))
    show.tell(TimePassed())
    assert capsys.readouterr().out == ""
    now = 10.0
    show.tell(TimePassed())
    assert "1,000 events, 100 events/s" in capsys.readouterr().out
    now = 20.0
    show.tell(TimePassed())
    assert capsys.readouterr().out == ""
    show.end(summary())
    assert (show.refused, show.counts) == (1, Counter(Rise=5))
    assert "results are in found" in capsys.readouterr().out


def test_a_screen(monkeypatch: pytest.MonkeyPatch, recent: RecentDirectory) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr("situ.cli.follow_show.Console", lambda: console)
    with Screen(StreamTotals(), recent) as show:
        told_everything(show)
        show.end(summary())
    assert isinstance(console.file, io.StringIO)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    for words in ("Rise: 5, the last 2", "2026-03-01 09:59:50", "no such thing", "rules 2: added Fall", "found"):
        assert words in text


# ---- the last complex events


def test_a_task_counts_and_keeps_the_last() -> None:
    graph = resolve(parse(DOORS))
    from situ.core.functions import default
    from situ.kernel.operator import contexts_of

    output = TaggedOutput.of(contexts_of(graph, default, provenance=False), False, streams=("Door",))
    schema = pa.schema([(n, pa.string() if n in ("_kind", "_name") else t) for n, t in output.fields.items()])
    batches = [
        pa.RecordBatch.from_pylist(
            [
                {"_kind": "complex event", "_name": "Shut", "_time": n * 1_000_000, "door": f"d{n}", "shut": n}
                for n in range(begin, begin + 5)
            ],
            schema,
        )
        for begin in (5, 0)
    ]
    (found,) = LastFew(Tables(output), 3)(iter(batches))
    (row,) = found.to_pylist()
    assert (row["name"], row["rows"]) == ("Shut", 10)
    from situ.runtime.spark.sinks.result_tables import bytes_to_table

    last = bytes_to_table(row["packed"])
    assert last.column("door").to_pylist() == ["d7", "d8", "d9"]
    assert last.column_names == ["door", "opened", "shut", "_time"]
    assert list(LastFew(Tables(output), 3)(iter([]))) == []


def test_what_came_is_taken_once(tmp_path: Path) -> None:
    times = pa.array([0, 1], pa.timestamp("us", tz="UTC"))
    (tmp_path / "10").write_bytes(events("Rise", low=[3.0, 4.0], _time=times))
    (tmp_path / "9").write_bytes(events("Rise", low=[1.0, 2.0], _time=times))
    (tmp_path / ".11").write_bytes(b"unfinished")
    recent = RecentDirectory(tmp_path, 3)
    found = recent.take()["Rise"]
    assert (found.count, sorted(found.last.column("low").to_pylist())[-1]) == (10, 4.0)
    assert found.last.num_rows == 3
    assert recent.take() == {}
    (tmp_path / "12").write_bytes(events("Rise", low=[1.0, 2.0], _time=times))
    (tmp_path / "13").write_bytes(events("Rise", high=["x", "y"], _time=times))  # replaced meanwhile
    assert recent.take()["Rise"].last.column_names == ["high", "_time"]
    recent.clear()
    assert list(tmp_path.iterdir()) == []
