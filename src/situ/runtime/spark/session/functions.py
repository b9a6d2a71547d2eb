"""Users' functions on Spark: they travel by name, and workers import them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from operator import attrgetter

from situ.core.errors import QueryError
from situ.core.functions import Function, Functions
from situ.graph.expressions import Call, Expression, walk
from situ.graph.operators import OperatorGraph
from situ.graph.patterns import tests_of
from situ.graph.query import Aggregation


def functions_used(graph: OperatorGraph, functions: Functions) -> tuple[Function, ...]:
    """The users' functions that a query calls, all of which other processes can import."""
    names = {node.function for e in _expressions(graph) for node in walk(e) if isinstance(node, Call)}
    used = tuple(function for name in sorted(names) if (function := functions.lookup(name)) is not None)
    for function in used:
        if function.module == "__main__" or "<" in function.qualname:
            raise QueryError(
                f"function {function.name!r} is defined in {function.path}, which Spark's workers cannot import",
                remedy="Put it at the top level of a module of its own, and import that.",
            )
    return used


def _expressions(graph: OperatorGraph) -> Iterator[Expression]:
    yield from (s.leave_when for s in graph.query.subscriptions if s.around and s.leave_when is not None)
    for operator in graph.operators:
        for case in operator.rule.cases:
            yield from (item.expression for item in case.assign)
            yield from (test.condition for test in tests_of(case.detect) if test.condition is not None)
        if isinstance(operator.rule.kind, Aggregation):
            yield from (item.expression for item in operator.rule.kind.post)


def loaded(used: tuple[Function, ...]) -> Functions:
    """A registry with these functions, each imported from its module."""
    functions = Functions()
    for function in used:
        try:
            callable_ = attrgetter(function.qualname)(importlib.import_module(function.module))
        except (ImportError, AttributeError) as error:
            raise QueryError(
                f"function {function.path!r} cannot be imported where Spark runs: {error}",
                remedy="Install its module on the workers, or ship it: spark.addArtifacts('module.py', pyfile=True).",
            ) from error
        functions.register(callable_, returns=function.returns, name=function.name)
    return functions
