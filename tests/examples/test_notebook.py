"""The notebook runs from beginning to end, in a folder of its own, and gives the outputs that it is stored with."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

TRAFFIC = Path(__file__).parents[2] / "examples" / "traffic"
REMEDY = "If the new outputs are right: python tests/examples/test_notebook.py keeps them."
FILES = "traffic.ipynb", "traffic.situ", "vehicles.parquet", "roads.json", "road_map.py"


def texts(cell: Any) -> list[str]:
    """What a cell printed and showed, without pictures and without what Spark says on stderr."""
    shown = []
    for output in cell.get("outputs", []):
        if output["output_type"] == "stream" and output["name"] == "stdout":
            shown.append(output["text"])
        elif output["output_type"] in ("execute_result", "display_data"):
            pictured = "image/png" in output["data"]
            shown.append("picture" if pictured else output["data"]["text/plain"])
    return shown


def execute(folder: Path) -> Any:
    """The notebook of a folder, run there."""
    notebook = nbformat.read(folder / "traffic.ipynb", as_version=4)
    place = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=place, record_timing=False).execute()
    return notebook


def store() -> None:
    """`python tests/examples/test_notebook.py` runs the notebook and keeps its new outputs, for people who read it."""
    notebook = execute(TRAFFIC)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata = {"kernelspec": notebook.metadata.kernelspec, "language_info": {"name": "python"}}
    nbformat.write(notebook, TRAFFIC / "traffic.ipynb")


@pytest.mark.storm
@pytest.mark.spark
@pytest.mark.storm
def test_the_notebook_gives_what_it_is_stored_with(tmp_path: Path) -> None:
    for name in FILES:
        shutil.copy(TRAFFIC / name, tmp_path)
    stored = nbformat.read(tmp_path / "traffic.ipynb", as_version=4)
    fresh = execute(tmp_path)
    for before, after in zip(stored.cells, fresh.cells, strict=True):
        assert texts(after) == texts(before), f"{before.source}\n{REMEDY}"
    assert sum(text == "picture" for cell in fresh.cells for text in texts(cell)) == 2


def test_the_notebook_is_small_and_says_nothing_on_stderr() -> None:
    notebook = nbformat.read(TRAFFIC / "traffic.ipynb", as_version=4)
    nbformat.validate(notebook)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert outputs
    assert not any(output.get("name") == "stderr" or output["output_type"] == "error" for output in outputs)
    assert (TRAFFIC / "traffic.ipynb").stat().st_size < 250_000


if __name__ == "__main__":
    store()
