"""Figures in sections, all of them or some: what `python -m situ.bench.mobility` and its like do."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from rich.console import Console

from situ.bench.suite import BenchFigure

Say: TypeAlias = Callable[[str], None]
Sections: TypeAlias = Mapping[str, Callable[[Say], Iterator[BenchFigure]]]


def figures_of(sections: Sections, say: Say, only: Sequence[str] = ()) -> Iterator[BenchFigure]:
    """All figures, or those of some sections."""
    for name, section in sections.items():
        if not only or name in only:
            yield from section(say)


def main(about: str | None, sections: Sections, arguments: Sequence[str] | None = None) -> int:
    """The figures as a table; `about` is the docstring of a module. Without `arguments`, those of the process."""
    from situ.bench.__main__ import table

    parser = argparse.ArgumentParser(description=(about or "").split("\n", 1)[0])
    parser.add_argument("--only", nargs="+", choices=[*sections], default=[])
    progress, only = Console(stderr=True), parser.parse_args(arguments).only
    figures = list(figures_of(sections, lambda text: progress.print(f"[dim]{text}[/dim]"), only))
    Console().print(table(figures))
    return 0
