"""`situ run --follow`: a query over streams that do not end, on Spark, whose rules may change while it runs."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from situ.cli.engines import OnSpark
from situ.cli.query_file import import_functions, read_query
from situ.cli.run import addresses_of_streams, say_if_compiling
from situ.cli.run_options import SHOWN, FollowOptions, RunOptions, refuse_with_follow, time_given
from situ.cli.stop_signals import stop_signals
from situ.core.errors import InputError, SituError
from situ.core.time import format_duration, parse_duration
from situ.graph.operators import OperatorGraph
from situ.graph.query import Stream
from situ.io.addresses import shown_address
from situ.io.files.by_suffix import Format
from situ.io.permissions import PRIVATE, Permissions
from situ.runtime.spark.session.session import borrowed_session, require_pyspark, running_session, spark_defaults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from situ.cli.follow_recent import RecentDirectory
    from situ.cli.follow_show import Show
    from situ.cli.follow_summary import FollowSummary
    from situ.runtime.spark.follow.checkpoint import Manifest
    from situ.runtime.spark.follow.follow import Follower
    from situ.runtime.spark.follow.opening import Job, Opening
    from situ.runtime.spark.inputs.tables import JudgedRows
    from situ.runtime.spark.sinks.stream_sinks import Sink
    from situ.runtime.spark.stages.output import TaggedOutput
    from situ.service.figures import StreamTotals

PARTITIONS = "spark.sql.shuffle.partitions"


def follow_file(
    options: RunOptions, spark: OnSpark | None, error_to_json: Callable[[SituError], dict[str, Any]] | None
) -> None:
    """Runs the query in a file over streams until Ctrl-C, or to their end (--once), and shows how it goes: as JSON, if
    there is a function that says errors in JSON."""
    refuse_with_follow(options)
    assert spark is not None
    begun = time.monotonic()
    require_pyspark()
    module = import_functions(options.functions)
    out, metrics = options.out, options.follow_options.metrics
    start_us = None if options.start is None else time_given("--start", options.start)
    job = job_of(options.file, options.source or [], options.follow_options, out, options.permissions, start_us)
    from situ.cli.run_spark import ship
    from situ.cli.spark_progress import waiting
    from situ.runtime.spark.follow.checkpoint import Checkpoint
    from situ.runtime.spark.follow.opening import open_rules
    from situ.service.prometheus import MetricsServer, metrics_address, metrics_text

    served_at = metrics_address(metrics) if metrics is not None else None
    ended = threading.Event()
    with ExitStack() as stack:
        stack.enter_context(Checkpoint(job.checkpoint, job.permissions).locked())
        opening = open_rules(job)
        stack.enter_context(quiet_after(ended))
        if spark.is_here:
            say_if_compiling()
        with waiting("starting Spark"):
            conf = session_conf(spark, opening.manifest, [*job.addresses.values(), *([out] if out else [])])
            session = stack.enter_context(borrowed_session(spark.master, conf))
        ship(module, session)
        recent = _recent(job) if out is None else None
        follower = _follower(session, job, opening, out, options.file_format or "parquet", recent)
        show = stack.enter_context(_show(follower.totals, recent, error_to_json))
        if served_at is not None:
            host, port = served_at
            show.serving(stack.enter_context(MetricsServer(lambda: metrics_text(follower.totals), port, host)).url)
        with stop_signals(follower.stop):
            follower.run(show.tell)
        show.end(_summary(follower, show, time.monotonic() - begun, out))
        ended.set()


def job_of(
    file: Path,
    sources: list[str],
    options: FollowOptions,
    out: str | None = None,
    permissions: Permissions = PRIVATE,
    start_us: int | None = None,
) -> Job:
    """The work that a command line describes; InputError if one of its values is none."""
    from situ.runtime.spark.follow.opening import Job
    from situ.runtime.spark.inputs.stream_sources import check_source

    query = read_query(file)
    addresses = addresses_of_streams(OperatorGraph(query, query.streams, ()), sources)
    for address in addresses.values():
        check_source(address)
    assert options.checkpoint is not None
    return Job(
        file=str(file),
        text=file.read_text(encoding="utf-8"),
        addresses=addresses,
        checkpoint=options.checkpoint,
        control=options.control,
        every_us=None if options.every is None else _interval(options.every),
        once=options.once,
        shards=options.shards,
        levels=options.levels,
        out=out,
        permissions=permissions,
        clock_back_to_us=None
        if options.clock_back_to is None
        else time_given("--clock-back-to", options.clock_back_to),
        start_us=start_us,
    )


def _interval(text: str) -> int:
    remedy = "Write it as a number with a unit: --every 500ms, --every 2s, --every '1 min'."
    try:
        micros = parse_duration(text.strip().lower())
    except ValueError as error:
        raise InputError(f"--every '{text}' is no duration", remedy=remedy) from error
    if micros < 1000:
        raise InputError(f"--every {format_duration(micros)} is shorter than a millisecond", remedy=remedy)
    return micros


def session_conf(spark: OnSpark, manifest: Manifest | None, addresses: list[str]) -> dict[str, str]:
    """The settings of a session that is started for this: what addresses need, and as many partitions as cores."""
    from situ.runtime.spark.sinks.stream_sinks import packages_for

    if running_session() is not None:
        return spark.conf
    remote = place_of(spark, os.environ).startswith("sc://")  # whose server has jars of its own, and takes no others
    conf = spark.conf | ({} if remote else packages_for(addresses, spark.conf))
    if manifest is not None:
        conf.setdefault(PARTITIONS, str(manifest.partitions))
    elif (cores := local_cores(spark, os.environ)) is not None:
        conf.setdefault(PARTITIONS, str(cores))
    return conf


def place_of(spark: OnSpark, environ: Mapping[str, str]) -> str:
    """Where Spark is to run: the command line decides, then the environment and Spark's own files, else all cores
    here."""
    settings = spark_defaults(environ) | spark.conf
    remote = settings.get("spark.remote") or environ.get("SPARK_REMOTE")
    return spark.master or remote or settings.get("spark.master") or "local[*]"


def local_cores(spark: OnSpark, environ: Mapping[str, str]) -> int | None:
    """The cores that Spark has, where it runs on this machine; None, where that is not known before it runs.

    >>> local_cores(OnSpark("local[3]", {}), {}), local_cores(OnSpark("yarn", {}), {})
    (3, None)
    """
    local = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\d+)?\])?", place_of(spark, environ))
    if local is None:
        return None
    if local[1] == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return int(local[1] or 1)


def _recent(job: Job) -> RecentDirectory:
    from situ.cli.follow_recent import RecentDirectory

    recent = RecentDirectory(job.checkpoint.absolute() / "shown", SHOWN)
    recent.clear()
    return recent


def _follower(
    session: SparkSession,
    job: Job,
    opening: Opening,
    out: str | None,
    file_format: Format,
    recent: RecentDirectory | None,
) -> Follower:
    from situ.cli.follow_recent import RecentSink
    from situ.runtime.spark.follow.follow import Follower
    from situ.runtime.spark.inputs.stream_sources import open_stream
    from situ.runtime.spark.sinks.stream_sinks import open_sink

    def source(stream: Stream, work: Path) -> JudgedRows:
        return open_stream(session, job.addresses[stream.name], stream, work)

    def sink(output: TaggedOutput, query: str) -> Sink:
        if out is not None:
            return open_sink(out, file_format, output, query, job.permissions)
        assert recent is not None
        return RecentSink(recent.directory, output, recent.limit)

    return Follower(session, job, opening, source, sink)


def _show(
    totals: StreamTotals, recent: RecentDirectory | None, error_to_json: Callable[[SituError], dict[str, Any]] | None
) -> Show:
    from situ.cli.follow_show import JsonLines, Lines, Screen

    if error_to_json is not None:
        return JsonLines(totals, recent, error_to_json)
    return Screen(totals, recent) if sys.stdout.isatty() else Lines(totals, recent)


def _summary(follower: Follower, show: Show, seconds: float, out: str | None) -> FollowSummary:
    from situ.cli.follow_summary import FollowSummary

    where = None if out is None else shown_address(out)
    checkpoint = follower.job.checkpoint
    changes = tuple(follower.changes)
    return FollowSummary(follower.totals, changes, show.refused, seconds, where, checkpoint, show.counts)


@contextmanager
def quiet_after(ended: threading.Event) -> Iterator[None]:
    """Swallows errors once all the work has been done: SIGTERM may reach Spark's Java, too, which then cannot be
    stopped."""
    try:
        yield
    except Exception:
        if not ended.is_set():
            raise
