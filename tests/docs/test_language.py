"""docs/language.md is true: its examples are what the embedded engine and the oracle say."""

from __future__ import annotations

import pytest

from docs.examples import ANSWERS, Answering, assignments, by_engine, graph_of, labels, show
from docs.markdown import ROOT, Block, Row, blocks, rows
from situ.graph.operators import OperatorGraph
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine

PAGE = ROOT / "docs" / "language.md"

#: Examples are short: most of them have no window.
pytestmark = pytest.mark.filterwarnings("ignore::situ.core.errors.SituWarning")

#: What a block that declares no stream of its own may read.
PREAMBLE = """
stream Vehicle(vehicle string, x double, y double, speed double, lane string, ts timestamp)
  time ts  at (x, y)  key vehicle
stream Door(door string, state string, ts timestamp) time ts
stream Consumer(id string, x double, y double, ts timestamp) time ts  at (x, y)
stream Video(camera string, frame binary, ts timestamp) time ts
"""


@pytest.mark.parametrize("block", blocks(PAGE, "situ"), ids=str)
def test_query_compiles(block: Block) -> None:
    text = block.text
    if "detect" in text.split("\n", 1)[0]:  # a rule alone
        text = f"subscribe Example\n{text}"
    if "stream " not in text:
        text = PREAMBLE + text
    graph = resolve(parse(text, str(block)))
    assert graph.operators or graph.streams
    Engine(graph)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
@pytest.mark.parametrize("row", rows(PAGE, "detect", "events", "complex events"), ids=str)
def test_complex_events(row: Row, answer: Answering) -> None:
    found, _ = answer(graph_of(f"detect {_text(row)}"), _events(row))
    timed = any(" at " in label for label in row.cells[2])
    assert labels(_events(row), found, timed=timed) == sorted(row.cells[2])


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
@pytest.mark.parametrize("row", rows(PAGE, "detect", "events", "timed out"), ids=str)
def test_timed_out(row: Row, answer: Answering) -> None:
    _, timed_out = answer(graph_of(f"detect {_text(row)} report timed out"), _events(row))
    assert labels(_events(row), timed_out, timed=True) == sorted(row.cells[2])


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
@pytest.mark.parametrize("row", rows(PAGE, "rule", "events", "complex events"), ids=str)
def test_attributes(row: Row, answer: Answering) -> None:
    found, _ = answer(graph_of(_text(row)), _events(row))
    assert assignments(found) == sorted(row.cells[2])


@pytest.mark.parametrize("row", rows(PAGE, "expression", "value"), ids=str)
def test_expression(row: Row) -> None:
    ((expression,), (value,)) = row.cells
    (found,), _ = by_engine(_assigning(expression), "a1:7")
    assert show(found.attributes["value"]) == value


def test_every_kind_of_example_is_there() -> None:
    """A header that is spelt differently would make its examples untested."""
    assert len(rows(PAGE, "detect", "events", "complex events")) > 60
    assert len(rows(PAGE, "detect", "events", "timed out")) > 3
    assert len(rows(PAGE, "rule", "events", "complex events")) > 5
    assert len(rows(PAGE, "expression", "value")) > 20


def _text(row: Row) -> str:
    (text,) = row.cells[0]
    return text


def _events(row: Row) -> str:
    (events,) = row.cells[1]
    return events


def _assigning(expression: str) -> OperatorGraph:
    return graph_of(f"detect A as a assign value = {expression}")
