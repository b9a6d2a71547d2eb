"""JSON lines: a malformed line is rejected, all others are read."""

import gzip
import json
import random
from datetime import UTC, datetime
from decimal import Decimal as D

import pyarrow as pa
import pytest

from situ.core.errors import InputError
from situ.core.types import BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Decimal
from situ.io.files import lines
from situ.io.files.by_suffix import open_source
from situ.io.files.source import read_ahead


def read_all(path, stream):
    """The events and rejected rows of a whole source."""
    names = [attribute.name for attribute in stream.attributes]
    parts = [read for _, read in read_ahead(open_source(path, stream), names)]
    events = pa.concat_tables([part.events for part in parts]) if parts else None
    rejected = pa.concat_tables([part.rejected for part in parts]).to_pylist() if parts else []
    return events, rejected


@pytest.fixture
def reading(make_stream):
    return make_stream("ts", sensor=STRING, speed=DOUBLE, n=INT, ts=TIMESTAMP)


def line(number, /, **changes):
    return json.dumps(
        {"sensor": f"s{number % 9}", "speed": number / 4, "n": number, "ts": "2024-05-01T12:00:00Z"} | changes
    )


def test_one_malformed_line_of_half_a_million(tmp_path, reading):
    count, bad = 500_000, 321_098
    rows = [f'{{"sensor": "s{n % 9}", "speed": {n / 4}, "n": {n}, "ts": "2024-05-01T12:00:00Z"}}' for n in range(count)]
    rows[bad] = '{"sensor": "s1", "speed": 3.5, "n": 7'
    (tmp_path / "r.jsonl").write_text("\n".join(rows) + "\n")
    events, rejected = read_all(tmp_path / "r.jsonl", reading)
    assert rejected == [
        {
            "_reason": "malformed JSON: Expecting ',' delimiter at 38",
            "_row": '{"sensor": "s1", "speed": 3.5, "n": 7',
            "_place": f"{tmp_path / 'r.jsonl'}:{bad + 1}",
        }
    ]
    assert events.num_rows == count - 1
    assert pa.compute.sum(events["n"]).as_py() == count * (count - 1) // 2 - bad


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense", "malformed JSON: Expecting value at 1"),
        ("null", "the line is no JSON object"),
        ("[1]", "the line is no JSON object"),
        (line(1) + line(2), "malformed JSON: Extra data at 70"),
        (line(1) + "null", "malformed JSON: Extra data at 70"),
        (line(1, speed="fast"), "speed: 'fast' is no double"),
        (line(1, speed=True), "speed: True is no double"),
        (line(1, n=1.5), "n: 1.5 is no int"),
        (line(1, n=2**63), "n: 9223372036854775808 is no int"),
        (line(1, n="1"), "n: '1' is no int"),
        (line(1, sensor=17), "sensor: 17 is no string"),
        (line(1, sensor={"x": 1}), "sensor: {'x': 1} is no string"),
        (line(1, ts="yesterday"), "ts: 'yesterday' is no timestamp"),
        (line(1, ts=5), "ts: 5 is no timestamp"),
        (line(1, ts=None), "ts is null"),
        (line(1, speed="fast", n="x"), "speed: 'fast' is no double; n: 'x' is no int"),
        (line(1)[:-1] + ', "n": 2}', "the line cannot be read"),  # a key twice
        ('{"sensor": "\\ud800", "n": 1, "ts": "2024-05-01"}', "the line cannot be read"),  # half a surrogate pair
        ('{"x":' * 5000, "the line cannot be read"),
    ],
)
def test_a_line_that_does_not_fit_is_rejected_alone(tmp_path, reading, text, reason):
    (tmp_path / "r.jsonl").write_text("\n".join([line(0), text, line(2)]))
    events, rejected = read_all(tmp_path / "r.jsonl", reading)
    assert events["n"].to_pylist() == [0, 2]
    assert [r["_reason"] for r in rejected] == [reason]
    assert [r["_row"] for r in rejected] == [text]
    assert [r["_place"] for r in rejected] == [f"{tmp_path / 'r.jsonl'}:2"]


def test_bad_utf8_rejects_its_line_and_shows_the_bytes(tmp_path, reading):
    bad = line(1, sensor="X").encode().replace(b"X", b"M\xfcller")
    (tmp_path / "r.jsonl").write_bytes(b"\n".join([line(0).encode(), bad, line(2).encode(), b""]))
    events, [rejected] = read_all(tmp_path / "r.jsonl", reading)
    assert events["n"].to_pylist() == [0, 2]
    assert rejected["_reason"] == "not UTF-8: byte 0xfc at 14"
    assert r"M\xfcller" in rejected["_row"]


def test_blank_lines_missing_and_other_keys_bom_and_windows_line_ends(tmp_path, reading):
    rows = [line(0, other=[1, {"a": None}]), "", "  ", '{"n": 1, "ts": "2024-05-01 12:00"}', "  " + line(2)]
    (tmp_path / "r.ndjson").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(rows).encode())
    events, rejected = read_all(tmp_path / "r.ndjson", reading)
    assert rejected == []
    assert events["sensor"].to_pylist() == ["s0", None, "s2"]
    assert events["n"].to_pylist() == [0, 1, 2]


def test_lines_cut_into_blocks_anywhere_give_the_same(tmp_path, reading, monkeypatch):
    rng = random.Random(7)
    rows = [rng.choice([line(n), line(n), line(n), "{oops", "", line(n, n="x")]) for n in range(300)]
    (tmp_path / "r.json").write_text("\n".join(rows))
    whole = read_all(tmp_path / "r.json", reading)
    assert len(whole[1]) == sum(row == "{oops" or '"n": "x"' in row for row in rows)
    for size in (1, 50, 333, 4096):
        monkeypatch.setattr(lines, "BLOCK_BYTES", size)
        events, rejected = read_all(tmp_path / "r.json", reading)
        assert events.combine_chunks() == whole[0].combine_chunks()
        assert rejected == whole[1]


def test_a_line_longer_than_any_block_is_read(tmp_path, reading):
    (tmp_path / "r.jsonl").write_text("\n".join([line(0), line(1, sensor="x" * 3_000_000), line(2)]))
    events, rejected = read_all(tmp_path / "r.jsonl", reading)
    assert rejected == []
    assert [len(s) for s in events["sensor"].to_pylist()] == [2, 3_000_000, 2]


def test_times_of_every_form(tmp_path, reading):
    texts = ["2024-05-01T12:00:00Z", "2024-05-01 12:00:00.5", "2024-05-01T14:00:00.123456789+02:00", "2024-05-01"]
    (tmp_path / "r.jsonl").write_text("\n".join(line(i, ts=text) for i, text in enumerate(texts)))
    events, rejected = read_all(tmp_path / "r.jsonl", reading)
    assert rejected == []
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert events["ts"].to_pylist() == [
        noon,
        noon.replace(microsecond=500_000),
        noon.replace(microsecond=123_456),
        noon.replace(hour=0),
    ]


def test_decimals_and_large_integers_never_pass_through_a_double(tmp_path, make_stream):
    stream = make_stream("t", "ms", t=INT, price=Decimal(38, 10), big=INT, ok=BOOLEAN)
    exact = "1234567890123456789.0123456789"
    rows = [
        f'{{"t": 1, "price": {exact}, "big": {2**63 - 1}, "ok": true}}',
        f'{{"t": 2, "price": "{exact}", "big": {2**53 + 1}, "ok": null}}',
        '{"t": 3, "price": 0.00000000001, "big": 1}',
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(rows))
    [chunk] = open_source(tmp_path / "r.jsonl", stream).chunks()
    read = chunk.read(["t", "price", "big", "ok"])
    assert read.times.tolist() == [1000, 2000]
    assert read.events["price"].to_pylist() == [D(exact)] * 2
    assert read.events["big"].to_pylist() == [2**63 - 1, 2**53 + 1]
    [reason] = read.rejected["_reason"].to_pylist()
    assert reason.startswith("price: 1.0000")
    assert reason.endswith("is no decimal(38, 10)")
    assert chunk.rows == 3


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_file_gives_no_events_and_no_error(tmp_path, reading, content):
    (tmp_path / "r.jsonl").write_text(content)
    assert sum(chunk.rows for chunk in open_source(tmp_path / "r.jsonl", reading).chunks()) == 0


def test_an_attribute_that_no_line_has_is_missing(tmp_path, reading):
    (tmp_path / "r.jsonl").write_text('{"sensor": "a", "sped": 1, "n": 1, "ts": "2024-05-01"}\n')
    with pytest.raises(InputError, match="there is no column 'speed'") as error:
        open_source(tmp_path / "r.jsonl", reading)
    assert "Did you mean 'sped'?" in error.value.remedy
    assert error.value.place == str(tmp_path / "r.jsonl")


def test_a_json_array_is_refused_with_the_way_out(tmp_path, reading):
    (tmp_path / "r.json").write_text("[\n" + line(0) + "\n]")
    with pytest.raises(InputError, match="holds a JSON array") as error:
        open_source(tmp_path / "r.json", reading)
    assert "jq -c" in error.value.remedy


def test_gzip_whole_and_cut_off(tmp_path, reading):
    packed = gzip.compress("\n".join(line(n) for n in range(5000)).encode())
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(packed)
    assert read_all(path, reading)[0].num_rows == 5000
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match="cannot be read") as error:
        read_all(path, reading)
    assert error.value.place == str(path)
