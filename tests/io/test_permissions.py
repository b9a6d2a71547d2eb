"""What situ writes is private, whatever the umask; a group may read it if somebody says so."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from situ.io.files.part_files import DirectorySink
from situ.io.permissions import GROUP_READABLE, PRIVATE, Permissions


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(directory: Path) -> set[tuple[str, int]]:
    everything = [directory, *directory.rglob("*")]
    return {("directory" if path.is_dir() else "file", stat.S_IMODE(path.stat().st_mode)) for path in everything}


@pytest.mark.parametrize("permissions", [PRIVATE, GROUP_READABLE])
def test_results_have_the_modes_that_are_asked_for(umask: int, permissions: Permissions, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    with DirectorySink(out, "csv", permissions=permissions) as sink:
        sink.write("Jam", pa.table({"n": [1]}))
    assert modes(tmp_path / "new") == {("directory", permissions.directory), ("file", permissions.file)}


def test_a_directory_that_is_there_stays_as_it_is(umask: int, tmp_path: Path) -> None:
    tmp_path.chmod(0o2775)
    with DirectorySink(tmp_path, "csv", permissions=GROUP_READABLE) as sink:
        sink.write("Jam", pa.table({"n": [1]}))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o2775
    assert stat.S_IMODE((tmp_path / "Jam").stat().st_mode) == 0o2750  # of the group of the directory above


def test_a_file_is_private_from_its_first_moment(umask: int, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("of an earlier attempt")
    (tmp_path / "x").chmod(0o644)
    with PRIVATE.open_new(tmp_path / "x") as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    assert (tmp_path / "x").read_bytes() == b""
