"""What the conformance suite shares."""

from __future__ import annotations

import pytest

from situ.runtime.spark.plan import partitioning


@pytest.fixture
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The windows of these queries are seconds long: slices of time that are as short. This is not for Spark: its
    workers look at the constants, too, and have situ's own."""
    monkeypatch.setattr(partitioning, "SHORTEST_SLICE_US", 1)
    monkeypatch.setattr(partitioning, "SLICE_PER_WINDOW", 1)
