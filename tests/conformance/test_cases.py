"""Every `.case` file gives what it says, in every way that runs in this process; and docs/language.md says it, too."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from cases.case_file import Case, Found, compare, load
from conformance.question import case_to_question
from conformance.ways import IN_TASKS, NOT_IN_TASKS, WAYS

DIRECTORY = Path(__file__).parents[1] / "cases"
FILES = sorted(DIRECTORY.glob("*.case"))
LANGUAGE = DIRECTORY.parents[1] / "docs" / "language.md"


def only_subscribed(case: Case, found: Found) -> Found:
    """Without the complex events of definitions, of which a file says nothing."""
    names = {operator.name for operator in case.graph.subscriptions}
    events = {name: table for name, table in found.complex_events.items() if name in names}
    return Found(events, found.timed_out, found.late, found.rejected)


def questions() -> list[ParameterSet]:
    """Every file in every way that takes it."""
    cases = [(path, case_to_question(load(path))) for path in FILES]
    return [
        pytest.param(path, way, id=f"{path.stem}-{way}")
        for path, question in cases
        for way, executor in WAYS.items()
        if executor.accepts(question) and not (way in IN_TASKS and path.stem in NOT_IN_TASKS)
    ]


@pytest.mark.usefixtures("short_slices")
@pytest.mark.parametrize(("path", "way"), questions())
def test_case(path: Path, way: str) -> None:
    case = load(path)
    answer = WAYS[way].run(case_to_question(case), random.Random(f"{case.name} {way}"))
    found, expected = compare(case, lambda case: only_subscribed(case, answer))
    assert found == expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_sentence_is_in_the_language_definition(path: Path) -> None:
    assert plain(load(path).sentence) in plain(LANGUAGE.read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_result_is_written_down(path: Path) -> None:
    """Every subscription is expected, with its time and all its attributes."""
    case = load(path)
    for operator in case.graph.subscriptions:
        for kind in ("expected", "timed out") if operator.rule.timed_out else ("expected",):
            columns = case.expected[kind, operator.name].columns
            assert {"_time", *operator.schema.names} <= set(columns)


def plain(markdown: str) -> str:
    return " ".join(re.sub(r"[`*]", "", markdown).split())
