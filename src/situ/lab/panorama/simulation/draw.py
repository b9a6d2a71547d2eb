"""Events for a simulation: drawn from rates, or replayed from tables that say where each event occurred."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from situ.core.errors import InputError
from situ.core.types import BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, TIMESTAMP_ARROW, Type
from situ.graph.operators import OperatorGraph
from situ.graph.query import Stream
from situ.kernel.arrays import I64
from situ.lab.panorama.simulation.events import Occurred
from situ.placement.problem import Sources

#: Whole numbers are drawn from 0 up to here. A prime: sums and multiples of them, modulo it, are as evenly spread.
VALUES = 1_000_003

#: Texts are drawn from so many.
TEXTS = 10

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def draw(
    graph: OperatorGraph, sources: Mapping[str, Sources], duration_s: float, rng: np.random.Generator
) -> dict[str, Occurred]:
    """Poisson processes of the rates at each source, from the epoch on for so long; attributes are drawn evenly.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> graph = resolve(parse("stream A(u int, us int) time us in us subscribe All detect A"))
    >>> sources = {"A": Sources(np.array([4, 7]), np.array([2.0, 0.0]))}
    >>> drawn = draw(graph, sources, 50.0, np.random.default_rng(1))["A"]
    >>> 60 < len(drawn.sites) < 140, set(drawn.sites.tolist())
    (True, {4})
    """
    streams = {stream.name: stream for stream in graph.streams}
    return {name: _drawn(streams[name], where, duration_s, rng) for name, where in sources.items()}


def _drawn(stream: Stream, sources: Sources, duration_s: float, rng: np.random.Generator) -> Occurred:
    counts = rng.poisson(sources.rates_per_s * duration_s)
    sites = np.repeat(sources.sites, counts)
    times_us = rng.integers(0, max(round(duration_s * 1e6), 1), len(sites))
    order = np.argsort(times_us, kind="stable")
    columns = {
        attribute.column: _times(stream, attribute.type, times_us[order])
        if attribute.name == stream.time
        else _values(stream, attribute.name, attribute.type, len(sites), rng)
        for attribute in stream.attributes
    }
    return Occurred(pa.table(columns), sites[order])


def _times(stream: Stream, type_: Type, times_us: I64) -> pa.Array:
    if type_ is TIMESTAMP:
        return pa.array(times_us).cast(TIMESTAMP_ARROW)
    in_unit = times_us * (_PER_SECOND[stream.time_unit or "us"] / 1e6)
    return pa.array(in_unit) if type_ is DOUBLE else pa.array(np.floor(in_unit).astype(np.int64))


def _values(stream: Stream, name: str, type_: Type, count: int, rng: np.random.Generator) -> pa.Array:
    if type_ is INT:
        return pa.array(rng.integers(0, VALUES, count))
    if type_ is DOUBLE:
        return pa.array(rng.uniform(size=count))
    if type_ is BOOLEAN:
        return pa.array(rng.uniform(size=count) < 0.5)
    if type_ is STRING:
        return pa.array([f"text{n}" for n in range(TEXTS)]).take(pa.array(rng.integers(0, TEXTS, count)))
    raise InputError(
        f"{stream.name}.{name} is of type {type_}, of which no values are drawn",
        remedy="Draw for int, double, boolean and string attributes.",
    )
