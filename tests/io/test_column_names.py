"""Columns in other capitals: files and tables are read letter by letter, and the message says what to write."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from situ.core.errors import InputError
from situ.runtime.embedded import Engine

QUERY = """
stream Car(n int{n}, x double from {position}, ts int) time ts in s
subscribe All detect Car as c assign n = c.n, x = c.x
"""
STRICT = QUERY.format(n="", position="position.x")
ROW = {"N": 1, "position": {"X": 2.5}, "ts": 0}


def written(directory: Path) -> list[Path]:
    pq.write_table(pa.Table.from_pylist([ROW]), directory / "cars.parquet")
    (directory / "cars.jsonl").write_text(json.dumps(ROW) + "\n")
    (directory / "cars.csv").write_text("N,position.X,ts\n1,2.5,0\n")
    return [directory / name for name in ("cars.parquet", "cars.jsonl", "cars.csv")]


def test_the_remedy_is_what_to_write(tmp_path: Path) -> None:
    for cars in (*written(tmp_path), pa.Table.from_pylist([ROW])):
        with pytest.raises(InputError, match="there is no column 'n'") as caught:
            list(Engine(STRICT).run(cars))
        assert "There is 'N'. Capitals count: write `from N` behind the type" in caught.value.remedy
        renamed = QUERY.format(n=" from N", position="position.x")
        with pytest.raises(InputError, match=r"there is no column 'position\.x'") as caught:
            list(Engine(renamed).run(cars))
        assert "write `from position.X`" in caught.value.remedy
        (output,) = Engine(QUERY.format(n=" from N", position="position.X")).run(cars)
        assert output.complex_events["All"].select(["n", "x"]).to_pylist() == [{"n": 1, "x": 2.5}]
