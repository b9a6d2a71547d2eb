"""The placement example: what its README says, what its picture shows, and what is measured in its events."""

from __future__ import annotations

import json
import re
import shlex
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cli.command import situ
from docs.markdown import without_blocks
from situ.network.statistics import read_statistics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "placement"
README = EXAMPLE / "README.md"


def generate() -> Any:
    """The script of the example, as a module."""
    spec = spec_from_file_location("placement_generate", EXAMPLE / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the files of the example, in which its commands may write."""
    for file in EXAMPLE.glob("*.*"):
        if file.suffix != ".svg":
            (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands() -> list[list[str]]:
    text = without_blocks(README).replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in re.findall(r"^    (situ .*)$", text, re.MULTILINE)]


def answer(command: list[str]) -> Any:
    code, out, err = situ(*command, "--json")
    assert code == 0, err
    return json.loads(out)


def test_the_network_is_that_of_the_topology_zoo() -> None:
    original = ROOT / "src" / "situ" / "lab" / "panorama" / "topologies" / "Geant2010.graphml"
    assert (EXAMPLE / "geant.graphml").read_bytes() == original.read_bytes()


def test_plan_and_picture(here: Path) -> None:
    plan, *_ = commands()
    found = answer(plan)
    assert {operator["name"]: operator["site"] for operator in found["operators"]} == {
        "Intrusion": "UK",
        "Exfiltration": "AT",
    }
    text = README.read_text(encoding="utf-8")
    assert f"costs {found['naive_cost']:.2f} messages x hops" in text
    assert f"The plan costs {found['cost']:.2f}" in text
    assert f"sends {found['transmission_factor']:.1%} of" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"It takes {found['latency_ms']:.2f} ms" in text
    assert (here / "plan.svg").read_text() == (EXAMPLE / "plan.svg").read_text(), "draw the picture again"


def test_comparison(here: Path) -> None:
    _, compare, *_ = commands()
    cost = {row["mechanism"]: row["cost"] for row in answer(compare)}
    assert f"(`grin`) costs {cost['grin']:.2f}, pulling alone (`cpp`) {cost['cpp']:.2f}" in README.read_text()
    assert cost["optimal"] == pytest.approx(cost["exhaustive"])


def test_a_stricter_limit(here: Path) -> None:
    _, _, strict, *_ = commands()
    found = answer(strict)
    assert [operator["site"] for operator in found["operators"]] == ["CH", "IT"]
    assert f"it costs {found['cost']:.2f}" in README.read_text()
    code, out, _ = situ(*strict[:-1], "11", "--json")
    assert code == 1
    assert "take 11.22" in json.loads(out)["error"]["cause"]


def test_generated_events_have_the_rates_of_the_file() -> None:
    given = read_statistics(EXAMPLE / "rates.json")
    for stream, table in generate().tables(given).items():
        found = table.num_rows / 3_600
        assert found == pytest.approx(given.rate_per_s(stream), rel=0.2)
        assert set(table["country"].to_pylist()) == set(given.rates[stream])


@pytest.mark.storm
@pytest.mark.storm
def test_measured_rates_give_the_same_plan(spark: SparkSession, here: Path) -> None:
    plan, _, _, stats, measured_plan = commands()
    generate().main(here / "out")
    assert situ(*stats)[0] == 0
    given, measured = read_statistics(here / "rates.json"), read_statistics(here / "out" / "rates.json")
    assert set(measured.selectivity) == set(given.selectivity)
    for name, share in given.selectivity.items():
        assert measured.selectivity[name] == pytest.approx(share, rel=0.3), name
    assert answer(measured_plan)["operators"] == answer(plan)["operators"]
