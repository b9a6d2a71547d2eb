"""The commands of sites: `situ keys`, and those that start, deploy to, ask and stop them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from situ.cli.options import AsJson, user_errors
from situ.cli.panels import OPERATE

sites = typer.Typer()


@sites.command(rich_help_panel=OPERATE)
def keys(
    network: Annotated[
        Path,
        typer.Argument(metavar="NETWORK", help="Sites and links: .json, .graphml or .parquet.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where certificates and keys go.", show_default=False)],
    days: Annotated[int, typer.Option(metavar="N", help="How long certificates hold.")] = 365,
    as_json: AsJson = False,
) -> None:
    """Make certificates for the sites of a network, by which they know each other.

    For example:

    situ keys network.json --out keys

    Sites that have come to the network file since get theirs when the command is given again. Give each site its own
    folder, keys/sites/NAME, and nothing else; keys/control is for whoever deploys and stops. Private keys can be read
    by you alone.
    """
    from situ.cli.keys import keys_of_network

    with user_errors(as_json):
        made = keys_of_network(network, out, days)
        typer.echo(json.dumps(made.to_json()) if as_json else str(made))
