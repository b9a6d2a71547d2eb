"""What holds results against raw events sees every kind of broken promise."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from situ.bench.reuse_truth import PromiseKept, interests_of, kept
from situ.bench.sharing_drivers import TOLD, Tables, between, second_by_second, tables_of
from situ.runtime.embedded import Engine

DRIVERS, SINCE_S, UNTIL_S = 80, 500, 545


@cache
def tables() -> Tables:
    return between(tables_of("Ingolstadt", DRIVERS), SINCE_S, UNTIL_S)


@cache
def found() -> dict[str, pa.Table]:
    outputs = [output.complex_events for output in Engine(TOLD).run(tables())]
    return {name: pa.concat_tables([output[name] for output in outputs]) for name in ("Cars", "Slow")}


def shared(table: pa.Table) -> pa.Array:
    """Which results come from another one's region, and say less than 1."""
    return pc.less(pc.add(table["precision"], table["recall"]), 1.99)


def with_column(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


@pytest.mark.parametrize("name", ["Cars", "Slow"])
def test_what_the_engine_delivers_is_kept(name: str) -> None:
    said = kept(name, found()[name], tables())
    assert (said.below, said.wrong) == (0, 0)
    assert said.spans >= len(found()[name].group_by(["consumer", "interest"]).aggregate([]))
    assert pc.any(shared(found()[name])).as_py()


@pytest.mark.parametrize("name", ["Cars", "Slow"])
@pytest.mark.parametrize("figure", ["precision", "recall"])
def test_a_figure_that_is_not_so_is_seen(name: str, figure: str) -> None:
    table = found()[name]
    assert kept(name, with_column(table, figure, pc.subtract(table[figure], 1e-8)), tables()).wrong > 0
    assert kept(name, with_column(table, figure, pc.subtract(table[figure], 1e-10)), tables()).wrong == 0


def test_a_window_that_is_missing_is_seen() -> None:
    assert kept("Cars", found()["Cars"].slice(1), tables()).below == 1


def test_a_window_that_comes_twice_with_another_figure_is_seen() -> None:
    table = found()["Cars"]
    again = with_column(table.slice(0, 1), "recall", pa.chunked_array([[0.9]]))
    assert kept("Cars", pa.concat_tables([table, again]), tables()).wrong > 0


@pytest.mark.parametrize("name", ["Cars", "Slow"])
def test_a_region_that_is_too_far_away_is_seen(name: str) -> None:
    """All results of somebody's are said to be from the region of the driver who is farthest."""
    table, interests = found()[name], interests_of(tables()["Driver"])
    own = pc.and_(pc.equal(table["consumer"], table["region_consumer"]), pc.equal(table["region_interest"], 1))
    consumer = table.filter(own)["consumer"][0].as_py()
    mine = interests[consumer, 1]
    far = max((key for key in interests if key[1] == 1), key=lambda key: abs(interests[key].x - mine.x))
    named = pc.if_else(pc.equal(table["consumer"], consumer), far[0], table["region_consumer"])
    moved = with_column(with_column(table, "region_consumer", named), "region_interest",
                        pc.if_else(pc.equal(table["consumer"], consumer), 1, table["region_interest"]))  # fmt: skip
    assert kept(name, moved, tables()).below > 0


def test_counts_add_up() -> None:
    assert PromiseKept(1, 2, 3, 4) + PromiseKept(1, 1, 1, 1) == PromiseKept(2, 3, 4, 5)


def test_pieces_have_all_rows_once() -> None:
    pieces = list(second_by_second(tables(), 7))
    for name, table in tables().items():
        assert pa.concat_tables([piece[name] for piece in pieces]) == table
