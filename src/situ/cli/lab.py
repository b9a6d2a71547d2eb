"""`situ lab`: the papers' experiments, again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from situ.cli.options import AsJson, user_errors

if TYPE_CHECKING:
    from situ.lab.panorama import Result

lab = typer.Typer(no_args_is_help=True, help="The papers' experiments, again: our curves beside their claims.")


@lab.callback()
def _experiments() -> None:
    """One command for each paper, also while there is one only."""


@lab.command()
def panorama(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where pictures, figures and the report go.")] = Path(
        "out/panorama"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Small networks and few cases: to see whether it runs.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the first case; the others follow.")] = 1,
    figures: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Some of the paper's figures, such as 9a,10c. Default: all.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Where operators run and what is pulled: PaNORAMA's Figures 9, 10 and 11."""
    from situ.lab.panorama import chosen, to_json

    with user_errors(as_json):
        names = chosen([name.strip() for name in figures.split(",")] if figures else [])
        results = run_with_progress(out, names, seed, quick)
        if as_json:
            typer.echo(json.dumps([to_json(result) for result in results]))
        else:
            show_results(results, out)


def run_with_progress(out: Path, names: Sequence[str], seed: int, quick: bool) -> list[Result]:
    """The bar goes to standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from situ.lab.panorama import run

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)

        def say(done: int, total: int, what: str) -> None:
            progress.update(task, completed=done, total=total, description=what)

        return run(out, names, seed, quick, say)


def show_results(results: Sequence[Result], out: Path) -> None:
    """A line for each figure, and where the report is."""
    from rich.console import Console
    from rich.table import Table

    from situ.lab.claims import verdict

    table = Table("figure", "", "the paper's claim", title="PaNORAMA")
    for result in results:
        table.add_row(result.name, result.picture.title, verdict(result.parts))
    console = Console()
    console.print(table)
    console.print(f"{out / 'panorama.md'}", soft_wrap=True)
