"""Sources of sites: read on from any position, they give the rest, and nothing twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servers.mosquitto import Mosquitto, mosquitto
from situ.core.errors import InputError, StateError
from situ.core.types import INT, STRING
from situ.graph.query import AttributeDeclaration, Stream
from situ.io.mqtt.address import MqttAddress
from situ.runtime.sites.sources import arriving_files, bounded_files
from situ.runtime.sites.sources.arriving_files import ArrivingFiles
from situ.runtime.sites.sources.bounded_files import BoundedFiles
from situ.runtime.sites.sources.directory_watch import DirectoryWatch
from situ.runtime.sites.sources.mqtt_messages import MqttMessages
from situ.runtime.sites.sources.source import SiteSource, SourceRows, slices

__all__ = ["mosquitto"]  # the fixture

STREAM = Stream("Ping", (AttributeDeclaration("n", INT), AttributeDeclaration("name", STRING)), "n", time_unit="s")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bounded_files, arriving_files):
        monkeypatch.setattr(module, "slices", partial(slices, most=3))


def numbers(pieces: list[SourceRows]) -> list[int]:
    return [n for piece in pieces if piece.rows is not None for n in piece.rows.events.column("n").to_pylist()]


def rejected(pieces: list[SourceRows]) -> int:
    return sum(piece.rows.rejected.num_rows for piece in pieces if piece.rows is not None)


def read(source: SiteSource, position: str | None = None) -> list[SourceRows]:
    """What is there."""
    pieces: list[SourceRows] = []
    for piece in source.read(position):
        if piece is None:
            break
        pieces.append(piece)
    return pieces


def require_every_position(open_source: Callable[[], SiteSource]) -> list[SourceRows]:
    """Read on from each position, a source gives exactly what followed it."""
    whole = read(open_source())
    for k, piece in enumerate(whole):
        rest = read(open_source(), piece.position)
        assert numbers(rest) == numbers(whole[k + 1 :])
        assert rejected(rest) == rejected(whole[k + 1 :])
    return whole


def test_bounded_files_are_in_order_of_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    values = rng.permutation(40)
    for k, part in enumerate(np.split(values, 4)):
        pq.write_table(pa.table({"n": part, "name": [str(n) for n in part]}), tmp_path / f"{k}.parquet")
    whole = require_every_position(lambda: BoundedFiles(tmp_path, STREAM))
    assert numbers(whole) == sorted(range(40))
    assert [piece.ended for piece in whole] == [False] * (len(whole) - 1) + [True]


def test_bounded_lines_with_rejected_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,name\n5,a\nx,b\n3,c\n9,d\n,e\n4,f\n")
    whole = require_every_position(lambda: BoundedFiles(tmp_path / "a.csv", STREAM))
    assert numbers(whole) == [3, 4, 5, 9]
    assert rejected(whole) == 2


def test_bounded_files_that_have_changed_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,name\n5,a\n")
    position = read(BoundedFiles(tmp_path, STREAM))[0].position
    (tmp_path / "b.csv").write_text("n,name\n6,a\n")
    with pytest.raises(StateError, match="not the files that were read before"):
        read(BoundedFiles(tmp_path, STREAM), position)


def test_files_that_arrive_are_read_once(tmp_path: Path) -> None:
    incoming, work = tmp_path / "incoming", tmp_path / "work"
    incoming.mkdir()

    def add(name: str, text: str) -> None:
        hidden = incoming / f".{name}"
        hidden.write_text(text)
        hidden.rename(incoming / name)

    add("a.csv", "n,name\n5,a\n6,b\n7,c\n8,d\nx,e\n")
    source = ArrivingFiles(incoming, STREAM, work)
    pieces = source.read(None)

    def following() -> Iterator[SourceRows]:
        while (piece := next(pieces)) is not None:
            yield piece

    first = list(following())
    assert (numbers(first), rejected(first)) == ([5, 6, 7, 8], 1)
    add("b.csv", "n,name\n1,a\n")
    add("_hidden.csv", "n,name\n99,a\n")
    (incoming / "c.parquet").write_bytes(b"this is no Parquet")
    second = list(following())
    assert (numbers(second), rejected(second)) == ([1], 1)
    whole = first + second
    for k, piece in enumerate(whole):
        rest = read(ArrivingFiles(incoming, STREAM, work), piece.position)
        assert numbers(rest) == numbers(whole[k + 1 :])
        assert rejected(rest) == rejected(whole[k + 1 :])


def test_a_list_whose_last_line_is_cut_is_mended(tmp_path: Path) -> None:
    incoming, work = tmp_path / "incoming", tmp_path / "work"
    incoming.mkdir()
    (incoming / "a.csv").write_text("n,name\n5,a\n")
    position = read(ArrivingFiles(incoming, STREAM, work))[-1].position
    with (work / "files.jsonl").open("ab") as file:
        file.write(b'"b.c')
    (incoming / "b.csv").write_text("n,name\n6,a\n")
    assert numbers(read(ArrivingFiles(incoming, STREAM, work), position)) == [6]


def test_a_list_that_the_disk_has_lost_stands_in_the_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    incoming, work = tmp_path / "incoming", tmp_path / "work"
    incoming.mkdir()
    for name in ("b", "a", "d", "c"):
        (incoming / f"{name}.csv").write_text(f"n,name\n{ord(name)},x\n")
    whole = read(ArrivingFiles(incoming, STREAM, work))
    for lost in (b"", b'"b.csv"\n', b'"b.csv"\n\0\0\n"a.csv"\n'):
        for k, piece in enumerate(whole):
            (work / "files.jsonl").write_bytes(lost)
            assert numbers(read(ArrivingFiles(incoming, STREAM, work), piece.position)) == numbers(whole[k + 1 :])
    monkeypatch.setattr(arriving_files, "_NAMES", 1)
    (work / "files.jsonl").unlink()
    *_, last = read(ArrivingFiles(incoming, STREAM, work))
    (work / "files.jsonl").write_text("")
    with pytest.raises(StateError, match="3 files were read, and the list has 0"):
        read(ArrivingFiles(incoming, STREAM, work), last.position)


def test_a_directory_tells_of_files_that_come(tmp_path: Path) -> None:
    watch = DirectoryWatch(tmp_path)
    assert watch.works
    assert watch.names(0) == []
    (tmp_path / "a.csv").write_text("n,name\n")
    (tmp_path / "a.csv").rename(tmp_path / "b.csv")
    assert watch.names(60) == ["a.csv", "b.csv"]
    (tmp_path / "folder").mkdir()
    assert watch.names(0) == []  # made, not moved in
    (tmp_path / "folder").rename(tmp_path / "other")
    assert watch.names(60) is None
    watch.close()


def test_a_directory_that_does_not_fit_at_first_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("other\n5\n")
    with pytest.raises(InputError, match="there is no column 'n'"):
        ArrivingFiles(tmp_path, STREAM, tmp_path / "_work")


def test_messages_of_a_broker(mosquitto: Mosquitto, tmp_path: Path) -> None:
    address = MqttAddress.parse(mosquitto.address("pings"))

    def following(source: MqttMessages, position: str | None, count: int) -> list[SourceRows]:
        pieces: list[SourceRows] = []
        for piece in source.read(position):
            if piece is not None:
                pieces.append(piece)
                if len(numbers(pieces)) + rejected(pieces) >= count:
                    break
        return pieces

    source = MqttMessages(address, STREAM, tmp_path)
    sent = [json.dumps({"n": n, "name": "a"}).encode() for n in range(5)] + [b"no json"]
    mosquitto.publish(*(("pings", text) for text in sent))
    pieces = following(source, None, 6)
    assert (sorted(numbers(pieces)), rejected(pieces)) == ([0, 1, 2, 3, 4], 1)
    source.taken(pieces[-1].position)
    source.close()
    mosquitto.publish(("pings", b'{"n": 7, "name": "b"}'))
    source = MqttMessages(address, STREAM, tmp_path)
    assert numbers(following(source, pieces[-1].position, 1)) == [7]
    source.close()
