"""A query in a file, by its `Path`; a file's name is no query."""

from pathlib import Path

import pytest

from situ.core.errors import InputError, QueryError, QuerySyntaxError
from situ.lang.parse import parse
from situ.lang.resolve import resolve

TEXT = "stream A(n int, ts timestamp) time ts\nsubscribe All detect A as a assign n = a.n\n"


def test_a_path_is_the_query_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "all.situ"
    file.write_text(TEXT)
    assert parse(file) == parse(TEXT)


def test_mistakes_in_a_file_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "all.situ"
    file.write_text(TEXT.replace("a.n", "a.m"))
    with pytest.raises(QueryError) as caught:
        resolve(parse(file))
    assert str(caught.value).startswith(f"{file}:2:")


@pytest.mark.parametrize("name", ["missing.situ", "."])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot read the query file") as caught:
        parse(tmp_path / name)
    assert caught.value.place == str(tmp_path / name)


@pytest.mark.parametrize("name", ["braking.situ", "examples/traffic/traffic.situ", " my rules.SITU\n"])
def test_the_name_of_a_file_as_a_text_leads_to_its_path(name: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(name)
    assert "is the name of a file" in caught.value.cause
    assert f"Path({name.strip()!r})" in caught.value.remedy


def test_a_query_on_one_line_is_no_file_name() -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse("subscribe Hot detect Room(")
    assert "file" not in caught.value.cause
