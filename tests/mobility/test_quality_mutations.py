"""The random tests of `quality` see wrong ways to judge, and see nothing where nothing is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mobility.quality_mutations import MUTATIONS

pytestmark = pytest.mark.storm


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str) -> None:
    """In a process without the JIT, in which functions of the kernel can be replaced."""
    command = [sys.executable, "-m", "mobility.quality_mutations", name]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == (3 if name == "nothing" else 0), ended.stderr
