"""CSV: a malformed line is rejected, all others are read, quotes or not."""

import gzip
import random
from datetime import UTC, datetime
from decimal import Decimal as D

import pyarrow as pa
import pytest

from situ.core.errors import InputError
from situ.core.types import BINARY, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Decimal
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


@pytest.fixture
def read_text(tmp_path, reading):
    """The sensors, and (reason, row, line) of what was rejected, of a file with this content after the header."""

    def read(text, header="sensor,speed,n,ts\n"):
        path = tmp_path / "r.csv"
        path.write_bytes(header.encode() + (text if isinstance(text, bytes) else text.encode()))
        events, rejected = read_all(path, reading)
        return (
            events["sensor"].to_pylist(),
            [(r["_reason"], r["_row"], int(r["_place"].removeprefix(f"{path}:"))) for r in rejected],
        )

    return read


def test_one_malformed_line_of_half_a_million(tmp_path, reading):
    count, bad = 500_000, 123_456
    rows = [f"s{n % 9},{n / 4},{n},2024-05-01T12:00:00Z" for n in range(count)]
    rows[bad] = "s1,3.5"
    (tmp_path / "r.csv").write_text("sensor,speed,n,ts\n" + "\n".join(rows))
    events, rejected = read_all(tmp_path / "r.csv", reading)
    assert rejected == [
        {
            "_reason": "2 fields, but the header has 4",
            "_row": "s1,3.5",
            "_place": f"{tmp_path / 'r.csv'}:{bad + 2}",
        }
    ]
    assert events.num_rows == count - 1
    assert pa.compute.sum(events["n"]).as_py() == count * (count - 1) // 2 - bad


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("b,1.0,1,2024-05-01,x", "5 fields, but the header has 4"),
        ("b", "1 fields, but the header has 4"),
        ("b,fast,1,2024-05-01", "speed: 'fast' is no double"),
        ("b,1.0,1.5,2024-05-01", "n: '1.5' is no int"),
        ("b,1.0,9223372036854775808,2024-05-01", "n: '9223372036854775808' is no int"),
        ("b,1.0,1,yesterday", "ts: 'yesterday' is no timestamp"),
        ("b,1.0,1,2024-02-30", "ts: '2024-02-30' is no timestamp"),
        ("b,1.0,1,", "ts is null"),
        ("b,fast,x,2024-05-01", "speed: 'fast' is no double; n: 'x' is no int"),
        ('"b,1.0,1,2024-05-01', "a quote is not closed"),
        ('b,1.0,1,"2024-05-01', "a quote is not closed"),
        ("b,1.0\r,1,2024-05-01", "a carriage return within the line"),
    ],
)
def test_a_line_that_does_not_fit_is_rejected_alone(read_text, line, reason):
    for end in ("\n", "\r\n"):
        text = end.join(["a,1.0,1,2024-05-01", line, "c,1.0,1,2024-05-01", ""])
        assert read_text(text) == (["a", "c"], [(reason, line, 3)])


def test_bad_utf8_rejects_its_line_but_not_in_a_column_that_nobody_declared(read_text):
    text = b"a,1,1,2024-05-01,x\nM\xfcller,1,1,2024-05-01,x\nc,1,1,2024-05-01,x\n"
    assert read_text(text, "sensor,speed,n,ts,x\n") == (
        ["a", "c"],
        [("not UTF-8: byte 0xfc at 2", r"M\xfcller,1,1,2024-05-01,x", 3)],
    )
    fine = b"a,1,1,2024-05-01,M\xfcller\n"
    assert read_text(fine, "sensor,speed,n,ts,x\n") == (["a"], [])
    assert read_text(fine + b"oops\n", "sensor,speed,n,ts,x\n")[0] == ["a"]  # also where lines are read one by one


def test_quotes_commas_and_line_ends_within_values(read_text):
    text = '"a ""1"", x",1,1,2024-05-01\n"two\nlines",1,1,2024-05-01\n5" pipe,1,1,2024-05-01\nd,bad,1,2024-05-01\n'
    assert read_text(text) == (
        ['a "1", x', "two\nlines", '5" pipe'],
        [("speed: 'bad' is no double", "d,bad,1,2024-05-01", 6)],
    )


def test_a_forgotten_quote_costs_its_own_line_only(read_text):
    rows = [f"s{i},1,{i},2024-05-01" for i in range(1000)]
    rows[10] = '"s10,1,10,2024-05-01'
    rows[700] = '"s700,1,700,2024-05-01'
    sensors, rejected = read_text("\n".join(rows))
    assert len(sensors) == 998
    assert [(reason, line) for reason, _, line in rejected] == [
        ("a quote is not closed", 12),
        ("a quote is not closed", 702),
    ]


def test_nothing_is_null_and_empty_quotes_are_an_empty_text(read_text):
    assert read_text(',1,1,2024-05-01\n"",,,2024-05-01\n')[0] == [None, ""]


def test_blank_lines_blanks_around_values_bom_and_any_order_of_columns(read_text):
    text = "\n 1 ,x,2024-05-01 12:00 , 1.5,a\n\r\n2,x,2024-05-01,nope,b\n"
    assert read_text(text, "\ufeff n , x , ts,speed,sensor\n") == (
        ["a"],
        [("speed: 'nope' is no double", "2,x,2024-05-01,nope,b", 5)],
    )


def test_columns_that_nobody_declared_may_share_a_name(read_text):
    assert read_text("1,a,1,1,2024-05-01,2\n", "x,sensor,speed,n,ts,x\n") == (["a"], [])


def test_lines_cut_into_blocks_anywhere_give_the_same(tmp_path, reading, monkeypatch):
    rng = random.Random(11)
    kinds = ["s,1,{},2024-05-01", '"s,\n""{}""",1,1,2024-05-01', "", "s,1,2", "s,x,{},2024-05-01"]
    rows = [rng.choice([*kinds[:1] * 3, *kinds]).format(n) for n in range(300)]
    (tmp_path / "r.csv").write_text("sensor,speed,n,ts\n" + "\n".join(rows))
    whole = read_all(tmp_path / "r.csv", reading)
    assert whole[0].num_rows == sum(row.endswith("-01") and ",x," not in row for row in rows)
    assert len(whole[1]) == sum(row == "s,1,2" or ",x," in row for row in rows)
    for size in (1, 50, 333, 4096):
        monkeypatch.setattr(lines, "BLOCK_BYTES", size)
        events, rejected = read_all(tmp_path / "r.csv", reading)
        assert events.combine_chunks() == whole[0].combine_chunks()
        assert rejected == whole[1]


def test_a_large_block_with_bad_lines_is_halved_without_loss(tmp_path, reading):
    rows = [f"s,1,{n},2024-05-01" if n % 4999 else "oops" for n in range(60_000)]
    (tmp_path / "r.csv").write_text("sensor,speed,n,ts\n" + "\n".join(rows))
    events, rejected = read_all(tmp_path / "r.csv", reading)
    assert events["n"].to_pylist() == [n for n in range(60_000) if n % 4999]
    assert [int(r["_place"].rsplit(":", 1)[1]) for r in rejected] == [n + 2 for n in range(0, 60_000, 4999)]


def test_every_type_is_read_from_text(tmp_path, make_stream):
    stream = make_stream("t", "ms", t=INT, b=BOOLEAN, price=Decimal(10, 2), raw=BINARY, at=TIMESTAMP)
    rows = [
        "1,true,1.50,c2l0dQ==,2024-05-01T12:00:00Z",
        "2,False,-2,,2024-05-01 14:00:00.5+02:00",
        "3,,,,",
        "4,yes,1.234,***,noon",
    ]
    (tmp_path / "r.csv").write_text("t,b,price,raw,at\n" + "\n".join(rows))
    [chunk] = open_source(tmp_path / "r.csv", stream).chunks()
    read = chunk.read(["t", "b", "price", "raw", "at"])
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert read.times.tolist() == [1000, 2000, 3000]
    assert read.events.to_pydict() == {
        "t": [1, 2, 3],
        "b": [True, False, None],
        "price": [D("1.50"), D("-2.00"), None],
        "raw": [b"situ", None, None],
        "at": [noon, noon.replace(microsecond=500_000), None],
    }
    assert read.rejected["_reason"].to_pylist() == [
        "b: 'yes' is no boolean; price: '1.234' is no decimal(10, 2); "
        "raw: '***' is no binary; at: 'noon' is no timestamp"
    ]
    assert chunk.rows == 4


def test_seconds_with_a_fraction_as_time(tmp_path, make_stream):
    (tmp_path / "r.csv").write_text("t\n1714564800.25\n-1\nnan\n")
    [chunk] = open_source(tmp_path / "r.csv", make_stream("t", "s", t=DOUBLE)).chunks()
    read = chunk.read(["t"])
    assert read.times.tolist() == [1_714_564_800_250_000, -1_000_000]
    assert read.rejected["_reason"].to_pylist() == ["t: nan s is no time in range"]


@pytest.mark.parametrize("content", ["", "\n\n", "sensor,speed,n,ts", "sensor,speed,n,ts\r\n\r\n"])
def test_an_empty_file_gives_no_events_and_no_error(tmp_path, reading, content):
    (tmp_path / "r.csv").write_text(content)
    assert sum(chunk.rows for chunk in open_source(tmp_path / "r.csv", reading).chunks()) == 0


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"sensor,sped,n,ts\n", "there is no column 'speed'"),
        (b"sensor,speed,n,ts,n\n", "column 'n' occurs 2 times"),
        (b"sensor;speed;n;ts\n", "there is no column 'sensor'"),
        ("sensor,speed,n,ts\n".encode("utf-16"), "the header line cannot be read"),
        (b"sens\xf6r,speed,n,ts\n", "the header line cannot be read"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(tmp_path, reading, header, message):
    (tmp_path / "r.csv").write_bytes(header + b"a,1,1,2024-05-01\n")
    with pytest.raises(InputError, match=message) as error:
        open_source(tmp_path / "r.csv", reading)
    assert str(error.value.place).startswith(str(tmp_path / "r.csv"))
    assert error.value.remedy


def test_gzip(tmp_path, reading):
    text = "sensor,speed,n,ts\n" + "".join(f"s,1,{n},2024-05-01\n" for n in range(5000))
    (tmp_path / "r.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert read_all(tmp_path / "r.csv.gz", reading)[0]["n"].to_pylist() == list(range(5000))
    (tmp_path / "r.csv.gz").write_text(text)
    with pytest.raises(InputError, match="cannot be read"):
        open_source(tmp_path / "r.csv.gz", reading)
