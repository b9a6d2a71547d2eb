"""What several commands have in common: options, and how a user's mistake ends a command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from situ.core.errors import InputError, Place, SituError

QueryFile = Annotated[Path, typer.Argument(metavar="FILE", help="A query file.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, errors too.")]
EngineName = Annotated[
    Literal["spark", "embedded"] | None,
    typer.Option(
        "--engine",
        help="spark: many processes, here or on a cluster. embedded: this process, which starts faster. "
        "Both find the same. Default: spark, where PySpark is installed.",
        show_default=False,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where Spark runs: local[4] (four cores of this machine), spark://HOST:7077, yarn, or sc://HOST for "
        "Spark Connect. Default: what spark-defaults.conf says, else all cores of this machine.",
        show_default=False,
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="A setting of Spark's, such as spark.driver.memory=8g. May be given several times.",
        show_default=False,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="The memory that a query may use, as in 4GB: of this process, or of each task of Spark's. One that needs "
        "more ends with a message. Default: half of the machine's, shared by the tasks that run at once.",
        show_default=False,
    ),
]
Functions = Annotated[
    str | None,
    typer.Option(metavar="MODULE", help="Python module whose functions the query calls.", show_default=False),
]


@contextmanager
def user_errors(as_json: bool) -> Iterator[None]:
    """A user's mistake ends the command with a message and exit code 1, never with a traceback."""
    try:
        try:
            yield
        except BrokenPipeError:  # `situ run ... | head`: typer knows what to do
            raise
        except OSError as error:  # a full disk, a directory without permission: not a defect of situ's
            raise InputError(error.strerror or str(error), place=error.filename) from error
    except SituError as error:
        if as_json:
            typer.echo(json.dumps({"error": error_to_json(error)}))
        else:
            typer.secho(str(error), fg=typer.colors.RED, err=True)
        raise typer.Exit(1) from None


def error_to_json(error: SituError) -> dict[str, Any]:
    """What programs read of an error."""
    place: Any = error.place
    if isinstance(place, Place):
        place = {"file": place.file, "line": place.line, "column": place.column}
    return {"kind": type(error).__name__, "cause": error.cause, "place": place, "remedy": error.remedy}
