"""situ: complex event processing for events that move and sources that are far apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from situ.core.errors import InputError, QueryError, QuerySyntaxError, SituError, SituWarning, StateError
from situ.core.functions import function

if TYPE_CHECKING:
    from situ.lang.parse import parse
    from situ.lang.resolve import resolve
    from situ.runtime.embedded import Engine, Output
    from situ.runtime.spark.detect import Detection, detect
    from situ.runtime.spark.session import spark_session

__all__ = [
    "Detection",
    "Engine",
    "InputError",
    "Output",
    "QueryError",
    "QuerySyntaxError",
    "SituError",
    "SituWarning",
    "StateError",
    "detect",
    "function",
    "parse",
    "resolve",
    "spark_session",
]

#: Loaded when first used: the engine brings Numba with it, which `situ check` does not need, and Spark may be absent.
_LATER = {
    "Detection": "situ.runtime.spark.detect",
    "Engine": "situ.runtime.embedded",
    "Output": "situ.runtime.embedded",
    "detect": "situ.runtime.spark.detect",
    "parse": "situ.lang.parse",
    "resolve": "situ.lang.resolve",
    "spark_session": "situ.runtime.spark.session",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'situ' has no attribute {name!r}")
