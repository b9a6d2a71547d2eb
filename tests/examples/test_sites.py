"""The example of sites, and the first command of their page: as they stand there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command import situ

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "sites"

pytestmark = pytest.mark.jit_only


@pytest.mark.storm
def test_the_example_finds_what_its_page_says(tmp_path: Path) -> None:
    script = [sys.executable, str(EXAMPLE / "sites.py")]
    run = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=600)
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"([\d,]+) found, the same", run.stdout)
    assert found == ["1,328", "1,328"]
    assert f"{found[0]} times" in readme
    assert "north-east is killed" in run.stdout
    assert (tmp_path / "out" / "sites.svg").exists()


@pytest.mark.storm
def test_the_first_command_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "sites.md").read_text(encoding="utf-8")
    command = next(line for line in page.splitlines() if line.startswith("    situ up "))
    code, out, _ = situ(*shlex.split(command)[1:], "--json")
    ended = json.loads(out)
    assert code == 0
    said = re.search(r"^([\d,]+) events, ([\d,]+) complex events", page, re.MULTILINE)
    assert said is not None
    assert (f"{ended['events']:,}", f"{ended['complex_events']['AllOverTown']:,}") == said.groups()
