"""What docs/placement.md shows of `situ plan` and `situ compare` is what they answer."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from cli.command import situ
from docs.markdown import ROOT, blocks, rows, without_blocks
from docs.test_python import _comparable
from situ.placement.auto import GREEDY_PLUS_SITES, HEURISTIC_SITES, OPTIMAL_SITES
from situ.placement.bounds import WHOLE_FRONT_SITES
from situ.placement.exhaustive import MOST_PLANS
from situ.placement.mechanisms import MECHANISMS
from situ.placement.problem import MOST_PULLED

PAGE = ROOT / "docs" / "placement.md"
TEXTS = [block.text for block in blocks(PAGE, "text")]


def text_with(start: str) -> str:
    (found,) = [text for text in TEXTS if text.lstrip().startswith(start)]
    return found


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page's first example, and examples/."""
    (tmp_path / "machines.situ").write_text(blocks(PAGE, "situ")[0].text)
    (tmp_path / "net.json").write_text(text_with('{"sites"'))
    (tmp_path / "rates.json").write_text(text_with('{"rates"'))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands() -> dict[str, list[str]]:
    """The indented commands, by their first file."""
    text = without_blocks(PAGE).replace("\\\n", " ")
    found = [shlex.split(line)[1:] for line in re.findall(r"^    (situ .*)$", text, re.MULTILINE)]
    return {f"{words[0]} {Path(words[1]).name}": words for words in found}


def test_the_plan_of_the_machines(machines: Path) -> None:
    code, out, _ = situ(*commands()["plan machines.situ"])
    assert code == 0
    (shown,) = [text for text in TEXTS if text.startswith("Plan of")]
    assert _comparable(out) == _comparable(shown)


def test_its_json(machines: Path) -> None:
    code, out, _ = situ(*commands()["plan machines.situ"], "--json")
    assert code == 0
    found, shown = json.loads(out), json.loads(text_with('{"mechanism"'))
    assert list(found) == list(shown)
    assert _rounded(found | {"seconds": 0}) == _rounded(shown | {"seconds": 0})


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.4g}")
        case list():
            return [_rounded(item) for item in value]
        case dict():
            return {name: _rounded(item) for name, item in value.items()}
        case _:
            return value


def test_all_fields_are_explained(machines: Path) -> None:
    listed = [name for row in rows(PAGE, "field", "what it is") for name in row.cells[0]]
    assert set(listed) == set(json.loads(text_with('{"mechanism"')))


def test_a_limit_of_20_ms_is_the_second_line_of_the_front(machines: Path) -> None:
    code, out, _ = situ(*commands()["plan machines.situ"], "--latency", "20", "--json")
    assert code == 0
    assert json.loads(out)["cost"] == pytest.approx(0.1826, rel=1e-3)


def test_the_comparison(machines: Path) -> None:
    code, out, _ = situ(*commands()["compare exfiltration.situ"])
    assert code == 0
    (shown,) = [text for text in TEXTS if "of naive" in text]
    assert _timeless(out) == _timeless(shown)


def _timeless(table: str) -> list[str]:
    return [re.sub(r"\d+\.\d\d   (?=\w)", "", line) for line in _comparable(table) if line.strip()]


def test_all_mechanisms_are_listed() -> None:
    tables = [("what it does", "when"), ("what it optimises", "what it knows", "what it sends")]
    listed = [name for columns in tables for row in rows(PAGE, "`--mechanism`", *columns) for name in row.cells[0]]
    assert sorted(listed) == sorted(MECHANISMS)


def test_sizes_are_those_of_the_code() -> None:
    text = without_blocks(PAGE)
    for size in (OPTIMAL_SITES, HEURISTIC_SITES, GREEDY_PLUS_SITES, WHOLE_FRONT_SITES):
        assert f"up to {size:,} sites" in text
    assert (MOST_PLANS, "up to five million plans" in text) == (5_000_000, True)
    assert (MOST_PULLED, "up to eight different event types" in text) == (8, True)
