"""What `situ explain` says of subscriptions whose consumers share their work: how; and on sources, how much, in which
tiles, and whether it pays."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from situ.core.time import format_duration, format_time
from situ.core.types import to_arrow
from situ.graph.operators import OperatorGraph
from situ.graph.query import Stream
from situ.graph.sharing import asks_for_quality, unshared_because
from situ.io.files.by_suffix import open_source
from situ.kernel.arrays import I64
from situ.kernel.batch import one_chunk
from situ.lang.resolve import resolve
from situ.mobility.interests import BASIC, Interests, Updates, interests_of
from situ.mobility.moving_query import MovingQuery, Spans, moving_queries
from situ.reuse.regions import REST, TRIAL, TRIES
from situ.reuse.tiles import REGIONS_PER_TILE, tiles_of
from situ.reuse.totals import Totals
from situ.runtime.embedded import Engine
from situ.space.event_store import reals
from situ.space.geometry import Shape

#: Tiles that are listed.
SHOWN = 8


@dataclass(frozen=True, slots=True)
class Tile:
    """Interests that may share with each other at one time: their middle, and how many there are."""

    x: float
    y: float
    interests: int


@dataclass(frozen=True, slots=True)
class MeasuredReuse:
    """What reuse does on sources: CPU time with it and without, and the tiles when there are most consumers."""

    totals: Totals
    shared_s: float
    alone_s: float
    at_us: int
    tiles: tuple[Tile, ...]

    def __str__(self) -> str:
        """
        >>> print(MeasuredReuse(Totals(9, 8, 1, 900, 100, 8, 0, 9, 0, 9.0, 8.1), 0.5, 2.0, 0, (Tile(3.0, 4.0, 9),)))
        reuse pays: 0.50 s where it takes 2.00 s alone (4.0 x)
        9 interests, 8 of them covered by the regions of others (1.0 tried for each)
        1 regions read 100 events, where interests would have read 900 (11%)
        9 spans served by the regions of others, 0 below what was asked, and processed alone
        precision 1.00, recall 0.90 on average
        most at 1970-01-01 00:00:00: 9 interests in 1 tiles
          9 around (3, 4)
        """
        ratio = self.alone_s / self.shared_s
        verdict = "pays" if ratio > 1 else "does not pay: leave `quality` out"
        when = format_time(self.at_us)
        listed = sorted(self.tiles, key=lambda tile: -tile.interests)
        count = sum(tile.interests for tile in self.tiles)
        lines = [
            f"reuse {verdict}: {self.shared_s:.2f} s where it takes {self.alone_s:.2f} s alone ({ratio:.1f} x)",
            str(self.totals),
            f"most at {when}: {count:,} interests in {len(self.tiles):,} tiles",
            *(f"  {tile.interests} around ({tile.x:.7g}, {tile.y:.7g})" for tile in listed[:SHOWN]),
        ]
        lines += [f"  and {len(listed) - SHOWN} more"] if len(listed) > SHOWN else []
        return "\n".join(lines)


def sharing_in_words(graph: OperatorGraph) -> dict[str, str]:
    """Says of each subscription that asks for a quality how its consumers share, or why they do not.

    >>> from situ.lang.parse import parse
    >>> words = sharing_in_words(resolve(parse('''
    ...     stream Car(id int, x double, y double, v double, ts int) time ts in s at (x, y)
    ...     subscribe Slow for Car(id) aggr every 10 s detect Car as c assign v = avg(c.v)
    ...       around Car square 500 m quality precision 0.8 recall 0.7
    ... ''')))
    >>> print(words["Slow"].splitlines()[0])
    interests share regions: precision 0.8, recall 0.7 at least in every span
    """
    words = {}
    for query in moving_queries(graph):
        if query.spans is not None:
            words[query.name] = _in_words(query, query.spans)
        elif asks_for_quality(query.subscription):
            words[query.name] = f"interests do not share: {unshared_because(graph, query.subscription)}"
    return words


def _in_words(query: MovingQuery, spans: Spans) -> str:
    quality = query.subscription.quality
    assert quality is not None, "it reuses"
    named = {"precision": quality.precision, "recall": quality.recall}
    texts = {
        name: value if isinstance(value, str) else f"{value:g}" for name, value in named.items() if value is not None
    }
    least = ", ".join(f"{name} {text}" for name, text in texts.items())
    names = ", ".join(operator.name for operator in query.graph.operators)
    length = format_duration(spans.length_us + (spans.every_us is not None))
    what = (
        f"window of {length}" if spans.every_us else f"event that {spans.step} begins with, and the {length} after it"
    )
    waits = "does not wait" if spans.every_us else f"waits {length} for the spans that begin by its time"
    return "\n".join(
        [
            f"interests share regions: {least} at least in every span",
            f"  a span is a {what}" if spans.every_us else f"  a span is an {what}",
            "  judged when it closes; from the first that does not suffice on, another region serves, or its own",
            f"  a result from another one's region {waits}",
            f"  where another one's region serves, nothing runs of {names}; so disparity is 1",
            f"  that is one of the {TRIES} nearest regions, if it suffices so far; else it is a region itself",
            f"  rests for {REST} interests of a tile when {TRIAL} have saved less than judging them has cost",
            f"  within tiles of space, {REGIONS_PER_TILE} times as long as a region; on Spark, each in one shard",
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
            at_us, tiles = _tiles(query, paths[query.focal.name])
            alone_s, _ = _timed(alone, paths)
            reuse_of[query.name] = MeasuredReuse(engine.reuse[query.name], seconds, alone_s, at_us, tiles)
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


def _tiles(query: MovingQuery, path: Path) -> tuple[int, tuple[Tile, ...]]:
    """The time at which there are most interests, and the tiles that they are in at that time."""
    interests = _interests(query, path)
    if not len(interests):
        return 0, ()
    begins, ends = np.sort(interests.start_us), np.sort(interests.end_us)
    at_us = int(begins[np.argmax(np.arange(1, len(begins) + 1) - np.searchsorted(ends, begins, side="right"))])
    present = interests.take((interests.start_us <= at_us) & (interests.end_us > at_us))
    tile = tiles_of(present.x, present.y, Shape.of(query.around, query.focal.degrees))
    members = [np.flatnonzero(tile == number) for number in np.unique(tile)]
    return at_us, tuple(Tile(float(present.x[m].mean()), float(present.y[m].mean()), len(m)) for m in members)


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
