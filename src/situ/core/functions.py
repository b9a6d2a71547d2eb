"""Users' functions: Python callables that queries call by name.

A function travels between processes as a name (`module:qualname`), never as code. It is called with Python
scalars (int, float, str, bytes, bool, datetime in UTC, timedelta, decimal.Decimal, None), or with a dict of
attributes where the query passes a whole event.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from situ.core.errors import QueryError, did_you_mean
from situ.core.types import DURATION, TYPE_NAMES, Decimal, List, Row, Type

BUILT_INS = frozenset({
    "abs", "floor", "ceil", "sqrt", "power", "coalesce", "least", "greatest", "if",
    "lower", "upper", "length", "concat", "substring", "distance",
})  # fmt: skip

#: The language's own words in front of a parenthesis: a user's function of this name could never be called.
RESERVED = BUILT_INS | {
    "count", "sum", "avg", "min", "max", "first", "last", "stddev", "collect", "cast", "time", "not", "in",
}  # fmt: skip

AnyCallable = TypeVar("AnyCallable", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Function:
    """A user's function as queries, plans and other processes know it."""

    name: str
    returns: Type
    module: str
    qualname: str

    @property
    def path(self) -> str:
        """What `Functions.load` takes in another process.

        >>> from situ.core.types import STRING
        >>> Function("FaceDetect", STRING, "cameras", "face_detect").path
        'cameras:face_detect'
        """
        return f"{self.module}:{self.qualname}"


class Functions:
    """A registry of users' functions.

    >>> functions = Functions()
    >>> @functions.function(returns="int")
    ... def double(x):
    ...     return 2 * x
    >>> functions.lookup("double").returns
    <Simple.INT: 'int'>
    >>> functions.callable_of("double")(21)
    42
    """

    def __init__(self) -> None:
        self._functions: dict[str, Function] = {}
        self._callables: dict[str, Callable[..., object]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._functions)

    def function(self, *, returns: str | Type, name: str | None = None) -> Callable[[AnyCallable], AnyCallable]:
        """A decorator that registers a callable under `name`, or its own name, and leaves it as it is."""

        def register(callable_: AnyCallable) -> AnyCallable:
            self.register(callable_, returns=returns, name=name)
            return callable_

        return register

    def register(self, callable_: Callable[..., object], *, returns: str | Type, name: str | None = None) -> Function:
        """Register a callable. The same `module:qualname` again replaces it, as when a notebook cell runs twice."""
        function = Function(
            name or callable_.__name__, _named_type(returns), callable_.__module__, callable_.__qualname__
        )
        if function.name.lower() in RESERVED:
            raise QueryError(
                f"a function cannot be called {function.name!r}: the language has a word of this name",
                place=function.path,
                remedy="Register it as another name: @situ.function(returns=..., name='...').",
            )
        registered = self._functions.get(function.name)
        if registered is not None and registered.path != function.path:
            raise QueryError(
                f"a function {function.name!r} is already registered: {registered.path}",
                place=function.path,
                remedy="Register one of them as another name: @situ.function(returns=..., name='...').",
            )
        self._functions[function.name] = function
        self._callables[function.name] = callable_
        return function

    def lookup(self, name: str) -> Function | None:
        return self._functions.get(name)

    def callable_of(self, name: str) -> Callable[..., object]:
        """The Python callable behind a registered name."""
        if name not in self._callables:
            raise QueryError(f"no function {name!r} is registered", remedy=did_you_mean(name, self.names))
        return self._callables[name]

    def load(self, path: str) -> Function:
        """Import the module of `module:qualname`, which registers its functions, and give the function."""
        module, _, qualname = path.partition(":")
        if not module or not qualname:
            raise QueryError(f"{path!r} names no function", remedy="Write module:name, such as cameras:face_detect.")
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise QueryError(
                f"the module of function {path!r} cannot be imported: {error}",
                remedy="Install it, or put it on the Python path, wherever the query runs.",
            ) from error
        for function in self._functions.values():
            if function.path == path:
                return function
        raise QueryError(
            f"module {module} registers no function {qualname!r}",
            remedy="Define it at the top level of the module, under @situ.function(returns=...).",
        )


#: The registry that `@situ.function` fills and queries use unless told otherwise.
default = Functions()


def function(*, returns: str | Type, name: str | None = None) -> Callable[[AnyCallable], AnyCallable]:
    """Register a Python function for use in queries; `returns` is a type of the language.

    >>> @function(returns="string", name="Initial")
    ... def initial(text):
    ...     return text and text[0]
    >>> default.lookup("Initial").qualname
    'initial'
    """
    return default.function(returns=returns, name=name)


def _named_type(returns: str | Type) -> Type:
    if isinstance(returns, Row):
        raise QueryError("a function returns a value, not a whole event", remedy="Return one of its attributes.")
    if isinstance(returns, List):
        raise QueryError("a function returns a value, not a list", remedy="Return one of its elements.")
    if not isinstance(returns, str):
        return returns
    text = returns.strip().lower()
    if decimal := re.fullmatch(r"decimal\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)", text):
        type_ = Decimal(int(decimal[1]), int(decimal[2]))
        if not (1 <= type_.precision <= 38 and type_.scale <= type_.precision):
            raise QueryError(f"there is no {type_}", remedy="Of p digits, from 1 to 38, at most p are after the point.")
        return type_
    types = TYPE_NAMES | {"duration": DURATION}
    if text not in types:
        raise QueryError(f"no type {returns!r}", remedy=did_you_mean(text, [*types, "decimal(p, s)"]))
    return types[text]
