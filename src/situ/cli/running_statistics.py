"""What sites that run have counted: for `situ stats --network`, `situ plan --from-running` and `situ status`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from situ.cli.controlling import control_of
from situ.cli.measured import MeasuredStatistics
from situ.cli.planning_options import ProblemOptions, StatsOptions
from situ.cli.query_file import import_functions, read_query
from situ.cli.site_options import ControlOptions
from situ.core.errors import InputError, SituError
from situ.graph.operators import OperatorGraph
from situ.lang.resolve import resolve
from situ.network.statistics import Statistics, write_statistics
from situ.runtime.sites.learned_statistics import learned_statistics
from situ.runtime.sites.process.deploying import Control


@dataclass(frozen=True, slots=True)
class RunningSites:
    """What running sites say: statistics, where results go, and which sites did not answer."""

    statistics: Statistics
    root: str
    silent: tuple[str, ...]


def stats_of_running(options: StatsOptions) -> MeasuredStatistics:
    """Asks the sites, and writes what they have counted to the file that --out names."""
    import_functions(options.functions)
    learned = learned_from(resolve(read_query(options.file)), options.control, options.seconds)
    if options.out is not None:
        write_statistics(learned.statistics, options.out)
    silent = [f"site {site} does not answer; what occurs there is not counted." for site in learned.silent]
    return MeasuredStatistics(learned.statistics, tuple(silent))


def running_of(graph: OperatorGraph, options: ProblemOptions) -> RunningSites:
    """What the sites say that the options of a planning problem name."""
    running = options.running
    network = None if running.directory is not None else options.network
    return learned_from(graph, ControlOptions(network, running.keys, running.insecure, running.directory))


def learned_from(graph: OperatorGraph, options: ControlOptions, seconds: float | None = None) -> RunningSites:
    """Asks all sites that have an address what they count, once or before and after some time, and how far they are
    from each other."""
    control = control_of(options)
    before = None
    if seconds is not None:
        before, _ = _reports(control)
        time.sleep(seconds)
    reports, silent = _reports(control)
    reports = {site: report for site, report in reports.items() if report["versions"]}
    if not reports:
        raise InputError("no site runs a plan", remedy="Give them one with `situ deploy`.")
    round_trips = control.of_all(control.round_trips_s, list(reports))
    known_s = {site: trips for site, trips in round_trips.items() if not isinstance(trips, SituError)}
    newest = max((report["versions"] for report in reports.values()), key=lambda versions: max(map(int, versions)))
    results = newest[max(newest, key=int)]["results"]
    return RunningSites(learned_statistics(graph, reports, before, known_s), results[0], silent)


def _reports(control: Control) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    answers = control.of_all(control.status, list(control.addresses))
    reports = {site: report for site, report in answers.items() if not isinstance(report, SituError)}
    return reports, tuple(site for site in answers if site not in reports)
