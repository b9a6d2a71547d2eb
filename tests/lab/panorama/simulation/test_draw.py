"""Events drawn from rates, and replayed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from situ.core.errors import InputError
from situ.lab.panorama.simulation.draw import VALUES, draw
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.network import Link, Network, Site
from situ.placement.problem import Sources

NETWORK = Network((Site("edge"), Site("hub")), (Link("edge", "hub", 1.0),))
SOURCES = {"A": Sources(np.array([0, 1]), np.array([30.0, 10.0]))}


def drawn(stream: str, seed: int = 1, duration_s: float = 100.0) -> tuple[pa.Table, np.ndarray]:
    graph = resolve(parse(f"stream A({stream}\nsubscribe All detect A"))
    occurred = draw(graph, SOURCES, duration_s, np.random.default_rng(seed))["A"]
    return occurred.rows, occurred.sites


def test_rates_are_those_of_the_sources() -> None:
    rows, sites = drawn("u int, us int) time us in us")
    counts = np.bincount(sites)
    assert abs(counts[0] - 3000) < 4 * np.sqrt(3000)
    assert abs(counts[1] - 1000) < 4 * np.sqrt(1000)
    times = rows.column("us").to_numpy()
    assert (np.diff(times) >= 0).all()
    assert times[0] >= 0
    assert times[-1] < 100_000_000
    gaps_s = np.diff(times) / 1e6  # of a Poisson process, as long on average as they vary
    assert abs(gaps_s.std() / gaps_s.mean() - 1) < 0.1


def test_values_are_spread_evenly() -> None:
    rows, _ = drawn("u int, x double, b boolean, s string, us int) time us in us")
    assert abs(rows.column("u").to_numpy().mean() / VALUES - 0.5) < 0.03
    assert abs(rows.column("x").to_numpy().mean() - 0.5) < 0.03
    assert abs(np.mean(rows.column("b").to_pylist()) - 0.5) < 0.05
    assert len(set(rows.column("s").to_pylist())) == 10


@pytest.mark.parametrize(
    ("stream", "seconds"),
    [
        ("t int) time t in ms", lambda value: value / 1e3),
        ("t int) time t in ns", lambda value: value / 1e9),
        ("t double) time t in s", lambda value: value),
        ("t timestamp) time t", lambda value: value.timestamp()),
        ("t int from source) time t in s", float),
    ],
)
def test_times_are_in_the_streams_unit(stream: str, seconds: object) -> None:
    rows, _ = drawn(stream)
    last = rows.column(0).to_pylist()[-1]
    assert callable(seconds)
    assert 98 <= seconds(last) < 100


def test_the_same_seed_draws_the_same() -> None:
    one, other, third = (drawn("u int, us int) time us in us", seed)[0] for seed in (1, 1, 2))
    assert one.equals(other)
    assert not one.equals(third)


def test_no_values_are_drawn_of_other_types() -> None:
    with pytest.raises(InputError, match=r"A\.d is of type decimal"):
        drawn("d decimal(5, 2), us int) time us in us")
