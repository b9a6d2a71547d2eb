"""Arrow without pandas, until somebody asks for pandas: importing it takes as long as the rest of a small command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is imported later")


def import_pandas_later() -> None:
    """Let Arrow find no pandas when it first looks, which it does for the first array that it makes.

    It looks again when something is to become a DataFrame. A Series that it is given before that is a sequence to it
    like any other, so this is for commands, which have none, and not for the library.
    """
    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
