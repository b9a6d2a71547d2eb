"""What the documents say about running on: options, commands and figures are those that exist."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main

from docs.markdown import PAGES, ROOT, name_of, rows, without_blocks
from situ.cli.app import app
from situ.reuse.totals import Totals
from situ.runtime.spark.stages.metrics import REUSED
from situ.service.figures import MicroBatch, StreamTotals
from situ.service.prometheus import metrics_text

PRODUCTION, SPARK = ROOT / "docs" / "production.md", ROOT / "docs" / "spark.md"


def options_of(*words: str) -> set[str]:
    """The options of a command, or of a command's own (`lab panorama`)."""
    found = typer.main.get_command(app)
    for word in words:
        if word not in getattr(found, "commands", {}):
            break
        found = found.commands[word]  # type: ignore[attr-defined]
    return {option for parameter in found.params for option in parameter.opts}


def indented_commands(page: Path) -> list[list[str]]:
    """The words of each `situ ...` that stands indented in a page; a backslash goes on in the next line."""
    text = without_blocks(page).replace("\\\n", " ")
    lines = re.findall(r"^    (situ .*)$", text, re.MULTILINE)
    return [shlex.split(line, comments=True)[1:] for line in lines]


def test_options_exist() -> None:
    named = set(re.findall(r"`(--[a-z-]+)", without_blocks(PRODUCTION)))
    assert len(named) > 8
    assert named <= options_of("run")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_have_options_that_exist(page: Path) -> None:
    for command, *words in indented_commands(page):
        assert {word for word in words if word.startswith("--")} <= options_of(command, *words), (command, words)


def test_there_are_commands() -> None:
    assert [words[0] for words in indented_commands(PRODUCTION)] == ["run", "run", "run"]
    assert "--metrics" in indented_commands(ROOT / "examples" / "kafka" / "README.md")[0]


def test_all_figures_of_prometheus_are_named() -> None:
    totals = StreamTotals()
    known = {f.name: 1.0 for f in fields(MicroBatch) if f.name not in ("number", "reuse")}
    totals.add(MicroBatch(number=0, **known))
    served = set(re.findall(r"^# TYPE (\w+)", metrics_text(totals), re.MULTILINE))
    listed = {name for row in rows(PRODUCTION, "name", "what it is") for name in row.cells[0]}
    assert listed == served


def test_all_figures_of_a_micro_batch_are_named() -> None:
    listed = {name for row in rows(SPARK, "name", "what it is") for name in row.cells[0]}
    of_reuse = {REUSED + f.name for f in fields(Totals)}
    assert listed == {f.name for f in fields(MicroBatch)} - {"number", "begun", "seconds", "reuse"} | of_reuse
