"""situ: complex event processing for events that move and sources that are far apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from situ.core.errors import InputError, QueryError, QuerySyntaxError, SituError, SituWarning, StateError
from situ.core.functions import function

if TYPE_CHECKING:
    from situ.lang.parse import parse
    from situ.lang.resolve import resolve
    from situ.runtime.embedded import Engine, Output

__all__ = [
    "Engine",
    "InputError",
    "Output",
    "QueryError",
    "QuerySyntaxError",
    "SituError",
    "SituWarning",
    "StateError",
    "function",
    "parse",
    "resolve",
]

#: Loaded when first used: the engine brings Numba with it, which `situ check` does not need.
_LATER = {
    "Engine": "situ.runtime.embedded",
    "Output": "situ.runtime.embedded",
    "parse": "situ.lang.parse",
    "resolve": "situ.lang.resolve",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'situ' has no attribute {name!r}")
