"""`situ up`: all sites of a network on one machine."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from situ.cli.predicted_counted import PredictedCounted, predicted_and_counted
from situ.cli.query_file import import_functions, read_query
from situ.cli.results import ResultFolder
from situ.cli.run_options import SHOWN
from situ.cli.site_plans import (
    SiteSources,
    central_site,
    gathered_plan,
    placed_plan,
    plan_in_file,
    site_sources,
    with_live,
)
from situ.cli.stop_signals import stop_signals
from situ.cli.summary import Summary
from situ.cli.up_options import UpOptions
from situ.core.errors import InputError, SituError
from situ.graph.operators import OperatorGraph
from situ.graph.query import Stream
from situ.io.addresses import is_url, shown_address
from situ.io.files.arriving import require_directory
from situ.io.files.by_suffix import open_source
from situ.io.files.part_files import SUFFIX, result_folder
from situ.io.permissions import PRIVATE
from situ.io.sink_names import FolderNames, require_names
from situ.lang.parse import parse
from situ.lang.resolve import resolve, warnings
from situ.lang.unparse import unparse
from situ.network.load import load_network
from situ.network.network import Network
from situ.runtime.sites.actors import actors_of
from situ.runtime.sites.compiled_plan import compile_plan
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.deployment import concerned_sites
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.process.deploying import Control
from situ.runtime.sites.process.local_sites import LocalSites, SiteArguments
from situ.runtime.sites.process.spark_queries import START_AGAIN
from situ.runtime.sites.sinks.files import read_results, write_part
from situ.runtime.sites.sinks.sink import result_table
from situ.runtime.sites.ways import with_ways
from situ.runtime.sites.wire.proxy import LinkQuality

#: How often sites are asked how far they are.
_LOOK_S = 0.25
#: A site that ends so often has a reason.
_STARTS = 5


@dataclass
class LinkTotals:
    """What flowed over a link from one site to another: events one by one, all else by messages."""

    events: int = 0
    repeats: int = 0
    requests: int = 0
    questions: int = 0
    promises: int = 0
    acknowledgements: int = 0
    greetings: int = 0
    decisions: int = 0
    frames: int = 0
    bytes: int = 0

    def add(self, other: LinkTotals) -> None:
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass
class Delivered:
    """What one subscription has delivered to its actor."""

    actor: str
    complex_events: int = 0


@dataclass
class UpSummary:
    """What became of it: the results, and what flowed between sites. `delivered`: by subscription that delivers to an
    actor, what he was given."""

    results: Summary
    plan: DeployedPlan
    links: dict[tuple[str, str], LinkTotals] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    predicted: list[PredictedCounted] = field(default_factory=list)
    delivered: dict[str, Delivered] = field(default_factory=dict)

    @property
    def total(self) -> LinkTotals:
        """All that crossed a link, each link anew."""
        total = LinkTotals()
        for link in self.links.values():
            total.add(link)
        return total

    def to_json(self) -> dict[str, Any]:
        return self.results.to_json() | {
            "operators": {name: place.site for name, place in self.plan.operators.items()},
            "root": self.plan.results[0],
            "links": [{"from": a, "to": b} | vars(link) for (a, b), link in self.links.items()],
            "total": vars(self.total),
            "restarts": self.restarts,
            "predicted": [each.to_json() for each in self.predicted],
            "delivered": {name: vars(each) for name, each in self.delivered.items()},
        }


def up_file(options: UpOptions, say: Callable[[str], None]) -> UpSummary:
    """Starts the sites, gives them the plan, and stays until the sources have ended (`--once`) or it is stopped."""
    start = time.perf_counter()
    import_functions(options.functions)
    graph = resolve(read_query(options.file))
    network = _with_places(load_network(options.network))
    sources = site_sources(graph, network, options.source)
    plan = with_live(_plan(options, graph, network, sources), options.live or [])
    require_names(graph, FolderNames())
    for stream in graph.streams:
        for address in sources[stream.name].values():
            _check_source(address, stream, options.once)
    with _directory(options.directory) as directory:
        out = options.out or directory / "results"
        if options.directory is None or not (directory / "network.json").exists():
            overwrite = options.overwrite
            ResultFolder(out, options.file_format or "parquet", overwrite=overwrite).__exit__(None, None, None)
        run = _UpRun(options, plan, network, sources, directory, out, say)
        run.run()
        summary = run.summary(graph)
        summary.results.seconds = time.perf_counter() - start
        return summary


def _check_source(address: str, stream: Stream, once: bool) -> None:
    """What is wrong with a source is said here, not by a site that ends."""
    if is_url(address):
        if once:
            raise InputError(
                f"{shown_address(address)} is a stream that does not end, and --once reads files",
                remedy="Give a file or a directory, or leave out --once.",
            )
    elif once:
        open_source(address, stream)
    else:
        require_directory(Path(address))


def _plan(options: UpOptions, graph: OperatorGraph, network: Network, sources: SiteSources) -> DeployedPlan:
    places = options.places
    if places.plan is not None:
        if places.mechanism or places.rates or places.root:
            raise InputError("--plan says where operators run", remedy="Leave out --mechanism, --rates and --root.")
        plan = plan_in_file(places.plan)
        if unparse(parse(plan.query)) != unparse(read_query(options.file)):
            raise InputError(
                f"the plan is one of another query than {options.file}",
                place=str(places.plan),
                remedy="Make one with `situ plan`, or give the query that this one was made of.",
            )
        given = {stream: tuple(sorted(sites)) for stream, sites in sources.items()}
        if {stream: tuple(sorted(sites)) for stream, sites in plan.sources.items()} != given:
            raise InputError(
                "the plan has its sources elsewhere than --source says",
                place=str(places.plan),
                remedy="Plan: " + "; ".join(f"{stream} at {', '.join(s)}" for stream, s in plan.sources.items()),
            )
        compile_plan(plan)
        return plan if plan.bounded == options.once else _with_end(plan, options.once)
    if places.mechanism is None and places.rates is None:
        site_names = sorted({site for of_stream in sources.values() for site in of_stream})
        root = places.root or central_site(network, site_names)
        network.number(root)
        return with_ways(gathered_plan(options.file, graph, sources, network, root, options.once), network)
    if places.rates is None:
        raise InputError("--mechanism needs rates", remedy="Give --rates RATES; `situ stats` measures them.")
    from situ.cli.plan import plan_by, question_of
    from situ.cli.planning_options import ProblemOptions

    question = question_of(ProblemOptions(options.file, options.network, places.rates, places.root), options.functions)
    planned = plan_by(places.mechanism or "auto", question)
    placed = placed_plan(options.file, sources, planned.problem, planned.plan, options.once, options.live or [])
    return with_ways(placed, network)


def _with_end(plan: DeployedPlan, bounded: bool) -> DeployedPlan:
    return replace(plan, bounded=bounded)


@contextmanager
def _directory(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    directory = Path(tempfile.mkdtemp(prefix="situ-up-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class _UpRun:
    """The sites at work, and who looks after them."""

    def __init__(
        self,
        options: UpOptions,
        plan: DeployedPlan,
        network: Network,
        sources: SiteSources,
        directory: Path,
        out: Path,
        say: Callable[[str], None],
    ) -> None:
        self._options, self._plan, self._say, self._out = options, plan, say, out
        # Where sites decide, all of them may come to run operators, whatever the first plan says.
        self._sites = network.names if network.brokers or network.coordinator else plan.sites
        self._format = options.file_format or "parquet"
        further = ["--functions", options.functions] if options.functions else []
        arguments = {
            site: SiteArguments(
                {stream: _from_anywhere(of[site]) for stream, of in sources.items() if site in of},
                str(out.absolute()) if site in plan.results else None,
                [*further, "--format", self._format],
            )
            for site in self._sites
        }
        bytes_per_s = None if options.bandwidth is None else options.bandwidth * 1e6 / 8
        link = LinkQuality(jitter_ms=options.jitter, bytes_per_s=bytes_per_s)
        self._local = LocalSites(
            network,
            arguments,
            directory,
            insecure=options.insecure,
            scale=options.scale,
            link=link,
            joined=None if plan.joined is None else plan.joined | _joined(network, self._sites),
        )
        self._reports: dict[str, dict[str, Any]] = {}
        self._told, self._version = "", 0

    def run(self) -> None:
        """Returns when all is done, or when it is told to stop."""
        stop = threading.Event()
        with stop_signals(stop):
            try:
                self._say(f"starting {len(self._sites)} sites ...")
                self._local.start()
                self._control = Control(self._local.control, self._local.addresses)
                deployment = self._control.deploy(self._plan, concerned_sites(self._plan))
                self._say(deployment.words())
                while not stop.wait(_LOOK_S) and not self._were_stopped():
                    self._start_again()
                    if self._look() and self._options.once:
                        return
                if self._options.once:
                    raise SituError("stopped before the sources had ended", remedy="With --dir it can go on later.")
            finally:
                self._local.close()

    def _were_stopped(self) -> bool:
        """Whether somebody has told all sites to stop."""
        return all(self._local.exit_code(name) == 0 for name in self._sites)

    def _start_again(self) -> None:
        """Sites that were killed are started again; those that were told to stop are not."""
        for name in self._local.ended():
            site, code = self._local.sites[name], self._local.exit_code(name)
            if code == 0 or code is None:
                continue
            if (code > 0 and code != START_AGAIN) or site.starts >= _STARTS:
                raise SituError(f"site {name} has ended, with code {code}:\n{site.last_words}")
            self._say(f"site {name} has ended ({_ending(code)}), and is started again")
            self._local.start([name])

    def _look(self) -> bool:
        """Asks all sites how they are; whether all is done."""
        for site, report in self._control.of_all(self._control.status, list(self._sites)).items():
            if isinstance(report, SituError):
                return False
            self._reports[site] = report
        self._tell_version()
        waits = waits_in_words(self._reports)
        if waits != self._told and waits:
            self._say(waits)
        self._told = waits
        versions = [version for report in self._reports.values() for version in report["versions"].values()]
        return bool(versions) and all(version["over"] for version in versions)

    def _tell_version(self) -> None:
        """Say where operators run, when brokers have decided otherwise."""
        version = max((report["version"] for report in self._reports.values()), default=0)
        if version <= self._version:
            return
        runs = {
            operator: site
            for site, report in self._reports.items()
            for operator in report["versions"].get(str(version), {}).get("operators", ())
        }
        if self._version:
            places = ", ".join(f"{operator} at {site}" for operator, site in sorted(runs.items()))
            self._say(f"version {version} runs: {places}")
        self._version = version

    def _made(self) -> Iterator[tuple[LogName, dict[str, Any]]]:
        """What sites said last of the logs that they make; selections are parts of these."""
        for report in self._reports.values():
            for version in report["versions"].values():
                logs = [(LogName.parse(name), made) for name, made in version["made"].items()]
                yield from ((log, made) for log, made in logs if not log.selection)

    def summary(self, graph: OperatorGraph) -> UpSummary:
        """What was read and found, from what the sites said last and from the results."""
        limit = SHOWN if self._options.limit is None else self._options.limit
        results = Summary(limit, warnings=tuple(map(str, warnings(graph))), out=self._options.out)
        streams = {stream.name for stream in graph.streams}
        for log, made in self._made():
            if log.type in streams:
                results.events += made["events"] if log.kind in ("events", "late") else 0
                results.late += made["events"] if log.kind == "late" else 0
                results.rejected += made["events"] if log.kind == "rejected" else 0
            elif log.kind == "timed out":
                results.timed_out += made["events"]
        compiled = compile_plan(self._plan)
        delivered = {
            name: Delivered(actor) for name, actor in actors_of(graph.query).items() if actor in self._plan.actors
        }
        for log, made in self._made():
            if log.kind == "events" and log.type in delivered:
                delivered[log.type].complex_events += made["events"]
        for name in [o.name for o in graph.subscriptions if o.name not in delivered]:
            log = LogName("events", name, self._plan.operators[name].site, self._plan.version)
            empty = result_table(log, pa.RecordBatch.from_pylist([], schema=compiled.schemas["events", name]))
            folder = result_folder(self._out, name)
            if self._options.once and not folder.exists():
                PRIVATE.make_directory(folder)
                write_part(folder / f"part-00000{SUFFIX[self._format]}", empty, self._format, PRIVATE)
            results.complex_events[name] = 0
            for table in read_results(folder, empty.schema, self._format):
                results.complex_events[name] += table.num_rows
                results.keep_first(name, table)
        summary = UpSummary(results, self._plan, _links(self._reports), delivered=delivered)
        summary.predicted = predicted_and_counted(self._reports)
        summary.restarts = {name: site.starts - 1 for name, site in self._local.sites.items() if site.starts > 1}
        return summary


def _joined(network: Network, sites: Collection[str]) -> set[tuple[str, str]]:
    """The pairs of some sites that a link joins, in both directions: later plans may go over any of them."""
    links = [link for link in network.links if {link.a, link.b} <= {*sites}]
    return {pair for link in links for pair in ((link.a, link.b), (link.b, link.a))}


def _with_places(network: Network) -> Network:
    """The network whose actors' directories can be found from anywhere."""
    return replace(network, actors=tuple(replace(a, address=_from_anywhere(a.address)) for a in network.actors))


def _from_anywhere(address: str) -> str:
    return address if is_url(address) else str(Path(address).absolute())


def _links(reports: dict[str, dict[str, Any]]) -> dict[tuple[str, str], LinkTotals]:
    return {
        (site, to): LinkTotals(**report["links"].get(to, {}), frames=link["frames"], bytes=link["bytes"])
        for site, report in sorted(reports.items())
        for to, link in sorted(report["process"]["links"].items())
    }


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"


def waits_in_words(reports: dict[str, dict[str, Any]]) -> str:
    """Who waits for what, in one line; nothing where all goes on."""
    waits = []
    for site, report in sorted(reports.items()):
        for other, link in sorted(report["process"]["links"].items()):
            if link["waits"]:
                waits.append(f"{site} waits for {other}: {link['waits']}")
        waits += [f"{site} reads no {stream}: {reason}" for stream, reason in sorted(report["held"].items())]
    return "; ".join(waits)


def say_to_terminal(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
