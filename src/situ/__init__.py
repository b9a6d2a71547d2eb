"""situ: complex event processing for events that move and sources that are far apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from situ.core.errors import InputError, QueryError, QuerySyntaxError, SituError, SituWarning, StateError
from situ.core.functions import function

if TYPE_CHECKING:
    from situ import build
    from situ.lang.parse import parse
    from situ.lang.resolve import resolve
    from situ.lang.unparse import unparse
    from situ.runtime.declare import declare
    from situ.runtime.embedded import Engine, Output
    from situ.runtime.spark.detect import Detection, detect
    from situ.runtime.spark.inputs.own_files import read
    from situ.runtime.spark.session.session import spark_session

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
    "__version__",
    "build",
    "declare",
    "detect",
    "function",
    "parse",
    "read",
    "resolve",
    "spark_session",
    "unparse",
]

__version__ = "0.1.0"

#: Loaded when first used: the engine brings Numba with it, which `situ check` does not need, and Spark may be absent.
_LATER = {
    "Detection": "situ.runtime.spark.detect",
    "Engine": "situ.runtime.embedded",
    "Output": "situ.runtime.embedded",
    "declare": "situ.runtime.declare",
    "detect": "situ.runtime.spark.detect",
    "parse": "situ.lang.parse",
    "read": "situ.runtime.spark.inputs.own_files",
    "resolve": "situ.lang.resolve",
    "spark_session": "situ.runtime.spark.session.session",
    "unparse": "situ.lang.unparse",
}
_ON_SPARK = ("situ.runtime.spark.detect", "situ.runtime.spark.inputs")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "build":
        return import_module("situ.build")
    if name in _LATER:
        if _LATER[name].startswith(_ON_SPARK):  # which import what an old PySpark does not have
            import_module("situ.runtime.spark.session.session").require_pyspark()
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'situ' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All names, also those that are not loaded yet: notebooks complete them."""
    return sorted({*globals(), *__all__})
