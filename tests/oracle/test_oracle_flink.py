"""The oracle answers FlinkCEP's own test cases as Flink does: the first proof of docs/language.md."""

from __future__ import annotations

import pytest

from conformance.flink import FlinkCase, load
from oracle import detect
from situ.lang.resolve import resolve


def test_all_cases_are_there() -> None:
    assert len(load()) == 171


@pytest.mark.parametrize("case", load(), ids=lambda case: case.name)
def test_as_flink(case: FlinkCase) -> None:
    matches = detect(resolve(case.query), {"E": case.events}).matches["M"]
    found = [[index for _, index in match.atomic] for match in matches]
    assert case.by_values(found) == case.by_values(case.expected)
