"""Seeds in blocks: a test for each seed would take longer to report than to run."""

from __future__ import annotations

import pytest


def blocks(quick: int, slow: int, storm: int) -> pytest.MarkDecorator:
    """So many blocks for `make check`, for `make test` and for `make storms`; each includes those of the one before."""
    marks = [*[()] * quick, *[pytest.mark.slow] * (slow - quick), *[pytest.mark.storm] * (storm - slow)]
    return pytest.mark.parametrize("block", [pytest.param(number, marks=mark) for number, mark in enumerate(marks)])
