"""The tests of `quality` see wrong ways to judge, and see nothing where nothing is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mobility.quality_mutations import MUTATIONS


def run_without_jit(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process without the JIT functions of the kernel can be replaced."""
    command = [sys.executable, "-m", "mobility.quality_mutations", *arguments]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_worked_case_sees_each_mutation() -> None:
    ended = run_without_jit()
    assert ended.returncode == 0, ended.stderr
    caught = json.loads(ended.stdout)
    assert caught.pop("nothing") == 0
    assert {*caught} == {*MUTATIONS} - {"nothing"}
    assert min(caught.values()) > 0, caught


@pytest.mark.storm
@pytest.mark.parametrize("name", MUTATIONS)
def test_random_cases_see_a_mutation(name: str) -> None:
    ended = run_without_jit(name)
    assert ended.returncode == (3 if name == "nothing" else 0), ended.stderr
