"""The lab is no part of the product: its tests run with `make storms`.

`make test` runs the examples in its docstrings, which show that it still fits the product.
"""

from __future__ import annotations

from pathlib import Path

import pytest

LAB = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(LAB):
            item.add_marker(pytest.mark.storm)
