"""The Python examples of the documents run, one after the other, and print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from cli.command import situ
from docs.markdown import PAGES, ROOT, Block, blocks, name_of

ON_SPARK, LONG = [pytest.mark.slow, pytest.mark.spark], [pytest.mark.storm]
#: These take long: the lab's pages, and those that start many streaming queries.
LONG_PAGES = ("spark.md", "production.md")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with what the examples read: examples/, and README.md's query as braking.situ."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "braking.situ").write_text(blocks(ROOT / "README.md", "situ")[0].text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def needs_spark(page: Path) -> bool:
    return any("spark_session" in block.text for block in blocks(page, "python"))


def is_long(page: Path) -> bool:
    return page.parent.name == "lab" or page.name in LONG_PAGES


def pages_with_python() -> list[ParameterSet]:
    pages = [page for page in PAGES if blocks(page, "python")]
    return [
        pytest.param(page, id=name_of(page), marks=[*ON_SPARK * needs_spark(page), *LONG * is_long(page)])
        for page in pages
    ]


def output_after(block: Block) -> str:
    """The text block right after a block is what it prints; without one, it prints nothing."""
    return "".join(other.text for other in blocks(block.page, "text") if other.line == block.end + 3)


@pytest.mark.parametrize("page", pages_with_python())
def test_python_examples(page: Path, workspace: Path, request: pytest.FixtureRequest) -> None:
    if needs_spark(page):  # the pages take the session that runs
        request.getfixturevalue("spark")
    namespace = {"__name__": "example"}
    for block in blocks(page, "python"):
        # Spark takes a relative path from where its Java was started, which another test may have done elsewhere.
        text = block.text.replace('"examples/', f'"{ROOT}/examples/')
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, str(block), "exec"), namespace)
        assert printed.getvalue() == output_after(block), str(block)


def test_the_quickstart_has_the_query_of_the_readme() -> None:
    """Both call it braking.situ."""
    first, second = (blocks(ROOT / page, "situ")[0].text for page in ("README.md", "docs/quickstart.md"))
    assert first == second


def runs_on_spark(block: Block) -> bool:
    """`situ run` does, unless it is told otherwise."""
    command = block.text.partition("\n")[0]
    return command.startswith("$ situ run ") and "--engine embedded" not in command


def commands() -> list[ParameterSet]:
    found = [block for page in PAGES for block in blocks(page, "console")]
    return [pytest.param(block, id=str(block), marks=ON_SPARK * runs_on_spark(block)) for block in found]


@pytest.mark.parametrize("block", commands())
def test_commands(block: Block, workspace: Path, request: pytest.FixtureRequest) -> None:
    if runs_on_spark(block):  # it takes the session that runs
        request.getfixturevalue("spark")
    command, _, expected = block.text.partition("\n")
    assert command.startswith("$ situ "), command
    code, printed, _ = situ(*command.split()[2:])
    assert code == 0
    assert _comparable(printed) == _comparable(expected)


def _comparable(printed: str) -> list[str]:
    """Lines without blanks at their ends and without the time that the command took."""
    timeless = re.sub(r"in [\d.]+ s \([\d,]+ events/s\)", "in no time", printed)
    return [line.rstrip() for line in timeless.strip().splitlines()]
