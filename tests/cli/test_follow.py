"""`situ run --follow` as a user meets it: options, what is shown, signals, and a run from start to end."""

from __future__ import annotations

import io
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from cli.command import DOORS, situ
from situ.cli.engines import OnSpark
from situ.cli.follow import FollowOptions, job_of, local_cores, quiet_after, session_conf, stop_signals
from situ.cli.follow_recent import LastFew, Recent
from situ.cli.follow_show import JsonLines, Lines, Rate, Screen, figures_table
from situ.cli.follow_summary import FollowSummary, change_line, figures_line, lasting
from situ.core.errors import InputError, QueryError
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine
from situ.runtime.spark.checkpoint import Manifest
from situ.runtime.spark.follow import Began, Progressed, RulesChanged, RulesRefused, Waiting
from situ.runtime.spark.output import Output
from situ.runtime.spark.progress import MicroBatch, Totals
from situ.runtime.spark.result_tables import Tables, table_to_bytes
from situ.runtime.spark.rule_change import Change

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: For anything that Spark does; a busy machine may take long.
DEADLINE_S = 300


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "doors.situ").write_text(DOORS)
    (tmp_path / "in").mkdir()
    (tmp_path / "rules").mkdir()
    return tmp_path


def follow(folder: Path, *options: object) -> tuple[int, str, str]:
    return situ("run", folder / "doors.situ", "--source", f"Door={folder / 'in'}", *options)


# ---- options


@pytest.mark.parametrize(
    ("options", "cause", "remedy"),
    [
        (["--follow"], "needs a place to keep how far it is", "--checkpoint DIR"),
        (["--follow", "--checkpoint", "ck", "--engine", "embedded"], "not on the embedded engine", "--engine"),
        (["--follow", "--checkpoint", "ck", "--overwrite"], "replaces nothing", "--overwrite"),
        (["--follow", "--checkpoint", "ck", "--limit", "3"], "the last 10", "--limit"),
        (["--follow", "--checkpoint", "ck", "--once", "--every", "1s"], "--every says how often", "one of them"),
        (["--follow", "--checkpoint", "ck", "--format", "csv"], "--format csv is for files", "--out"),
        (["--follow", "--checkpoint", "ck", "--format", "csv", "--out", "kafka://h:1/t"], "is for files", "Leave it"),
        (["--follow", "--checkpoint", "ck", "--every", "soon"], "'soon' is no duration", "--every 500ms"),
        (["--follow", "--checkpoint", "ck", "--every", "10us"], "shorter than a millisecond", "--every 500ms"),
        (["--follow", "--checkpoint", "ck", "--metrics", "x"], "--metrics 'x' names no port", "--metrics 9400"),
        (["--follow", "--checkpoint", "ck", "--control", "nowhere"], "cannot read the rules", "stay as they are"),
        (["--checkpoint", "ck"], "--checkpoint is for --follow", "Add --follow"),
        (["--control", "rules"], "--control is for --follow", "Add --follow"),
        (["--every", "1s"], "--every is for --follow", "Add --follow"),
        (["--once"], "--once is for --follow", "Add --follow"),
        (["--shards", "3"], "--shards is for --follow", "Add --follow"),
        (["--levels", "3"], "--levels is for --follow", "Add --follow"),
        (["--metrics", "9400"], "--metrics is for --follow", "Add --follow"),
        (["--out", "kafka://h:9092/t"], "takes results of --follow only", "a directory"),
    ],
)
def test_options_that_make_no_sense_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], cause: str, remedy: str
) -> None:
    monkeypatch.chdir(folder)
    code, out, err = follow(folder, *options)
    assert (code, out) == (1, "")
    assert cause in err
    assert remedy in err
    assert not (folder / "ck" / "query.json").exists()


def test_a_stream_without_follow(folder: Path) -> None:
    code, _, err = situ("run", folder / "doors.situ", "--source", "Door=mqtt://ann:secret@broker/doors?qos=1")
    assert code == 1
    assert "mqtt://broker/doors is a stream that does not end" in err
    assert "secret" not in err


def test_sources_are_checked_before_spark_starts(folder: Path) -> None:
    code, _, err = situ("run", folder / "doors.situ", "--follow", "--checkpoint", folder / "ck")
    assert (code, "no source for stream Door" in err) == (1, True)
    code, _, err = follow(folder, "--follow", "--checkpoint", folder / "ck", "--source", "Dor=x")
    assert (code, "Did you mean 'Door'?" in err) == (1, True)


def test_a_query_that_cannot_run_on_is_refused_before_spark_starts(folder: Path) -> None:
    (folder / "doors.situ").write_text(DOORS.replace(" within 10 s", ""))
    code, _, err = follow(folder, "--follow", "--checkpoint", folder / "ck")
    assert code == 1
    assert "doors.situ:8:" in err
    assert "within" in err


def test_an_error_as_json(folder: Path) -> None:
    code, out, _ = follow(folder, "--follow", "--json")
    assert code == 1
    assert json.loads(out)["error"]["kind"] == "InputError"


def test_help_teaches_it() -> None:
    code, out, _ = situ("run", "--help")
    assert code == 0
    text = " ".join(out.split())
    for words in ("--follow --source Vehicle=incoming", "Vehicle=kafka://", "--control", "--metrics 9400"):
        assert words in text


def test_a_job(folder: Path) -> None:
    options = FollowOptions(folder / "ck", folder / "rules", "1.5s", False, 3, 2)
    job = job_of(folder / "doors.situ", [f"Door={folder / 'a=b'}"], options)
    assert (job.text, job.addresses) == (DOORS, {"Door": str(folder / "a=b")})
    assert (job.every_us, job.once, job.shards, job.levels) == (1_500_000, False, 3, 2)


@pytest.mark.parametrize(
    ("master", "conf", "environ", "cores"),
    [
        ("local[3]", {}, {}, 3),
        ("local", {}, {}, 1),
        ("local[3,2]", {}, {}, 3),
        (None, {"spark.master": "local[5]"}, {}, 5),
        (None, {}, {"SPARK_REMOTE": "local[6]"}, 6),
        (None, {"spark.remote": "local[4]"}, {}, 4),
        ("local[*]", {}, {}, len(os.sched_getaffinity(0))),
        (None, {}, {}, len(os.sched_getaffinity(0))),
        ("yarn", {}, {}, None),
        ("sc://host", {}, {}, None),
        (None, {}, {"SPARK_REMOTE": "sc://host"}, None),
    ],
)
def test_cores(master: str | None, conf: dict[str, str], environ: dict[str, str], cores: int | None) -> None:
    assert local_cores(OnSpark(master, conf), environ) == cores


def test_the_settings_of_a_new_session(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = "spark.sql.shuffle.partitions"
    spark = OnSpark("local[3]", {"spark.a": "b"})
    known = Manifest("id", {}, {}, 8, 7, 1)
    monkeypatch.setattr("situ.cli.follow.running_session", lambda: None)
    assert session_conf(spark, None, ["in"]) == {"spark.a": "b", partitions: "3"}
    assert session_conf(spark, known, ["in"]) == {"spark.a": "b", partitions: "7"}
    assert session_conf(OnSpark("local[3]", {partitions: "9"}), known, ["in"]) == {partitions: "9"}
    assert session_conf(OnSpark("yarn", {}), None, ["in"]) == {}
    connector = {"spark.jars": "/jars/spark-sql-kafka-0-10_2.13.jar"}
    assert session_conf(OnSpark("yarn", connector), None, ["in", "kafka://host:9092/doors"]) == connector
    monkeypatch.setattr("situ.cli.follow.running_session", object)
    assert session_conf(spark, None, ["kafka://host:9092/doors"]) == {"spark.a": "b"}


def test_the_first_signal_asks_and_the_second_one_insists() -> None:
    stop = threading.Event()
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with stop_signals(stop):
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_errors_count_until_the_end() -> None:
    ended = threading.Event()
    with pytest.raises(ConnectionRefusedError), quiet_after(ended):
        raise ConnectionRefusedError
    ended.set()
    with quiet_after(ended):
        raise ConnectionRefusedError


# ---- what is shown

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


def totals() -> Totals:
    found = Totals(rule_changes=1)
    found.add(BATCH)
    return found


def test_figures_in_a_line() -> None:
    assert figures_line(totals(), 250.0) == (
        "500 events, 250 events/s, 3 complex events, 1 late, 2 rejected, micro-batch 7 in 2.00 s, state 2.5 MB, "
        "watermark 2026-03-01 09:59:50, latency 0.50 s, at most 1.25 s"
    )
    assert figures_line(Totals(), 0.0) == "0 events, 0 events/s, 0 complex events, watermark none yet"


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
    show.tell(Waiting())


def events(name: str, **columns: list[Any]) -> pa.Table:
    rows = pa.table({"name": [name], "rows": [5], "packed": pa.array([table_to_bytes(pa.table(columns))], pa.binary())})
    return table_to_bytes(rows)


@pytest.fixture
def recent(tmp_path: Path) -> Recent:
    times = pa.array([0, 1_000_000], pa.timestamp("us", tz="UTC"))
    (tmp_path / "7").write_bytes(events("Rise", low=pa.array([1.0, 2.0]), _time=times))
    return Recent(tmp_path, 10)


def test_json_lines(capsys: pytest.CaptureFixture[str], recent: Recent) -> None:
    show = JsonLines(Totals(), recent, lambda error: {"cause": error.cause})
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


def test_lines_come_every_few_seconds(capsys: pytest.CaptureFixture[str], recent: Recent) -> None:
    now = 0.0
    show = Lines(Totals(), recent, lambda: now)
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
    show.tell(Waiting())
    assert capsys.readouterr().out == ""
    now = 10.0
    show.tell(Waiting())
    assert "1,000 events, 100 events/s" in capsys.readouterr().out
    now = 20.0
    show.tell(Waiting())
    assert capsys.readouterr().out == ""
    show.end(summary())
    assert (show.refused, show.counts) == (1, Counter(Rise=5))
    assert "results are in found" in capsys.readouterr().out


def test_a_screen(monkeypatch: pytest.MonkeyPatch, recent: Recent) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr("situ.cli.follow_show.Console", lambda: console)
    with Screen(Totals(), recent) as show:
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

    output = Output.of(contexts_of(graph, default, provenance=False), False, streams=("Door",))
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
    from situ.runtime.spark.result_tables import bytes_to_table

    last = bytes_to_table(row["packed"])
    assert last.column("door").to_pylist() == ["d7", "d8", "d9"]
    assert last.column_names == ["door", "opened", "shut", "_time"]
    assert list(LastFew(Tables(output), 3)(iter([]))) == []


def test_what_came_is_taken_once(tmp_path: Path) -> None:
    times = pa.array([0, 1], pa.timestamp("us", tz="UTC"))
    (tmp_path / "10").write_bytes(events("Rise", low=[3.0, 4.0], _time=times))
    (tmp_path / "9").write_bytes(events("Rise", low=[1.0, 2.0], _time=times))
    (tmp_path / ".11").write_bytes(b"unfinished")
    recent = Recent(tmp_path, 3)
    found = recent.take()["Rise"]
    assert (found.count, sorted(found.last.column("low").to_pylist())[-1]) == (10, 4.0)
    assert found.last.num_rows == 3
    assert recent.take() == {}
    (tmp_path / "12").write_bytes(events("Rise", low=[1.0, 2.0], _time=times))
    (tmp_path / "13").write_bytes(events("Rise", high=["x", "y"], _time=times))  # replaced meanwhile
    assert recent.take()["Rise"].last.column_names == ["high", "_time"]
    recent.clear()
    assert list(tmp_path.iterdir()) == []


# ---- with Spark

SECOND = 1_000_000
KNOCK = "subscribe Knock detect Door(state = 'knock') as k assign door = k.door, n = k.n\n"


def doors(part: int) -> pa.Table:
    """Each part is a minute; its doors are knocked at, opened and shut."""
    states = ["knock", "open", "shut"]
    rows = [
        {"door": f"d{n % 5}", "state": states[n // 5 % 3], "n": 100 * part + n, "ts": (60 * part + n) * SECOND}
        for n in range(30)
    ]
    schema = pa.schema([("door", pa.string()), ("state", pa.string()), ("n", pa.int64()),
                        ("ts", pa.timestamp("us", tz="UTC"))])  # fmt: skip
    return pa.Table.from_pylist(rows, schema)


def give(folder: Path, part: int) -> None:
    pq.write_table(doors(part), folder / f"{part}.parquet")
    (folder / f"{part}.parquet").rename(folder / "in" / f"{part}.parquet")


def shown(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def expected(query: str, parts: range) -> Counter[tuple[Any, ...]]:
    output = Engine(query).feed(pa.concat_tables([doors(part) for part in parts]))
    (found,) = output.complex_events.values()
    return shown(found)


def found(folder: Path, subscription: str) -> Counter[tuple[Any, ...]]:
    return shown(pq.read_table(folder / "out" / subscription))


@pytest.mark.slow
def test_what_is_there_is_read_and_shown(spark: SparkSession, folder: Path) -> None:
    give(folder, 0)
    options = ["--follow", "--checkpoint", folder / "ck", "--once"]
    code, out, err = follow(folder, *options)
    assert (code, err) == (0, "")
    want = expected(DOORS, range(1))
    assert f"30 events, {want.total()} complex events in 1 micro-batch" in out
    assert f"{want.total():>12,}  Shut" in out
    assert f"Shut at 1970-01-01 00:00:{max(row[-1] for row in want).second:02}: " in out
    code, out, _ = follow(folder, *options, "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["event"] for line in lines] == ["began", "end"]
    assert (lines[0]["micro_batch"], lines[1]["events"]) == (1, 0)


class Process:
    """`situ run --follow --json` in a process group of its own, as a terminal has it."""

    def __init__(self, folder: Path, *options: object) -> None:
        arguments = [
            "run", folder / "doors.situ", "--follow", "--json", "--source", f"Door={folder / 'in'}", "--master",
            "local[2]", "--checkpoint", folder / "ck", "--control", folder / "rules", "--out", folder / "out", *options,
        ]  # fmt: skip
        self.errors = (folder / "stderr").open("a+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "situ.cli.app", *map(str, arguments)],
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self.lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def until(self, event: str) -> dict[str, Any]:
        while True:
            line = self.lines.get(timeout=DEADLINE_S)
            assert line is not None, f"it ended without {event}"
            assert "error" not in line, line
            if line["event"] == event:
                return line

    def ended(self) -> int:
        code = self.process.wait(DEADLINE_S)
        self.reader.join()
        self.errors.close()
        return code


@pytest.fixture
def start(folder: Path) -> Iterator[Any]:
    started: list[Process] = []

    def start(*options: object) -> Process:
        started.append(Process(folder, *options))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            os.killpg(one.process.pid, signal.SIGKILL)
        one.ended()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["classic", "connect"])
def test_a_run_from_start_to_end(folder: Path, start: Any, mode: str) -> None:
    """Rules come while it runs; Ctrl-C, as a terminal does it; a later start goes on, until SIGTERM."""
    give(folder, 0)
    run = start("--conf", f"spark.api.mode={mode}", "--metrics", "0", "--every", "100ms")
    url = run.until("metrics")["url"]
    assert run.until("began")["shards"] == 2
    assert run.until("micro-batch")["events"] == 30
    (folder / "rules" / "knock.situ").write_text(KNOCK)
    changed = run.until("rules changed")
    assert (changed["added"], changed["micro_batch"], changed["after"]) == (["Knock"], 1, "1970-01-01 00:00:29")
    assert changed["pause_s"] > 0
    code, _, err = follow(folder, "--follow", "--checkpoint", folder / "ck")
    assert (code, f"another process runs the query of this checkpoint: number {run.process.pid}" in err) == (1, True)
    give(folder, 1)
    assert run.until("micro-batch")["number"] == 1
    with urllib.request.urlopen(url, timeout=60) as answer:
        text = answer.read().decode()
    assert "situ_input_rows_total 60\n" in text
    assert "situ_rule_changes_total 1\n" in text
    os.killpg(run.process.pid, signal.SIGINT)
    end = run.until("end")
    assert (end["events"], end["micro_batches"], len(end["rule_changes"])) == (60, 2, 1)
    assert run.ended() == 0

    give(folder, 2)
    run = start("--conf", f"spark.api.mode={mode}")
    assert run.until("began")["micro_batch"] == 2
    assert run.until("micro-batch")["number"] == 2
    os.kill(run.process.pid, signal.SIGTERM)
    assert run.until("end")["events"] == 30
    assert run.ended() == 0
    assert found(folder, "Shut") == expected(DOORS, range(3))
    knocks = DOORS[: DOORS.index("define")] + KNOCK
    assert found(folder, "Knock") == expected(knocks, range(1, 3))
    # PySpark's own threads may complain that Java has gone; no error of situ's may be among that.
    assert f"{os.sep}situ{os.sep}" not in (folder / "stderr").read_text()


def test_an_interval_is_a_duration(folder: Path) -> None:
    options = FollowOptions(folder / "ck", every="2 min")
    assert job_of(folder / "doors.situ", ["Door=in"], options).every_us == 120_000_000
    with pytest.raises(InputError, match="shorter than a millisecond"):
        job_of(folder / "doors.situ", ["Door=in"], FollowOptions(folder / "ck", every="-3 s"))
