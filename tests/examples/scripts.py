"""The scripts of the examples, as a user starts them, but in this process and on the session that all tests share."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


EXAMPLES = Path(__file__).parents[2] / "examples"


@cache
def script(folder: str, name: str) -> ModuleType:
    """A script of an example as a module. Scripts import each other by plain names, which other examples use too."""
    sys.path.insert(0, str(EXAMPLES / folder))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(EXAMPLES / folder))
        for file in (EXAMPLES / folder).glob("*.py"):
            sys.modules.pop(file.stem, None)


def run_demo(demo: ModuleType, out: Path, *arguments: str, spark: SparkSession) -> None:
    """Runs `demo.py --out OUT ARGUMENTS`. At its end it stops its Spark session, which is not its own here."""
    with pytest.MonkeyPatch.context() as process:
        process.setattr("sys.argv", ["demo.py", "--out", str(out), *arguments])
        process.setattr(spark, "stop", lambda: None)
        demo.main()
