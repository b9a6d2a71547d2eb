"""What a caller gives for the streams of a query, as everybody writes it the first time."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from situ.core.errors import InputError
from situ.runtime.embedded import Engine, Output

ONE = "stream Door(door string, n int, ts int) time ts in s\nsubscribe Seen detect Door as d assign n = d.n\n"
TWO = ONE + "stream Bell(n int, ts int) time ts in s\n"
DOORS = pa.table({"door": ["a", "b"], "n": [1, 2], "ts": [0, 1]})
ROWS = DOORS.to_pylist()


def numbers(outputs: list[Output]) -> list[int]:
    return [n for output in outputs for n in output.complex_events["Seen"].column("n").to_pylist()]


@pytest.mark.parametrize(
    "doors",
    [DOORS, DOORS.to_pandas(), DOORS.to_batches()[0], ROWS, pd.DataFrame(ROWS, index=["first", "second"])],
    ids=["table", "pandas", "record batch", "dicts", "pandas with an index"],
)
def test_rows_of_every_kind(doors: object) -> None:
    assert numbers(list(Engine(ONE).run({"Door": doors}))) == [1, 2]
    assert numbers(list(Engine(ONE).run(doors))) == [1, 2]
    engine = Engine(ONE)
    assert numbers([engine.feed(doors), engine.close()]) == [1, 2]


def test_a_column_named_like_a_method_of_a_source() -> None:
    assert numbers(list(Engine(ONE).run(DOORS.append_column("chunks", pa.array([1, 1])).to_pandas()))) == [1, 2]


def test_the_query_and_its_source_as_files(tmp_path: Path) -> None:
    (tmp_path / "doors.situ").write_text(ONE)
    (tmp_path / "doors.csv").write_text("door,n,ts\na,1,0\nb,2,1\n")
    assert numbers(list(Engine(tmp_path / "doors.situ").run(tmp_path / "doors.csv"))) == [1, 2]


def test_one_source_for_two_streams() -> None:
    with pytest.raises(InputError, match="one source is given, and the query has 2 streams") as caught:
        list(Engine(TWO).run(DOORS))
    assert "{'Door': ..., 'Bell': ...}" in caught.value.remedy


@pytest.mark.parametrize("rows", [[1, 2], [("a", 1, 0)]], ids=repr)
def test_rows_that_are_no_dicts_are_rejected_one_by_one(rows: list[object]) -> None:
    for output in (Engine(ONE).feed(rows), *Engine(ONE).run({"Door": rows})):
        assert output.rejected["Door"].num_rows == len(rows)


@pytest.mark.parametrize("rows", [7, None, pd.DataFrame({"door": ["a", 1]})], ids=repr)
def test_what_is_no_rows(rows: object) -> None:
    with pytest.raises(InputError, match="the rows do not fit stream Door") as caught:
        Engine(ONE).feed(rows)
    assert "door string, n int, ts int" in caught.value.remedy
    with pytest.raises(InputError, match="the rows do not fit stream Door"):
        list(Engine(ONE).run({"Door": rows}))
