"""Seeds in blocks: a test for each seed would take longer to report than to run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest


def blocks(quick: int, slow: int, storm: int) -> pytest.MarkDecorator:
    """So many blocks for `make check`, for `make test` and for `make storms`; each includes those of the one before."""
    marks = [*[()] * quick, *[pytest.mark.slow] * (slow - quick), *[pytest.mark.storm] * (storm - slow)]
    return pytest.mark.parametrize("block", [pytest.param(number, marks=mark) for number, mark in enumerate(marks)])


def every_one(first: str, firsts: Iterable[str], second: str, seconds: Sequence[str]) -> pytest.MarkDecorator:
    """All pairs for `make storms`; for `make test` as many as let every one of both occur."""
    pairs = [(i, j, one, other) for i, one in enumerate(firsts) for j, other in enumerate(seconds)]
    return pytest.mark.parametrize(
        (first, second),
        [pytest.param(a, b, marks=() if i % len(seconds) == j else pytest.mark.storm) for i, j, a, b in pairs],
    )
