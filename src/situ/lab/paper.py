"""A paper whose experiments are run again: its figures, and the report of a run."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pyarrow.csv import write_csv

from situ.core.errors import InputError, did_you_mean
from situ.lab.figure import FULL, QUICK, Experiment, Figure, Say, Scale, to_json, to_markdown
from situ.lab.pictures import check_can_draw, draw


@dataclass(frozen=True, slots=True)
class Paper:
    """`modules` has the module of each figure, which is loaded when that figure is asked for: engine, predictor and
    planner are much to load. `setting` is what all experiments run on, in words."""

    name: str
    modules: Mapping[str, str]
    setting: str

    def chosen(self, names: Sequence[str]) -> list[str]:
        """The figures that are asked for, in the paper's order; all of them where none is.

        >>> Paper("P", {"1a": "one", "1b": "two"}, "").chosen(["1b", "1a"])
        ['1a', '1b']
        """
        for name in names:
            if name not in self.modules:
                raise InputError(f"{self.name} has no Figure {name!r}", remedy=did_you_mean(name, self.modules))
        return [name for name in self.modules if name in names or not names]

    def experiment(self, figure: str) -> Experiment:
        """What makes a figure.

        >>> Paper("MCEP", {"6i": "situ.lab.mcep.experiments.migration"}, "").experiment("6i").__name__
        'figure_6i'
        """
        return cast(Experiment, importlib.import_module(self.modules[figure]).FIGURES[figure])

    def report(self, out: Path) -> Path:
        """Where a run into a directory writes its report.

        >>> Paper("MCEP", {}, "").report(Path("out")).as_posix()
        'out/mcep.md'
        """
        return out / f"{self.name.lower()}.md"

    def run(self, out: Path, names: Sequence[str], seed: int, quick: bool, say: Say) -> list[Figure]:
        """Runs the experiments of some figures and writes pictures, cases, curves and a report into a directory."""
        check_can_draw()
        scale = QUICK if quick else FULL
        makers = [self.experiment(name) for name in self.chosen(names)]
        out.mkdir(parents=True, exist_ok=True)
        figures = []
        for make in makers:
            figures.append(make(scale, seed, say))
            _write(figures[-1], out)
        report, curves = self.report(out), [to_json(figure) for figure in figures]
        report.with_suffix(".json").write_text(json.dumps(curves, indent=1) + "\n")
        report.write_text(self._text(figures, scale, seed))
        return figures

    def _text(self, figures: Sequence[Figure], scale: Scale, seed: int) -> str:
        """Markdown: a picture each, the paper's claim, what we see, whether it holds."""
        small = " Few cases only, to see whether it runs: the figures mean little." if scale is QUICK else ""
        lines = [
            f"# {self.name}'s experiments, again",
            "",
            f"{self.setting} Seed {seed}.{small}",
            "",
            "| figure | | the paper's claim |",
            "| --- | --- | --- |",
            *(f"| [{figure.name}](#figure-{figure.name}) | {figure.title} | {figure.verdict} |" for figure in figures),
        ]
        for figure in figures:
            lines += ["", *to_markdown(figure, f"{figure.name}.png")]
        return "\n".join(lines) + "\n"


def _write(figure: Figure, out: Path) -> None:
    """The picture, and the cases behind it."""
    draw(figure, out / f"{figure.name}.png")
    if figure.cases is not None:
        write_csv(figure.cases, out / f"{figure.name}.csv")
