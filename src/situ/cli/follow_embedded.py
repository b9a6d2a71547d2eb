"""`situ run --follow --engine embedded`: a query over streams that do not end, in this process: a site of one."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from situ.cli.follow_show import JsonLines, Lines, Screen, Show
from situ.cli.follow_summary import FollowSummary
from situ.cli.query_file import import_functions
from situ.cli.recent_events import Recent, RecentMemory
from situ.cli.run import addresses_of_streams, say_if_compiling
from situ.cli.run_options import SHOWN, RunOptions, refuse_with_follow
from situ.cli.site_plans import functions_of
from situ.cli.stop_signals import stop_signals
from situ.core.errors import SituError, StateError
from situ.graph.operators import OperatorGraph
from situ.graph.query import Query
from situ.io.addresses import directory_of, scheme_of, shown_address
from situ.io.permissions import PRIVATE
from situ.io.sink_names import FolderNames, TableNames, require_names, require_stream_folders
from situ.lang.demands import judged_latencies
from situ.lang.parse import parse
from situ.lang.query_files import read_text
from situ.lang.resolve import resolve
from situ.lang.resolve import warnings as warnings_of
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.process.open_sources import open_site_sink, open_site_source
from situ.runtime.sites.process.site_alone import SiteAlone
from situ.runtime.sites.sinks.sink import SiteSink
from situ.runtime.sites.sqlite_journal import SqliteJournal
from situ.service.figures import MicroBatch, StreamTotals
from situ.service.prometheus import MetricsServer, metrics_address, metrics_text
from situ.service.rules import ControlWatch, Texts, query_of, read_control, texts_with
from situ.service.told import Began, Progressed, RulesChanged, RulesRefused, TimePassed

#: How often the site is asked how far it is, and how many such looks there are to one at the control directory.
PERIOD_S, LOOKS = 0.25, 4


def follow_embedded(options: RunOptions, error_to_json: Callable[[SituError], dict[str, Any]] | None) -> None:
    """Runs the query in a file over streams until Ctrl-C, or to the end of what is there (--once), and shows how it
    goes."""
    refuse_with_follow(options)
    begun = time.monotonic()
    import_functions(options.functions)
    follow = options.follow_options
    checkpoint, metrics = follow.checkpoint, follow.metrics
    assert checkpoint is not None
    main = Texts(str(options.file), read_text(options.file))
    query = parse(main.main, main.file)
    addresses = addresses_of_streams(OperatorGraph(query, query.streams, ()), options.source or [])
    _require_rules(query, options.out)
    served_at = metrics_address(metrics) if metrics is not None else None
    say_if_compiling()
    recent = RecentMemory(SHOWN) if options.out is None else None
    with ExitStack() as stack:
        site = _open(options, checkpoint, addresses, recent)
        stack.callback(site.close)
        follower = EmbeddedFollower(site, main, follow.control, options.out)
        show = stack.enter_context(_show(follower.totals, recent, error_to_json))
        if served_at is not None:
            host, port = served_at
            show.serving(stack.enter_context(MetricsServer(lambda: metrics_text(follower.totals), port, host)).url)
        with stop_signals(follower.stop):
            follower.run(show, follow.once)
        where = None if options.out is None else shown_address(options.out)
        seconds = time.monotonic() - begun
        changes = tuple(follower.changes)
        show.end(FollowSummary(follower.totals, changes, show.refused, seconds, where, checkpoint, show.counts))


def _open(options: RunOptions, checkpoint: Path, addresses: dict[str, str], recent: RecentMemory | None) -> SiteAlone:
    """The site in a checkpoint, or a new one there."""
    journal_directory = checkpoint / "journal"
    is_new = not journal_directory.exists()
    if is_new and checkpoint.exists() and any(checkpoint.iterdir()):
        raise StateError(
            "the directory holds something else than a checkpoint of the embedded engine",
            place=str(checkpoint),
            remedy="Give --checkpoint a new directory. One that Spark has made goes on with --engine spark.",
        )
    if is_new and options.out is not None and scheme_of(options.out) == "directory":
        directory = directory_of(options.out)
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise SituError(
                "the output directory is not empty, and new results would mix with what is there",
                place=options.out,
                remedy="Choose another directory.",
            )
    PRIVATE.make_directory(checkpoint)

    def open_sink(plan: DeployedPlan) -> SiteSink:
        if recent is not None:
            return recent
        assert options.out is not None
        return open_site_sink(
            options.out, options.file_format or "parquet", plan.sites, checkpoint, options.permissions
        )

    once = options.follow_options.once
    return SiteAlone(
        SqliteJournal(journal_directory),
        list(addresses),
        lambda stream, plan: open_site_source(addresses[stream], stream, plan, checkpoint, once),
        open_sink,
        functions_of(),
    )


def _require_rules(query: Query, out: str | None) -> None:
    """QueryError if a query means nothing, or if the sink cannot hold its results."""
    graph = resolve(query)
    require_stream_folders(graph)
    if out is not None and scheme_of(out) in ("directory", "postgresql"):
        require_names(graph, FolderNames() if scheme_of(out) == "directory" else TableNames())


@dataclass
class EmbeddedFollower:
    """Looks after a site: its figures, and rules that change."""

    site: SiteAlone
    main: Texts
    control: Path | None
    out: str | None
    totals: StreamTotals = field(default_factory=StreamTotals)
    changes: list[RulesChanged] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, show: Show, once: bool) -> None:
        """Returns when it is told to stop, or has read what is there; raises what ends the site."""
        try:
            self._run(show, once)
        except SituError:
            if self.site.ended.wait(PERIOD_S) and self.site.error is not None:
                raise self.site.error from None
            raise

    def _run(self, show: Show, once: bool) -> None:
        self._texts, self._counts, self._looked_at = self.main, dict[str, int](), time.time()
        self._begin(show)
        watch = ControlWatch(self.control, self._found) if self.control and not once else None
        looks = 0
        while not self.stop.wait(PERIOD_S) and not self.site.ended.is_set():
            self._progress(show)
            show.tell(TimePassed())
            if once and self.site.has_done_all():
                break
            looks += 1
            if watch is not None and looks % LOOKS == 0:
                self._look(watch, show)
        if self.site.error is not None:
            raise self.site.error
        self._progress(show)

    def _begin(self, show: Show) -> None:
        """The rules of the query file and of the control directory; where the latter are wrong, those in force."""
        self._found = read_control(self.control) if self.control else {}
        was_running = self.site.query is not None
        texts, wrong = texts_with(self._texts, self._found)
        change = None
        try:
            change = self._take(texts)
        except SituError as error:
            if not texts.control:
                raise
            wrong.append(error)
            if not was_running:
                change = self._take(self._texts)
        report = self.site.report()
        assert self.site.query is not None
        warnings = tuple(map(str, warnings_of(resolve(self.site.query))))
        show.tell(Began(str(self.main.file), report["version"], report["commits"], 1, 1, warnings))
        if change is not None and was_running:
            self._tell_change(show, change, None)
        for each in wrong:
            show.tell(RulesRefused(each))
        self.site.begin_to_read()

    def _take(self, texts: Texts) -> Any:
        query = query_of(texts)
        _require_rules(query, self.out)
        change = self.site.take_rules(query)
        self._texts = texts
        return change

    def _look(self, watch: ControlWatch, show: Show) -> None:
        try:
            found = watch.look()
            if found is None:
                return
            texts, wrong = texts_with(self._texts, found)
            for error in wrong:
                show.tell(RulesRefused(error))
            begun = time.monotonic()
            change = self._take(texts)
        except SituError as error:
            show.tell(RulesRefused(error))
            return
        if change is not None:
            self._tell_change(show, change, time.monotonic() - begun)

    def _tell_change(self, show: Show, change: Any, pause_s: float | None) -> None:
        report = self.site.report()
        starts = report["versions"][str(report["version"])]["starts_us"]
        after = starts / 1e6 if isinstance(starts, int) else None
        told = RulesChanged(report["version"], change, report["commits"], after, pause_s)
        self.totals.rule_changes += 1
        self.changes.append(told)
        show.tell(told)

    def _progress(self, show: Show) -> None:
        """What happened since the last look, in the words of a micro-batch."""
        report, now = self.site.report(), time.time()
        assert self.site.query is not None
        self.totals.demands = judged_latencies(self.site.query.subscriptions, report["latencies_us"])
        counts = _counts(report)
        new: dict[str, Any] = {name: count - self._counts.get(name, 0) for name, count in counts.items()}
        if not any(new.values()):
            self._looked_at = now
            return
        batch = MicroBatch(
            number=report["commits"],
            begun=self._looked_at,
            seconds=now - self._looked_at,
            watermark=_watermark(report),
            **new,
        )
        self._counts, self._looked_at = counts, now
        self.totals.add(batch)
        show.tell(Progressed(batch))


def _counts(report: dict[str, Any]) -> dict[str, int]:
    rows, written = report["rows"], report["process"]["written"]
    return {
        "input": rows["admitted"] + rows["late"] + rows["rejected"] + rows["unread"],
        "late": rows["late"],
        "rejected": rows["rejected"],
        "complex_events": sum(count for log, count in written.items() if log.startswith("events/")),
        "timed_out": sum(count for log, count in written.items() if log.startswith("timed out/")),
    }


def _watermark(report: dict[str, Any]) -> float | None:
    promises = [source["promise_us"] for source in report["sources"].values()]
    return min(promises) / 1e6 if promises and all(isinstance(p, int) for p in promises) else None


def _show(
    totals: StreamTotals, recent: Recent | None, error_to_json: Callable[[SituError], dict[str, Any]] | None
) -> Show:
    if error_to_json is not None:
        return JsonLines(totals, recent, error_to_json)
    return Screen(totals, recent) if sys.stdout.isatty() else Lines(totals, recent)
