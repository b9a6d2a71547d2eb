"""`make bench`: every figure in one table, and in out/bench.json; with `--only`, those of some parts."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from situ.bench.suite import PARTS, BenchFigure, figures
from situ.core.errors import SituError

OUT = Path("out/bench.json")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m situ.bench", description="Every figure of situ, or those of parts."
    )
    parser.add_argument(
        "--only", nargs="+", choices=[*PARTS], default=[], metavar="PART", help=f"one of {', '.join(PARTS)}"
    )
    only = parser.parse_args().only
    progress = Console(stderr=True)
    measured: list[BenchFigure] = []
    try:
        for figure in figures(lambda text: progress.print(f"[dim]{text}[/dim]"), only):
            measured.append(figure)
            _write(measured)  # what is there already outlives a run that is broken off
            progress.print(f"{figure.name}: {figure.value:g} {figure.unit} {figure.verdict}", markup=False)
    except SituError as error:
        progress.print(str(error), style="red", markup=False)
        return 1
    Console().print(table(measured))
    return 0


def _write(measured: list[BenchFigure]) -> None:
    OUT.parent.mkdir(exist_ok=True)
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    rows = [asdict(figure) | {"verdict": figure.verdict} for figure in measured]
    OUT.write_text(json.dumps({"machine": machine, "figures": rows}, indent=2) + "\n")


def table(figures: list[BenchFigure]) -> Table:
    """The figures with their bars."""
    shown = Table("what", "figure", "bar", "", "detail", title="situ, measured")
    for figure in figures:
        bar = f"{figure.bar.sense} {figure.bar.value:g}" if figure.bar else ""
        colour = {"pass": "green", "miss": "red", "": ""}[figure.verdict]
        shown.add_row(figure.name, f"{figure.value:g} {figure.unit}", bar, figure.verdict, figure.detail, style=colour)
    return shown


if __name__ == "__main__":
    sys.exit(main())
