"""MCEP's experiments, again (section 6): its Figures 6a to 6i on the Ingolstadt trace, our curves beside its claims."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from situ.core.errors import InputError, did_you_mean
from situ.lab.figure import FULL, QUICK, Experiment, Figure, Say, Scale, draw, to_json, to_markdown
from situ.lab.pictures import check_can_draw

#: The modules of the figures. Each is loaded when one of its figures is asked for: the query engine, the predictor and
#: the planner are much to load.
MODULES = {
    **dict.fromkeys(("6a", "6b", "6c", "6d"), "situ.lab.mcep_switching"),
    **dict.fromkeys(("6e", "6f", "6g"), "situ.lab.mcep_prediction"),
    **dict.fromkeys(("6h", "6i"), "situ.lab.mcep_migration"),
}


def chosen(names: Sequence[str]) -> list[str]:
    """The figures that are asked for; all of them where none is.

    >>> chosen(["6h", "6a"])
    ['6a', '6h']
    """
    for name in names:
        if name not in MODULES:
            raise InputError(f"MCEP has no Figure {name!r}", remedy=did_you_mean(name, MODULES))
    return [name for name in MODULES if name in names or not names]


def experiment(name: str) -> Experiment:
    """The function that makes a figure.

    >>> experiment("6i").__name__
    'figure_6i'
    """
    return cast(Experiment, getattr(importlib.import_module(MODULES[name]), f"figure_{name}"))


def run(out: Path, names: Sequence[str], seed: int, quick: bool, say: Say) -> list[Figure]:
    """Runs the experiments of some figures and writes pictures, curves and a report into a directory."""
    check_can_draw()
    scale = QUICK if quick else FULL
    makers = [experiment(name) for name in chosen(names)]
    out.mkdir(parents=True, exist_ok=True)
    figures = []
    for make in makers:
        figures.append(make(scale, seed, say))
        draw(figures[-1], out / f"{figures[-1].name}.png")
    (out / "mcep.json").write_text(json.dumps([to_json(figure) for figure in figures], indent=1) + "\n")
    (out / "mcep.md").write_text(_report(figures, scale, seed))
    return figures


def _report(figures: Sequence[Figure], scale: Scale, seed: int) -> str:
    """Markdown: a picture each, the paper's claim, what we see, whether it holds."""
    small = " Few cases only, to see whether it runs: the figures mean little." if scale is QUICK else ""
    lines = [
        "# MCEP's experiments, again",
        "",
        "On the Ingolstadt trace: 1,413 vehicles over 1,200 s in 2.66 km x 2.67 km (the paper: 2,500 to 5,000 vehicles "
        f"over 500 to 1,000 s in 7.7 km x 3.5 km). Seed {seed}.{small}",
        "",
        "| figure | | the paper's claim |",
        "| --- | --- | --- |",
        *(f"| [{figure.name}](#figure-{figure.name}) | {figure.title} | {figure.verdict} |" for figure in figures),
    ]
    for figure in figures:
        lines += ["", *to_markdown(figure, f"{figure.name}.png")]
    return "\n".join(lines) + "\n"
