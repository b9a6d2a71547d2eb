"""What `situ explain` says of subscriptions whose consumers share their work: how; and on sources, how much, in which
groups, and whether it pays."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from situ.core.time import format_time
from situ.core.types import to_arrow
from situ.graph.operators import OperatorGraph
from situ.graph.query import Stream
from situ.io.files.by_suffix import open_source
from situ.kernel.arrays import I64
from situ.kernel.batch import one_chunk
from situ.lang.resolve import resolve
from situ.mobility.interests import BASIC, Interests, Updates, interests_of
from situ.mobility.moving_query import MovingQuery, moving_queries
from situ.reuse.deal import MOST, groups_of
from situ.reuse.regions import TRIAL, TRIES
from situ.reuse.totals import Totals
from situ.runtime.embedded import Engine
from situ.space.event_store import reals

#: Groups that are listed.
SHOWN = 8


@dataclass(frozen=True, slots=True)
class Group:
    """Interests that are near each other at one time."""

    x: float
    y: float
    interests: int


@dataclass(frozen=True, slots=True)
class MeasuredReuse:
    """What reuse does on sources: CPU time with it and without, and the groups when there are most consumers."""

    totals: Totals
    shared_s: float
    alone_s: float
    at_us: int
    groups: tuple[Group, ...]

    def __str__(self) -> str:
        """
        >>> print(MeasuredReuse(Totals(9, 8, 1, 900, 100, 8, 0, 9.0, 8.1), 0.5, 2.0, 0, (Group(3.0, 4.0, 9),)))
        reuse pays: 0.50 s where it takes 2.00 s alone (4.0 x)
        9 interests, 8 of them covered by the regions of others (1.0 tried for each)
        1 regions read 100 events, where interests would have read 900 (11%)
        precision 1.00, recall 0.90 on average
        most at 1970-01-01 00:00:00: 9 interests in 1 groups
          9 around (3, 4)
        """
        ratio = self.alone_s / self.shared_s
        verdict = "pays" if ratio > 1 else "does not pay: leave `quality` out"
        when = format_time(self.at_us)
        listed = sorted(self.groups, key=lambda group: -group.interests)
        count = sum(group.interests for group in self.groups)
        lines = [
            f"reuse {verdict}: {self.shared_s:.2f} s where it takes {self.alone_s:.2f} s alone ({ratio:.1f} x)",
            str(self.totals),
            f"most at {when}: {count:,} interests in {len(self.groups):,} groups",
            *(f"  {group.interests} around ({group.x:.7g}, {group.y:.7g})" for group in listed[:SHOWN]),
        ]
        lines += [f"  and {len(listed) - SHOWN} more"] if len(listed) > SHOWN else []
        return "\n".join(lines)


def sharing_in_words(graph: OperatorGraph) -> dict[str, str]:
    """Says of each subscription whose consumers share how they do it.

    >>> from situ.lang.parse import parse
    >>> words = sharing_in_words(resolve(parse('''
    ...     stream Car(id int, x double, y double, v double, ts int) time ts in s at (x, y)
    ...     subscribe Slow for Car(id) aggr every 10 s detect Car as c assign v = avg(c.v)
    ...       around Car square 500 m quality precision 0.8 recall 0.7
    ... ''')))
    >>> print(words["Slow"].splitlines()[0])
    interests share regions: precision 0.8, recall 0.7 at least, by the events of the time that is asked for
    """
    return {query.name: _in_words(query) for query in moving_queries(graph) if query.reuses}


def _in_words(query: MovingQuery) -> str:
    quality = query.subscription.quality
    assert quality is not None, "it reuses"
    named = {"precision": quality.precision, "recall": quality.recall}
    least = ", ".join(f"{name} {value:g}" for name, value in named.items() if value is not None)
    names = ", ".join(operator.name for operator in query.graph.operators)
    return "\n".join(
        [
            f"interests share regions: {least} at least, by the events of the time that is asked for",
            "  of the time to come, by the area that regions share",
            f"  for an interest that is covered, nothing runs of {names}; so disparity is 1",
            f"  covered by one of the {TRIES} nearest regions, if that suffices; else it is a region itself",
            f"  rests when {TRIAL} interests have saved less than judging them has cost",
            f"  groups: cells of a quad-tree with at most {MOST} interests; on Spark, near groups meet in one task",
        ]
    )


def measure_reuse(graph: OperatorGraph, paths: Mapping[str, Path]) -> dict[str, MeasuredReuse]:
    """Runs each subscription whose consumers share over sources, with reuse and without."""
    reuse_of = {}
    for query in moving_queries(graph):
        if query.reuses:
            shared = _only(graph, query.name)
            alone = resolve(replace(shared.query, subscriptions=(replace(query.subscription, quality=None),)))
            _timed(shared, paths)  # loads the kernel
            seconds, engine = _timed(shared, paths)
            at_us, groups = _groups(query, paths[query.focal.name])
            alone_s, _ = _timed(alone, paths)
            reuse_of[query.name] = MeasuredReuse(engine.reuse[query.name], seconds, alone_s, at_us, groups)
    return reuse_of


def _timed(graph: OperatorGraph, paths: Mapping[str, Path]) -> tuple[float, Engine]:
    """The CPU time of a query over its sources."""
    engine, begun = Engine(graph), time.process_time()
    for _ in engine.run({stream.name: paths[stream.name] for stream in graph.streams}):
        pass
    return time.process_time() - begun, engine


def _only(graph: OperatorGraph, name: str) -> OperatorGraph:
    """What one subscription needs."""
    needed = graph.needed(name)
    query = graph.query
    (subscription,) = (s for s in query.subscriptions if s.name == name)
    streams = {*needed, subscription.around.focal} if subscription.around else needed
    return resolve(
        replace(
            query,
            streams=tuple(s for s in query.streams if s.name in streams),
            definitions=tuple(d for d in query.definitions if d.name in needed),
            subscriptions=(subscription,),
        )
    )


def _groups(query: MovingQuery, path: Path) -> tuple[int, tuple[Group, ...]]:
    """The time at which there are most interests, and the groups that they are in at that time."""
    interests = _interests(query, path)
    if not len(interests):
        return 0, ()
    begins, ends = np.sort(interests.start_us), np.sort(interests.end_us)
    at_us = int(begins[np.argmax(np.arange(1, len(begins) + 1) - np.searchsorted(ends, begins, side="right"))])
    present = interests.take((interests.start_us <= at_us) & (interests.end_us > at_us))
    group = groups_of(present.x, present.y, MOST, query.focal.degrees)
    members = [np.flatnonzero(group == number) for number in np.unique(group)]
    return at_us, tuple(Group(float(present.x[m].mean()), float(present.y[m].mean()), len(m)) for m in members)


def _interests(query: MovingQuery, path: Path) -> Interests:
    assert query.focal.location is not None, "resolved: who moves has a place"
    rows, times = _read(path, query.focal, [query.consumer[1], *query.focal.location])
    consumer, x, y = (one_chunk(column) for column in rows.columns)
    return interests_of(Updates(consumer, times, reals(x), reals(y)), query.subscription.update or BASIC,
                        query.focal.degrees)  # fmt: skip


def _read(path: Path, stream: Stream, names: list[str]) -> tuple[pa.Table, I64]:
    """Reads some columns of a source, and the times of its rows."""
    chunks = [chunk.read(names) for chunk in open_source(path, stream).chunks()]
    types = {attribute.name: to_arrow(attribute.type) for attribute in stream.attributes}
    nothing = pa.schema([(name, types[name]) for name in names]).empty_table()
    rows = pa.concat_tables([nothing, *(chunk.events.select(names) for chunk in chunks)], promote_options="permissive")
    return rows, np.concatenate([np.zeros(0, np.int64), *(chunk.times for chunk in chunks)])
