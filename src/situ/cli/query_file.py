"""From the files that a user names to a query and the functions that it calls."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from situ.core.errors import InputError
from situ.graph.query import Query
from situ.lang.parse import parse


@contextmanager
def without_looking_for_garbage() -> Iterator[None]:
    """For commands that make a query and end: of thousands of rules there is much to look through, and no garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def read_query(file: Path) -> Query:
    """The query that a file says."""
    return parse(file)


def import_functions(module: str | None) -> ModuleType | None:
    """Imports a module, whose functions register themselves; the working directory is searched first."""
    if module is None:
        return None
    if (directory := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, directory)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"cannot import the module of functions '{module}': {error}",
            remedy="Name it as Python does (package.module), and put it on the Python path or in this directory.",
        ) from error
