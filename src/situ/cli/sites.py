"""The commands of sites: `situ keys`, and those that start, deploy to, ask and stop them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from situ.cli.option_groups import takes
from situ.cli.options import AsJson, user_errors
from situ.cli.panels import OPERATE
from situ.cli.site_options import (
    AdaptOptions,
    DemandOptions,
    DeployOptions,
    PushOptions,
    SiteOptions,
    StatusOptions,
    StopOptions,
    TransitionOptions,
)
from situ.cli.up_options import UpOptions

sites = typer.Typer()


@sites.command(rich_help_panel=OPERATE)
def keys(
    network: Annotated[
        Path,
        typer.Argument(metavar="NETWORK", help="Sites and links: .json, .graphml or .parquet.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where certificates and keys go.", show_default=False)],
    days: Annotated[int, typer.Option(metavar="N", help="How long certificates hold.")] = 365,
    producer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Make a certificate for a process that pushes events to sites, too: DIR/producers/NAME. May be given "
            "several times.",
            show_default=False,
        ),
    ] = None,
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
        made = keys_of_network(network, out, days, producer or [])
        typer.echo(json.dumps(made.to_json()) if as_json else str(made))


@sites.command(rich_help_panel=OPERATE)
@takes(UpOptions)
def up(options: UpOptions) -> None:
    """Run a query at the sites of a network, all of them on this machine.

    Starts a process for each site that has something to do, as far apart as the network says, gives them a plan, and
    shows what they find. For example, with events that occur in two places, to their end:

    situ up braking.situ --network net.json --source Vehicle@north=north.parquet --source Vehicle@south=south.parquet
    --once --out found

    Sites that are killed are started again, and go on where they were.
    """
    from situ.cli.up import say_to_terminal, up_file

    with user_errors(options.as_json):
        summary = up_file(options, (lambda text: None) if options.as_json else say_to_terminal)
        if options.as_json:
            typer.echo(json.dumps(summary.to_json()))
        else:
            from situ.cli.up_show import show_up

            show_up(summary)


@sites.command(rich_help_panel=OPERATE)
@takes(SiteOptions)
def site(options: SiteOptions) -> None:
    """Run one site of a network on this machine, until Ctrl-C or `situ stop`.

    It waits for a plan (`situ deploy`), unless it has one from before. For example:

    situ site north --network net.json --dir /var/lib/situ/north --keys keys/sites/north --source Vehicle=incoming
    """
    from situ.cli.site import run_site

    with user_errors(as_json=False):
        run_site(options)


@sites.command(rich_help_panel=OPERATE)
@takes(PushOptions)
def push(options: PushOptions) -> None:
    """Push the rows of a file to a site that takes them from producers (`situ site --source Type=flight://NAME`).

    For example:

    situ push Vehicle cars.parquet --to north --as camera-1 --network net.json --keys keys/producers/camera-1

    Returns when all of them are on the site's disk. The same command again, with more rows in the file, sends what has
    not been sent: a producer's rows are numbered, and each is taken once.
    """
    from situ.cli.push import push_file
    from situ.cli.up import say_to_terminal

    with user_errors(options.as_json):
        pushed = push_file(options, say_to_terminal)
        typer.echo(json.dumps(pushed) if options.as_json else f"{pushed['sent']:,} rows, {pushed['had']:,} before")


@sites.command(rich_help_panel=OPERATE)
@takes(DeployOptions)
def deploy(options: DeployOptions) -> None:
    """Give a plan to the sites that run: all of them take it, or none does.

    For example:

    situ plan alarms.situ --network net.json --rates rates.json --out plan.json

    situ deploy plan.json --network net.json --keys keys/control

    Where a plan runs already, this one is its next version, for events from a time on that no source has reached.
    """
    from situ.cli.deploy import deploy_file

    with user_errors(options.as_json):
        deployed = deploy_file(options)
        typer.echo(json.dumps(deployed) if options.as_json else deployed["words"])


@sites.command(rich_help_panel=OPERATE)
@takes(TransitionOptions)
def transition(options: TransitionOptions) -> None:
    """Move operators to other sites while events flow: nothing is lost, and nothing is found twice.

    For example, of the sites that `situ up --dir here` has started, first only said, then done:

    situ transition --to relaxation --dir here --dry-run

    situ transition --to relaxation --dir here

    Operators that must not wait for their state, one after another:

    situ transition --plan plan.json --strategy sms --order sequential --dir here

    Operators that pull, and those on Spark, do not move: docs/transitions.md.
    """
    from situ.cli.transition import transition_of

    with user_errors(options.as_json):
        moved = transition_of(options)
        typer.echo(json.dumps(moved.to_json()) if options.as_json else str(moved))


@sites.command(rich_help_panel=OPERATE)
@takes(DemandOptions)
def demand(options: DemandOptions) -> None:
    """Change what a subscription demands of the sites that run it.

    For example, of the sites that `situ up --dir here` has started:

    situ demand Alarm 'latency < 50 ms, hops < 4' --dir here

    situ demand Alarm '' --dir here

    `situ status` shows which demands are kept. Until a plan with another query is deployed, these hold instead of
    those in its text.
    """
    from situ.cli.demand import change_demands

    with user_errors(options.as_json):
        changed = change_demands(options)
        typer.echo(json.dumps(changed) if options.as_json else changed["words"])


@sites.command(rich_help_panel=OPERATE)
@takes(AdaptOptions)
def adapt(options: AdaptOptions) -> None:
    """Let the coordinator move operators by itself where demands are broken; or no longer.

    For example, of the sites that `situ up --dir here` has started:

    situ adapt on --dir here

    `situ status` shows what it decides, and why: docs/transitions.md.
    """
    from situ.cli.demand import adapt_sites

    with user_errors(options.as_json):
        adapted = adapt_sites(options)
        typer.echo(json.dumps(adapted) if options.as_json else adapted["words"])


@sites.command(rich_help_panel=OPERATE)
@takes(StatusOptions)
def status(options: StatusOptions) -> None:
    """Show how sites are: their operators, events per second, what others have not taken yet, who waits for whom.

    For example, of the sites that `situ up --dir here` has started:

    situ status --dir here
    """
    from situ.cli.site_status import show_statuses, statuses

    with user_errors(options.as_json):
        found = statuses(options)
        if options.as_json:
            typer.echo(json.dumps([each.to_json() for each in found]))
        else:
            show_statuses(found)


@sites.command(rich_help_panel=OPERATE)
@takes(StopOptions)
def stop(options: StopOptions) -> None:
    """End sites. What they have is on disk: `situ site` goes on with it.

    For example:

    situ stop north south --network net.json --keys keys/control
    """
    from situ.cli.deploy import stop_sites

    with user_errors(options.as_json):
        stopped = stop_sites(options)
        typer.echo(json.dumps(stopped) if options.as_json else "\n".join(f"{s}: {w}" for s, w in stopped.items()))
