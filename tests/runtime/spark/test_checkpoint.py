"""A checkpoint belongs to one query, and to one process at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.spark.changing_rules import STREAM, begun, manifest
from situ.core.errors import InputError, StateError
from situ.runtime.spark.follow.checkpoint import Checkpoint, declarations, origins, require_the_same
from situ.service.rules import Texts, query_of


def test_a_manifest_is_read_back(tmp_path: Path) -> None:
    known = manifest()
    assert begun(tmp_path, known).manifest() == known
    assert manifest().query != known.query


def test_before_the_first_micro_batch_nothing_is_decided(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.write(manifest())
    assert checkpoint.manifest() is None
    assert checkpoint.next_batch == 0


def test_the_next_micro_batch_is_the_first_that_is_not_committed(tmp_path: Path) -> None:
    checkpoint = begun(tmp_path, manifest())
    for number in range(1, 12):
        (tmp_path / "spark" / "offsets" / str(number)).touch()
        (tmp_path / "spark" / "commits" / str(number)).touch()
    (tmp_path / "spark" / "commits" / ".11.crc").touch()
    assert not checkpoint.is_in_a_batch
    (tmp_path / "spark" / "offsets" / "12").touch()  # planned, and not committed
    assert checkpoint.next_batch == 12
    assert checkpoint.is_in_a_batch


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('{"version": 7}', "version 7"),
        ("{", "says nothing"),
        ('{"version": 2, "query": "x"}', "says nothing"),
        ('{"version": 1, "query": "x"}', "version 1, this situ reads version 2"),
        ("[]", "says nothing"),
    ],
)
def test_another_manifest_is_refused(tmp_path: Path, text: str, cause: str) -> None:
    checkpoint = begun(tmp_path, manifest())
    (tmp_path / "query.json").write_text(text)
    with pytest.raises(StateError, match=cause):
        checkpoint.manifest()


@pytest.mark.parametrize(
    ("asked", "cause"),
    [
        ({"text": STREAM.replace("Reading", "Value")}, "has the streams Reading, and the query Value"),
        ({"text": STREAM + "stream Door(ts timestamp) time ts"}, "and the query Reading, Door"),
        ({"text": STREAM.replace("watermark 5 s", "watermark 6 s")}, "another declaration of stream Reading"),
        ({"address": "elsewhere"}, "elsewhere"),
        ({"address": "kafka://host:9092/readings"}, "not kafka readings"),
        ({"shards": 3}, "in 2 shards, not in 3"),
        ({"levels": 2}, "has 1 level, not 2"),
    ],
)
def test_a_checkpoint_of_another_query_is_refused(asked: dict[str, str | int], cause: str) -> None:
    streams = query_of(Texts("q.situ", str(asked.get("text", STREAM)))).streams
    shards, levels = asked.get("shards"), asked.get("levels")
    assert shards is None or isinstance(shards, int)
    assert levels is None or isinstance(levels, int)
    addresses = {stream.name: str(asked.get("address", "in")) for stream in streams}
    with pytest.raises(StateError, match=cause) as caught:
        require_the_same(manifest(), streams, addresses, shards, levels, "here")
    assert caught.value.place == "here"
    require_the_same(manifest(), query_of(Texts("q.situ", STREAM)).streams, {"Reading": "./in"}, 2, 1, "here")
    require_the_same(manifest(), query_of(Texts("q.situ", STREAM)).streams, {"Reading": "in"}, None, None, "here")


def test_a_start_is_told_once() -> None:
    streams, started = query_of(Texts("q.situ", STREAM)).streams, replace(manifest(), start_us=1_000_000)
    for kept in (manifest(), started):
        require_the_same(kept, streams, {"Reading": "in"}, None, None, "here", kept.start_us)
        require_the_same(kept, streams, {"Reading": "in"}, None, None, "here")  # the checkpoint's own holds
    with pytest.raises(
        StateError, match="begun with --start 1970-01-01 00:00:01, not with --start 1970-01-01 00:00:02"
    ):
        require_the_same(started, streams, {"Reading": "in"}, None, None, "here", 2_000_000)
    with pytest.raises(StateError, match="begun without --start, not with"):
        require_the_same(manifest(), streams, {"Reading": "in"}, None, None, "here", 2_000_000)


def test_where_a_stream_comes_from_tells_no_secrets() -> None:
    found = origins({"A": "mqtt://ann:secret@broker/city/#?client_id=x", "B": "kafka://h:1/t?kafka.sasl.jaas=secret"})
    assert found == {"A": "mqtt city/#", "B": "kafka t"}


def test_brokers_may_move() -> None:
    known = manifest(Reading="kafka://one:9092/readings")
    require_the_same(
        known, query_of(Texts("q.situ", STREAM)).streams, {"Reading": "kafka://two:9/readings?x=y"}, None, None, ""
    )


def test_spelling_of_a_declaration_does_not_matter() -> None:
    other = STREAM.upper().replace("READING", "Reading").replace("SENSOR", "sensor").replace("ROOM", "room")
    other = other.replace("VALUE", "value").replace("TS", "ts").replace(" 5 S", " 5000 ms")
    assert declarations(query_of(Texts("a", other)).streams) == declarations(query_of(Texts("b", STREAM)).streams)


_HOLD = """
import sys
from dataclasses import replace
from pathlib import Path
from situ.runtime.spark.follow.checkpoint import Checkpoint
with Checkpoint(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    sys.stdin.readline()
"""


def test_one_process_at_a_time(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "new" / "ck")
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(checkpoint.directory)], stdin=-1, stdout=-1, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(StateError, match=f"number {other.pid}"), checkpoint.locked():
            pass
        other.kill()  # the lock ends with the process
        other.wait()
        with checkpoint.locked():
            pass


def test_the_lock_is_free_after_an_error(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    with pytest.raises(ZeroDivisionError), checkpoint.locked():
        raise ZeroDivisionError
    with checkpoint.locked():
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match="not empty"), Checkpoint(tmp_path).locked():
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(InputError, match="a file"), Checkpoint(tmp_path / "thesis.tex").locked():
        pass
