"""`situ run --follow` as a user meets it: options, signals, and a run from start to end."""

from __future__ import annotations

import json
import os
import queue
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

from cli.command import DOORS, situ
from servers.debian import wait_until
from situ.cli.engines import OnSpark
from situ.cli.follow import job_of, local_cores, quiet_after, session_conf, stop_signals
from situ.cli.run_options import FollowOptions
from situ.core.errors import InputError
from situ.runtime.embedded import Engine
from situ.runtime.spark.follow.checkpoint import Manifest

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
        (["--follow", "--checkpoint", "ck", "--engine", "embedded", "--shards", "3"], "is for Spark", "--engine"),
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
        (["--clock-back-to", "2026-03-01"], "--clock-back-to is for --follow", "Add --follow"),
        (["--follow", "--checkpoint", "ck", "--clock-back-to", "noon"], "'noon' is no time", "2026-03-01T10:00:00"),
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


@pytest.mark.parametrize("text", ["2026-03-01T10:00:00", " 2026-03-01 11:00+01:00", "2026-03-01T10:00:00Z"])
def test_a_time_to_which_the_clock_goes_back(folder: Path, text: str) -> None:
    options = FollowOptions(folder / "ck", clock_back_to=text)
    assert job_of(folder / "doors.situ", ["Door=in"], options).clock_back_to_us == 1_772_359_200_000_000


def test_an_interval_is_a_duration(folder: Path) -> None:
    options = FollowOptions(folder / "ck", every="2 min")
    assert job_of(folder / "doors.situ", ["Door=in"], options).every_us == 120_000_000
    with pytest.raises(InputError, match="shorter than a millisecond"):
        job_of(folder / "doors.situ", ["Door=in"], FollowOptions(folder / "ck", every="-3 s"))


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


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.storm
def test_a_run_from_start_to_end(folder: Path, start: Any, spark: SparkSession) -> None:
    """Rules come while it runs; Ctrl-C, as a terminal does it; a later start goes on."""
    run_and_interrupt(folder, start)
    give(folder, 2)
    code, out, err = follow(
        folder, "--follow", "--once", "--json", "--checkpoint", folder / "ck", "--control", folder / "rules", "--out",
        folder / "out",
    )  # fmt: skip
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert (lines[0]["event"], lines[0]["micro_batch"]) == ("began", 2)
    assert (lines[-1]["event"], lines[-1]["events"]) == ("end", 30)
    check_results(folder)


@pytest.mark.spark
@pytest.mark.storm
def test_a_later_start_on_spark_connect_goes_on(folder: Path, start: Any) -> None:
    run_and_interrupt(folder, start)
    give(folder, 2)
    run = start("--conf", "spark.api.mode=connect")
    assert run.until("began")["micro_batch"] == 2
    assert run.until("micro-batch")["number"] == 2
    (folder / "rules" / "knock.situ").unlink()
    assert run.until("rules changed")["removed"] == ["Knock"]
    os.killpg(run.process.pid, signal.SIGINT)
    assert run.until("end")["events"] == 30
    assert run.ended() == 0
    check_results(folder)


def run_and_interrupt(folder: Path, start: Any) -> None:
    """A process that reads two parts, with a rule that comes between them."""
    give(folder, 0)
    run = start("--metrics", "0", "--every", "100ms")
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


def check_results(folder: Path) -> None:
    """Of three parts; the second rule has read the last two of them."""
    assert found(folder, "Shut") == expected(DOORS, range(3))
    knocks = DOORS[: DOORS.index("define")] + KNOCK
    assert found(folder, "Knock") == expected(knocks, range(1, 3))
    # PySpark's own threads may complain that Java has gone; no error of situ's may be among that.
    assert f"{os.sep}situ{os.sep}" not in (folder / "stderr").read_text()


@pytest.mark.slow
def test_sigterm_ends_a_run(spark: SparkSession, folder: Path) -> None:
    """As systemd does it: the process alone gets the signal, after its first micro-batch here."""
    give(folder, 0)
    commit = folder / "ck" / "spark" / "commits" / "0"

    def terminate() -> None:
        wait_until(commit.exists, "the first micro-batch", DEADLINE_S)
        os.kill(os.getpid(), signal.SIGTERM)

    signalling = threading.Thread(target=terminate)
    signalling.start()
    code, out, _ = follow(folder, "--follow", "--checkpoint", folder / "ck", "--out", folder / "out", "--json")
    signalling.join()
    assert (code, json.loads(out.splitlines()[-1])["event"]) == (0, "end")
    assert found(folder, "Shut") == expected(DOORS, range(1))
