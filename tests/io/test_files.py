"""Which files a path means."""

import os

import pytest

from situ.core.errors import InputError
from situ.core.types import INT
from situ.io.files.by_suffix import open_source


@pytest.fixture
def ping(make_stream):
    return make_stream("n", "us", n=INT)


def times(path, stream):
    return [time for chunk in open_source(path, stream).chunks() for time in chunk.read([]).times.tolist()]


def test_all_files_below_a_directory_by_name_without_hidden_ones(tmp_path, ping):
    for name, n in [("b/1.csv", 2), ("a.csv", 1), ("b/2.CSV", 3), ("_tmp/x.csv", 9), (".x.csv", 9), ("_SUCCESS", 9)]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"n\n{n}\n")
    assert times(tmp_path, ping) == [1, 2, 3]
    assert times(str(tmp_path / "a.csv"), ping) == [1]


def test_a_missing_file_is_named_with_one_that_is_there(tmp_path, ping):
    (tmp_path / "pings.csv").write_text("n\n1\n")
    with pytest.raises(InputError, match="there is no such file or directory") as error:
        open_source(tmp_path / "ping.csv", ping)
    assert error.value.place == str(tmp_path / "ping.csv")
    assert error.value.remedy == "Did you mean 'pings.csv'?"
    with pytest.raises(InputError, match="there is no such file or directory"):
        open_source(tmp_path / "nowhere" / "ping.csv", ping)


def test_a_directory_without_files_is_refused(tmp_path, ping):
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(InputError, match="the directory holds no files"):
        open_source(tmp_path, ping)


def test_several_formats_are_refused(tmp_path, ping):
    (tmp_path / "a.csv").write_text("n\n1\n")
    (tmp_path / "b.jsonl").write_text('{"n": 1}\n')
    with pytest.raises(InputError, match=r"files of several formats \(csv, json\)"):
        open_source(tmp_path, ping)


def test_a_suffix_that_says_no_format_is_refused_and_not_passed_over(tmp_path, ping):
    (tmp_path / "a.csv").write_text("n\n1\n")
    (tmp_path / "b.txt").write_text("n\n1\n")
    for path in (tmp_path / "b.txt", tmp_path):
        with pytest.raises(InputError, match=r"the suffix '.txt' says no format") as error:
            open_source(path, ping)
        assert error.value.place == str(tmp_path / "b.txt")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path, ping):
    (tmp_path / "a.csv").write_text("n\n1\n")
    (tmp_path / "a.csv").chmod(0)
    with pytest.raises(InputError, match="cannot be read"):
        open_source(tmp_path / "a.csv", ping)


def test_an_empty_file_among_others_is_passed_over(tmp_path, ping):
    (tmp_path / "a.jsonl").touch()
    (tmp_path / "b.jsonl").write_text('{"n": 1}')
    assert times(tmp_path, ping) == [1]
