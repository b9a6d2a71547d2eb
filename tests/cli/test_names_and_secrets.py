"""What `situ run` refuses to write, what it never shows, and who may read what it has written."""

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.command import DOORS, situ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES = [["--engine", "embedded"], ["--engine", "spark"], ["--follow", "--checkpoint", "ck"]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A query and events, in a directory from which one can get out by two steps."""
    inner = tmp_path / "a" / "b"
    (inner / "in").mkdir(parents=True)
    (inner / "doors.situ").write_text(DOORS)
    rows = [{"door": "a", "state": state, "n": n, "ts": n * 1_000_000} for n, state in enumerate(["open", "shut"])]
    schema = pa.schema([("door", pa.string()), ("state", pa.string()), ("n", pa.int64()), ("ts", pa.timestamp("us"))])
    pq.write_table(pa.Table.from_pylist(rows, schema), inner / "in" / "doors.parquet")
    monkeypatch.chdir(inner)
    return tmp_path


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["../../x", "/tmp/situ-outside", "a/b", "_late", "x" * 300])
def test_a_name_that_is_no_folder_is_refused_before_anything_runs(folder: Path, name: str, engine: list[str]) -> None:
    Path("doors.situ").write_text(DOORS.replace("subscribe Shut", f"subscribe `{name}`"))
    before = set(folder.rglob("*.parquet"))
    code, _, err = situ("run", "doors.situ", "--source", "Door=in", "--out", "out", *engine)
    assert code == 1
    assert "doors.situ:7:1: subscription " in err
    assert "Give it another name" in err
    assert set(folder.rglob("*.parquet")) == before
    assert not Path("/tmp/situ-outside").exists()


def test_a_name_is_refused_only_by_the_sink_that_is_in_use(folder: Path) -> None:
    Path("doors.situ").write_text(DOORS.replace("subscribe Shut", "subscribe `a/b`"))
    code, out, _ = situ("run", "doors.situ", "--source", "Door=in", "--engine", "embedded")
    assert (code, "a/b: 1" in out) == (0, True)


def test_a_stream_has_a_folder_in_the_checkpoint_whatever_the_sink(folder: Path) -> None:
    Path("doors.situ").write_text(DOORS.replace("Door(", "`../../Door`(").replace("Door as", "`../../Door` as"))
    for out in ([], ["--out", "kafka://h:9092/t"]):
        code, _, err = situ("run", "doors.situ", "--follow", "--checkpoint", "ck", "--source", "../../Door=in", *out)
        assert (code, "cannot be a folder of the checkpoint" in err) == (1, True)


@pytest.mark.parametrize(
    "command", [["run"], ["run", "--json"], ["explain"], ["run", "--follow", "--checkpoint", "ck"]]
)
@pytest.mark.parametrize(
    "source",
    [
        "Dor=mqtt://ann:SECRET@broker/doors",
        "mqtt://ann:SECRET@broker/doors",
        "mqtt://ann:SECRET@broker/doors?qos=1",
        "Door=mqtt://ann:SE/CRET@broker/doors",
        "Door=mqtt://broker/doors?password=SE@CRET",
        "Door=mqtt://broker/doors?password=SECRET",
        "Door=kafka://ann:SECRET@broker:9092/doors",
        'Door=kafka://broker/doors?kafka.sasl.jaas.config=x password="SE@CRET"',
        "Door=redis://ann:SECRET@broker/doors",
        "Door=postgresql://ann:SECRET@broker/doors",
    ],
)
def test_a_source_is_never_shown_with_its_password(folder: Path, source: str, command: list[str]) -> None:
    name, *options = command
    code, out, err = situ(name, "doors.situ", "--source", source, *options)
    assert code == 1
    assert "SECRET" not in out + err
    assert "CRET" not in out + err


def modes(*directories: Path) -> set[tuple[str, str]]:
    everything = [path for directory in directories for path in (directory, *directory.rglob("*"))]
    return {("directory" if p.is_dir() else "file", oct(stat.S_IMODE(p.stat().st_mode))) for p in everything}


PRIVATE = {("directory", "0o700"), ("file", "0o600")}
GROUP = {("directory", "0o750"), ("file", "0o640")}


@pytest.mark.parametrize(("option", "expected"), [([], PRIVATE), (["--group-readable"], GROUP)])
def test_results_are_private_unless_asked(folder: Path, option: list[str], expected: set[tuple[str, str]]) -> None:
    code, _, err = situ("run", "doors.situ", "--source", "Door=in", "--out", "out", "--engine", "embedded", *option)
    assert (code, err) == (0, "")
    assert modes(Path("out")) == expected


@pytest.mark.slow
@pytest.mark.storm
@pytest.mark.parametrize(("option", "expected"), [([], PRIVATE), (["--group-readable"], GROUP)])
def test_spark_writes_private_results_and_checkpoints(
    spark: "SparkSession", folder: Path, option: list[str], expected: set[tuple[str, str]]
) -> None:
    code, _, err = situ("run", "doors.situ", "--source", "Door=in", "--out", "batch", *option)
    assert (code, err) == (0, "")
    assert modes(Path("batch")) == expected
    Path("ck").mkdir(mode=0o755)  # somebody made it, and left it open
    code, _, err = situ(
        "run", "doors.situ", "--follow", "--once", "--checkpoint", "ck", "--source", "Door=in", "--out", "out", *option
    )
    assert (code, err) == (0, "")
    assert modes(Path("out")) == expected
    assert modes(Path("ck/rules")) == expected
    # Below these, Spark and sources make what they like: nobody else gets there.
    assert {oct(stat.S_IMODE(Path("ck", name).stat().st_mode)) for name in ("spark", "sources")} == {
        mode for kind, mode in expected if kind == "directory"
    }
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in Path("ck").iterdir() if path.is_file()} == {
        mode for kind, mode in expected if kind == "file"
    }
