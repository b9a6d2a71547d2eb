"""Folders of results: what is in them, when it is there, and whose files they never touch."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from situ.cli.results import ResultFolder, StagedResults
from situ.core.errors import SituError


@dataclass(frozen=True)
class Piece:
    """What the engine gives for a piece of its input."""

    complex_events: dict[str, Any] = field(default_factory=dict)
    rejected: dict[str, Any] = field(default_factory=dict)
    late: dict[str, Any] = field(default_factory=dict)
    timed_out: dict[str, Any] = field(default_factory=dict)


def table(*lanes: str) -> pa.Table:
    return pa.table({"lane": pa.array(lanes, pa.string())})


def files_in(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def write(directory: Path, pieces: Iterable[Piece], overwrite: bool = False) -> None:
    with ResultFolder(directory, "parquet", overwrite=overwrite) as folder:
        for piece in pieces:
            folder.write(piece)


EVERYTHING = Piece({"Jam": table("a")}, {"Vehicle": table("b")}, {"Vehicle": table("c")}, {"Jam": table("d")})


def test_a_folder_for_each_subscription(tmp_path: Path) -> None:
    write(tmp_path, [Piece({"Jam": table("a", "b")}), Piece({"Jam": table("c"), "Queue": table("d")})])
    assert pq.read_table(tmp_path / "Jam").equals(table("a", "b", "c"))
    assert pq.read_table(tmp_path / "Queue").equals(table("d"))


def test_events_that_did_not_make_it_have_folders_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, [EVERYTHING])
    assert files_in(tmp_path) == [
        "Jam/part-00000.parquet",
        "_late/Vehicle/part-00000.parquet",
        "_rejected/Vehicle/part-00000.parquet",
        "_timed_out/Jam/part-00000.parquet",
    ]


def test_a_subscription_without_complex_events_has_an_empty_file_and_the_others_none(tmp_path: Path) -> None:
    nothing = Piece({"Jam": table()}, {"Vehicle": table()}, {"Vehicle": table()}, {"Jam": table()})
    write(tmp_path, [nothing, nothing])
    assert files_in(tmp_path) == ["Jam/part-00000.parquet"]
    assert pq.read_table(tmp_path / "Jam").num_rows == 0


def test_a_piece_is_there_before_the_next_one_comes(tmp_path: Path) -> None:
    seen = []

    def pieces() -> Iterator[Piece]:
        for lane in "abc":
            yield Piece({"Jam": table(lane)})
            seen.append(pq.read_table(tmp_path / "Jam").column("lane").to_pylist())

    write(tmp_path, pieces())
    assert seen == [["a"], ["a", "b"], ["a", "b", "c"]]


def test_what_was_written_before_an_error_stays(tmp_path: Path) -> None:
    def pieces() -> Iterator[Piece]:
        yield Piece({"Jam": table("a")})
        raise RuntimeError("the engine stopped")

    with pytest.raises(RuntimeError):
        write(tmp_path, pieces())
    assert pq.read_table(tmp_path / "Jam").num_rows == 1


def test_results_are_replaced_only_when_asked(tmp_path: Path) -> None:
    write(tmp_path, [EVERYTHING])
    with pytest.raises(SituError, match="overwrit"):
        write(tmp_path, [Piece({"Jam": table("b")})])
    write(tmp_path, [Piece({"Queue": table("b")})], overwrite=True)
    assert files_in(tmp_path) == ["Queue/part-00000.parquet"]


def test_somebody_elses_files_are_never_replaced(tmp_path: Path) -> None:
    write(tmp_path, [EVERYTHING])
    (tmp_path / "Jam" / "thesis.txt").write_text("ten years of work")
    with pytest.raises(SituError, match=r"thesis\.txt"):
        write(tmp_path, [EVERYTHING], overwrite=True)
    assert (tmp_path / "Jam" / "thesis.txt").exists()


def stage(directory: Path, pieces: Iterable[Piece], overwrite: bool = False) -> None:
    with StagedResults(directory, "parquet", overwrite=overwrite) as folder:
        for piece in pieces:
            folder.write(piece)


def test_staged_results_appear_together(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"

    def pieces() -> Iterator[Piece]:
        yield EVERYTHING
        assert [path.name for path in out.iterdir()] == [path.name for path in out.glob(".*")]
        yield Piece({"Jam": table("e"), "Queue": table()})

    stage(out, pieces())
    assert files_in(out) == [
        "Jam/part-00000.parquet",
        "Jam/part-00001.parquet",
        "Queue/part-00000.parquet",
        "_late/Vehicle/part-00000.parquet",
        "_rejected/Vehicle/part-00000.parquet",
        "_timed_out/Jam/part-00000.parquet",
    ]
    assert not list(out.glob(".*"))
    assert pq.read_table(out / "Jam").column("lane").to_pylist() == ["a", "e"]


@pytest.mark.parametrize("exists", [False, True])
def test_staged_results_that_fail_leave_nothing(tmp_path: Path, exists: bool) -> None:
    out = tmp_path / "out"
    if exists:
        out.mkdir()

    def pieces() -> Iterator[Piece]:
        yield EVERYTHING
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stage(out, pieces())
    assert out.exists() == exists
    assert files_in(tmp_path) == []
    stage(out, [EVERYTHING])
    assert len(files_in(out)) == 4


def test_staged_results_follow_the_same_rules(tmp_path: Path) -> None:
    out = tmp_path / "out"
    stage(out, [EVERYTHING])
    with pytest.raises(SituError, match="overwrit"):
        StagedResults(out, "parquet", overwrite=False)
    stage(out, [Piece({"Jam": table("b")}, {"Vehicle": table("c")})], overwrite=True)
    assert files_in(out) == ["Jam/part-00000.parquet", "_rejected/Vehicle/part-00000.parquet"]
    assert pq.read_table(out / "Jam").column("lane").to_pylist() == ["b"]


@pytest.mark.parametrize("again", [write, stage])
def test_what_a_killed_run_left_does_not_count_as_somebody_elses(tmp_path: Path, again: Any) -> None:
    left = StagedResults(tmp_path, "parquet", overwrite=False)
    left.__enter__().write(EVERYTHING)  # and no more
    assert files_in(tmp_path)
    with pytest.raises(SituError, match="overwrit"):
        again(tmp_path, [EVERYTHING])
    again(tmp_path, [EVERYTHING], overwrite=True)
    assert len(files_in(tmp_path)) == 4
