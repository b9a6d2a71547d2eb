"""The Python examples of the documents run, one after the other, and print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from cli.command import situ
from docs.markdown import PAGES, ROOT, Block, blocks, name_of


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with what the examples read: examples/, and README.md's query as braking.situ."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "braking.situ").write_text(blocks(ROOT / "README.md", "situ")[0].text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def output_after(block: Block) -> str:
    """The text block right after a block is what it prints; without one, it prints nothing."""
    return "".join(other.text for other in blocks(block.page, "text") if other.line == block.end + 3)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name_of)
def test_python_examples(page: Path, workspace: Path) -> None:
    namespace = {"__name__": "example"}
    for block in blocks(page, "python"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, str(block), "exec"), namespace)
        assert printed.getvalue() == output_after(block), str(block)


@pytest.mark.parametrize("block", [block for page in PAGES for block in blocks(page, "console")], ids=str)
def test_commands(block: Block, workspace: Path) -> None:
    command, _, expected = block.text.partition("\n")
    assert command.startswith("$ situ "), command
    code, printed, _ = situ(*command.split()[2:])
    assert code == 0
    assert _comparable(printed) == _comparable(expected)


def _comparable(printed: str) -> list[str]:
    """Lines without blanks at their ends and without the time that the command took."""
    timeless = re.sub(r"in [\d.]+ s \([\d,]+ events/s\)", "in no time", printed)
    return [line.rstrip() for line in timeless.strip().splitlines()]
