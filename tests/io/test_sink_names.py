"""Names that a sink cannot hold are refused when a query is read, and nothing is written outside of its directory."""

from pathlib import Path

import pyarrow as pa
import pytest

from situ.core.errors import QueryError, SituError
from situ.graph.operators import OperatorGraph
from situ.io.files.part_files import DirectorySink
from situ.io.sink_names import FolderNames, SinkNames, TableNames, require_names, require_stream_folders
from situ.lang.parse import parse
from situ.lang.resolve import resolve

UNSAFE = ["/abs/x", "../../x", "a/b", "a\\b", ".", "..", ".hidden", "dot.", "space ", "a\nb", "a\0b", "c:", "nul",
          "NUL.txt", "Com1", "x" * 256, "ü" * 128]  # fmt: skip
SAFE = ["Jam", "Stau auf A 9", "a.b", "100%", "%2e%2e", "_x", "console", "ü" * 127, "x" * 255, "名前", "-", "~"]


def query(*subscriptions: str, stream: str = "Car", timed_out: str = "") -> OperatorGraph:
    text = f"stream `{stream}`(n int, ts timestamp) time ts\n"
    for name in subscriptions:
        text += f"subscribe `{name}` detect `{stream}` as a assign n = a.n\n"
    if timed_out:
        text += f"define `{timed_out}`(n) detect `{stream}` as a then `{stream}`(n > 1) as b within 1 s assign n = a.n"
        text += " report timed out\nsubscribe Reader detect " + f"`{timed_out}` as a assign n = a.n\n"
    return resolve(parse(text, "q.situ"))


@pytest.mark.parametrize("name", [*UNSAFE, "_late", "_rejected", "_timed_out", "_LATE"])
def test_a_subscription_that_no_folder_can_be_called(name: str) -> None:
    with pytest.raises(
        QueryError, match=r"q.situ:2:1: subscription .* cannot be a folder.*\n  Give it another name"
    ) as e:
        require_names(query(name), FolderNames())
    assert len(str(e.value)) < 300


@pytest.mark.parametrize("name", SAFE)
def test_a_subscription_that_has_a_folder(name: str, tmp_path: Path) -> None:
    require_names(query(name), FolderNames())
    with DirectorySink(tmp_path / "out", "json") as sink:
        sink.write(name, pa.table({"n": [1]}))
    assert [path.parent.name for path in (tmp_path / "out").rglob("*.jsonl")] == [name]


@pytest.mark.parametrize("name", UNSAFE)
def test_nothing_is_written_outside_of_a_directory(name: str, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "er" / "out"
    with DirectorySink(out, "json") as sink, pytest.raises(SituError, match="cannot be a folder"):
        sink.write(name, pa.table({"n": [1]}))
    assert not list(tmp_path.rglob("*.jsonl"))


def test_names_that_some_file_systems_take_for_one() -> None:
    with pytest.raises(QueryError, match="'JAM' and 'Jam' would be one folder"):
        require_names(query("Jam", "JAM"), FolderNames())
    with pytest.raises(QueryError, match="would be one folder"):
        require_names(query("Caf\u00e9", "Cafe\u0301"), FolderNames())
    require_names(query("Jam", "JAM"), TableNames())  # quoted, they are two


@pytest.mark.parametrize("sink", [FolderNames(), TableNames()])
def test_definitions_and_streams_have_results_too(sink: SinkNames) -> None:
    with pytest.raises(QueryError, match=r"definition 'x+\.\.\.' cannot be"):
        require_names(query(timed_out="x" * 300), sink)
    require_names(query("Jam", timed_out="Slow"), sink)


def test_streams_are_folders_of_results_and_of_checkpoints() -> None:
    graph = query("Jam", stream="../Car")
    with pytest.raises(QueryError, match=r"q.situ:1:1: stream '\.\./Car' cannot be a folder"):
        require_names(graph, FolderNames())
    with pytest.raises(QueryError, match=r"stream '\.\./Car' cannot be a folder of the checkpoint"):
        require_stream_folders(graph)
    require_names(graph, TableNames())  # where it is a value


@pytest.mark.parametrize("name", ["other.schema", "x" * 64, "ü" * 32, "_late", "_rejected", "_timed_out_Jam", "a\0b"])
def test_a_subscription_that_no_table_can_be_called(name: str) -> None:
    with pytest.raises(QueryError, match="cannot be a table of PostgreSQL"):
        require_names(query(name), TableNames())


def test_a_table_of_what_timed_out_has_a_longer_name() -> None:
    require_names(query("x" * 63), TableNames())
    require_names(query(timed_out="x" * 52), TableNames())
    with pytest.raises(QueryError, match="of more than 63 bytes"):
        require_names(query(timed_out="x" * 53), TableNames())


@pytest.mark.parametrize("name", ["100%", "%s", 'quo"ted', "; DROP TABLE x; --", "a/b", "Jam", "select"])
def test_a_subscription_that_has_a_table(name: str) -> None:
    require_names(query(name), TableNames())
