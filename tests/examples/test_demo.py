"""`make demo`: Spark, tables and a map."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from examples.scripts import EXAMPLES, run_demo, script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEMO = EXAMPLES / "traffic" / "demo.py"


def check(printed: str, maps: Path) -> None:
    """The tables, and as many colours on the map as there are minutes."""
    assert re.findall(r"^(looks like an accident|queue|hard braking)\b.*?: (\d+)", printed, re.MULTILINE) == [
        ("looks like an accident", "13"),
        ("queue", "19"),
        ("hard braking", "299"),
    ]
    assert re.search(r"^ 3 +09:35 +23166741#5_1 +\(1747, 1698\) +carIn17649:1 +carIn24958:1", printed, re.MULTILINE)
    with Image.open(maps / "traffic.png") as picture:
        colours = picture.convert("RGB").getcolors(100_000)
        assert picture.width > 1_000
    assert colours is not None
    marks = {colour for count, colour in colours if count > 30 and max(colour) - min(colour) > 60}
    assert len(marks) >= 15  # of the twenty colours, one for each minute
    assert (maps / "traffic.svg").read_text().startswith("<?xml")


@pytest.mark.slow
def test_the_demo_prints_what_it_finds_and_draws_a_map(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_demo(script("traffic", "demo"), tmp_path / "maps", "--limit", "3", spark=spark)
    check(capsys.readouterr().out, tmp_path / "maps")


@pytest.mark.spark
@pytest.mark.storm
def test_the_demo_starts_in_any_directory(tmp_path: Path) -> None:
    """From another directory than its own, as users do."""
    command = [sys.executable, str(DEMO), "--out", "maps", "--limit", "3"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    check(run.stdout, tmp_path / "maps")
