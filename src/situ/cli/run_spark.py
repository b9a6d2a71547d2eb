"""`situ run --engine spark`: the query over files, by Spark's tasks; counts, first rows and results come back here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from situ.cli.carry import CARRIED, ROWS_PER_PACK, AllRows, CountAndFirst
from situ.cli.engines import OnSpark
from situ.cli.results import ResultFolder, StagedResults
from situ.cli.spark_progress import progress_of, waiting
from situ.cli.summary import Summary
from situ.graph.operators import OperatorGraph
from situ.reuse.totals import Totals
from situ.runtime.spark.detect import detect_inputs
from situ.runtime.spark.inputs.own_files import OwnFiles, open_files
from situ.runtime.spark.inputs.tables import StreamInput
from situ.runtime.spark.session.errors import spark_errors
from situ.runtime.spark.session.session import borrowed_session
from situ.runtime.spark.sinks.result_tables import Tables, bytes_to_table
from situ.runtime.spark.stages.output import (
    COMPLEX_EVENT,
    FAILED_CALL,
    HOP,
    REJECTED,
    REUSE,
    SECONDS,
    TIMED_OUT,
    TIMING,
    TOTALS,
)

T = TypeVar("T")


def run_on_spark(
    graph: OperatorGraph,
    paths: Mapping[str, Path],
    spark: OnSpark,
    results: StagedResults | None,
    summary: Summary,
    functions: ModuleType | None,
) -> None:
    """Runs the query, fills the summary and writes the results."""
    with ExitStack() as stack:
        with waiting("starting Spark"):
            session = stack.enter_context(borrowed_session(spark.master, spark.conf))
        stack.enter_context(spark_errors("Spark gives up"))
        ship(functions, session)
        inputs = {stream.name: open_files(session, paths[stream.name], stream) for stream in graph.streams}
        detection = detect_inputs(graph, inputs, timed=summary.timing is not None)
        rejected: Counter[str] = Counter()
        tables = Tables(detection.output)
        # One run of the query, whose result is read twice if it is also to be written.
        with persisted(detection.events, results is not None) as events:
            with progress_of(session, "detecting"):
                interruptible(session, lambda: count_and_keep_first(events, tables, summary, rejected))
            if results is not None:
                with results as folder, progress_of(session, "writing"):
                    interruptible(session, lambda: write_all(events, tables, summary, folder))
        with progress_of(session, "counting events"):
            summary.events = interruptible(session, lambda: events_in(inputs, rejected))


def interruptible(session: SparkSession, action: Callable[[], T]) -> T:
    """What an action of Spark's gives. It runs in another thread, so that Ctrl-C finds this one free to end it."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(action)
        try:
            return future.result()
        finally:
            while not future.done():  # after an interrupt; an action may be several jobs
                session.interruptAll()
                wait([future], timeout=0.5)


def ship(functions: ModuleType | None, session: SparkSession) -> None:
    """Sends the module of the user's functions to the workers. A package is to be installed where they run."""
    file = functions and functions.__file__
    if functions and file and not hasattr(functions, "__path__") and "." not in functions.__name__:
        session.addArtifacts(file, pyfile=True)


@contextmanager
def persisted(df: DataFrame, is_wanted: bool) -> Iterator[DataFrame]:
    """While it lasts, a DataFrame is computed once: Spark keeps it, on disk where memory does not suffice."""
    if not is_wanted:
        yield df
        return
    persistent = df.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield persistent
    finally:
        persistent.unpersist()


def count_and_keep_first(events: DataFrame, tables: Tables, summary: Summary, rejected: Counter[str]) -> None:
    """Each task counts its rows and gives its first ones, from which the first of all are taken here. `rejected` counts
    the rows of each stream that are none of its events."""
    limit = summary.limit if summary.out is None else 0  # rows in files are not shown too
    for row in events.mapInArrow(CountAndFirst(tables, limit), CARRIED).collect():
        if row.kind == COMPLEX_EVENT:
            summary.complex_events[row.name] += row.rows
            if row.packed is not None:
                summary.keep_first(row.name, bytes_to_table(row.packed))
        elif row.kind == TIMED_OUT:
            summary.timed_out += row.rows
        elif row.kind == REJECTED:
            summary.rejected += row.rows
            rejected[row.name] += row.rows
        elif row.kind == TIMING:
            for timed in bytes_to_table(row.packed).to_pylist():
                assert summary.timing is not None
                summary.timing[timed[HOP]] = summary.timing.get(timed[HOP], 0.0) + timed[SECONDS]
        elif row.kind == REUSE:
            for totals in bytes_to_table(row.packed).column(TOTALS).to_pylist():
                summary.shared(row.name, Totals(**totals))
        else:
            assert row.kind == FAILED_CALL, row.kind
            summary.failed_calls[row.name] += row.rows


def write_all(events: DataFrame, tables: Tables, summary: Summary, folder: ResultFolder) -> None:
    """Writes all results, pack by pack, through this process, so that they lie on this machine, wherever Spark runs."""
    rows = summary.complex_events.total() + summary.timed_out + summary.rejected
    tasks = 1 + rows // ROWS_PER_PACK  # they run one after the other, and each is awaited
    packs = events.coalesce(tasks).mapInArrow(AllRows(tables), CARRIED)
    for row in packs.toLocalIterator(prefetchPartitions=True):
        folder.write_table(row.kind, row.name, bytes_to_table(row.packed))
    for name, count in summary.complex_events.items():
        if count == 0:
            folder.write_table(COMPLEX_EVENT, name, tables.empty(COMPLEX_EVENT, name))


def events_in(inputs: Mapping[str, StreamInput | OwnFiles], rejected: Mapping[str, int]) -> int:
    """How many rows of the sources are events; footers say how many rows there are, and the run which of them are
    none."""
    known: int = sum(given.rows - rejected[name] for name, given in inputs.items() if isinstance(given, OwnFiles))
    counts = [
        given.events.select().groupBy().agg(F.count(F.lit(1)).alias("n"))
        for given in inputs.values()
        if isinstance(given, StreamInput)
    ]
    for row in reduce(DataFrame.union, counts).collect() if counts else ():
        known += row.n
    return known
