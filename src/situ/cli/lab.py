"""`situ lab`: the papers' experiments, again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

from situ.cli.options import AsJson, user_errors

if TYPE_CHECKING:
    from situ.lab.paper import Paper

lab = typer.Typer(no_args_is_help=True, help="The papers' experiments, again: our curves beside their claims.")

Out = Annotated[Path, typer.Option(metavar="DIR", help="Where pictures, figures and the report go.")]
Quick = Annotated[bool, typer.Option("--quick", help="Small cases and few of them: to see whether it runs.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the first case; the others follow.")]
Figures = Annotated[
    str | None,
    typer.Option(
        metavar="LIST", help="Some of the paper's figures, separated by commas. Default: all.", show_default=False
    ),
]


class LabCost(StrEnum):
    """By which costs plans are made."""

    coverage = "coverage"
    paper = "paper"


Cost = Annotated[LabCost, typer.Option(help="By which cost model plans are made: ours, or the paper's formulas.")]
Result = TypeVar("Result")

#: As work goes on: how much is done, of how much, and what is tried.
Say: TypeAlias = Callable[[int, int, str], None]


@lab.command()
def panorama(
    out: Out = Path("out/panorama"),
    quick: Quick = False,
    seed: Seed = 1,
    figures: Figures = None,
    cost: Cost = LabCost.coverage,
    as_json: AsJson = False,
) -> None:
    """Where operators run and what is pulled: PaNORAMA's Figures 9, 10 and 11; `causes`: what our factors depend on;
    `counted`, what sites count."""
    from situ.lab.panorama.paper import PANORAMA, PAPER_COSTS

    _run_again(PAPER_COSTS if cost is LabCost.paper else PANORAMA, out, quick, seed, figures, as_json)


@lab.command()
def mcep(
    out: Out = Path("out/mcep"),
    quick: Quick = False,
    seed: Seed = 1,
    figures: Figures = None,
    as_json: AsJson = False,
) -> None:
    """Queries whose interest moves: MCEP's Figures 6a to 6i."""
    from situ.lab.mcep.paper import MCEP

    _run_again(MCEP, out, quick, seed, figures, as_json)


@lab.command()
def recep(
    out: Out = Path("out/recep"),
    quick: Quick = False,
    seed: Seed = 1,
    figures: Figures = None,
    as_json: AsJson = False,
) -> None:
    """Queries that share their work at a stated quality: RECEP's Figures 8a to 8i."""
    from situ.lab.recep.paper import RECEP

    _run_again(RECEP, out, quick, seed, figures, as_json)


@lab.command()
def edgecep(
    out: Out = Path("out/edgecep"),
    quick: Quick = False,
    seed: Seed = 1,
    figures: Figures = None,
    as_json: AsJson = False,
) -> None:
    """Brokers that decide among themselves where tasks run: EdgeCEP's Figures 5a to 5c and its Tables II and III."""
    from situ.lab.edgecep.paper import EDGECEP

    _run_again(EDGECEP, out, quick, seed, figures, as_json)


@lab.command()
def tcep(
    out: Out = Path("out/tcep"),
    quick: Quick = False,
    seed: Seed = 1,
    figures: Figures = None,
    as_json: AsJson = False,
) -> None:
    """Operators that move while events flow: TCEP's Figures 2 and 10 to 12."""
    from situ.lab.tcep.paper import TCEP

    _run_again(TCEP, out, quick, seed, figures, as_json)


def _run_again(paper: Paper, out: Path, quick: bool, seed: int, figures: str | None, as_json: bool) -> None:
    from situ.lab.figure import to_json

    with user_errors(as_json):
        names = paper.chosen(_names(figures))
        results = with_progress(lambda say: paper.run(out, names, seed, quick, say))
        if as_json:
            typer.echo(json.dumps([to_json(result) for result in results]))
        else:
            rows = ((result.name, result.title, result.verdict) for result in results)
            show_results(paper.name, rows, paper.report(out))


def _names(figures: str | None) -> list[str]:
    return [name.strip() for name in figures.split(",")] if figures else []


def with_progress(work: Callable[[Say], Result]) -> Result:
    """The bar goes to standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)

        def say(done: int, total: int, description: str) -> None:
            progress.update(task, completed=done, total=total, description=description)

        return work(say)


def show_results(paper: str, rows: Iterable[tuple[str, str, str]], report: Path) -> None:
    """A line for each figure, and where the report is."""
    from rich.console import Console
    from rich.table import Table

    table = Table("figure", "", "the paper's claim", title=paper)
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.print(table)
    console.print(f"{report}", soft_wrap=True)
