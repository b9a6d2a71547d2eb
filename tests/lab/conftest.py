"""The lab is no part of the product: what takes long of it runs with `make storms`.

`make test` runs what is quick, which also shows that the lab still fits the product: kernels, covers, estimators, the
simulation of plans, and the examples in docstrings.
"""

from __future__ import annotations

from pathlib import Path

import pytest

LAB = Path(__file__).parent
LONG = ("mcep/experiments", "mcep/prediction", "mcep/switching", "panorama/experiments", "recep/experiments",
        "recep/selections")  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the experiments, and the simulators that they run."""
    for item in items:
        if any(item.path.is_relative_to(LAB / folder) for folder in LONG):
            item.add_marker(pytest.mark.storm)
