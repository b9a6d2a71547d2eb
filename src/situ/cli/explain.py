"""`situ explain`: every form that a query takes on its way to the kernel, as text."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from situ.cli.explain_reuse import measure_reuse, sharing_in_words
from situ.cli.query_file import import_functions, read_query, without_looking_for_garbage
from situ.cli.run import paths_of_streams
from situ.core.errors import InputError
from situ.core.time import format_duration
from situ.graph.cuts import Cut, cut_in
from situ.graph.describe import describe
from situ.graph.operators import OperatorGraph
from situ.graph.picture import to_svg
from situ.graph.query import Query
from situ.kernel.compile import Programs
from situ.lang.resolve import resolve, warnings
from situ.lang.unparse import unparse
from situ.mobility.moving_query import moving_queries
from situ.runtime.embedded import Engine

#: Of more rules than these, a summary is shown; and so many of their shapes.
MANY_RULES = 100
SHOWN_SHAPES = 5


@dataclass(frozen=True, slots=True)
class Explained:
    """The forms of a query, in the order in which one is made from the other."""

    query: str
    graph: str
    programs: dict[str, str]
    warnings: tuple[str, ...]
    spark: str | None = None
    rules: str = ""
    reuse: Mapping[str, str] = field(default_factory=dict)
    transitions: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """
        >>> print(Explained("stream S(t timestamp) time t", "S", {"P": "take a"}, ()))
        -- query
        stream S(t timestamp) time t
        <BLANKLINE>
        -- operator graph
        S
        <BLANKLINE>
        -- program of P
        take a
        """
        parts = [("query", self.query), ("operator graph", self.graph)]
        parts += [(f"program of {name}", program) for name, program in self.programs.items()]
        parts += [("rules that run as one", self.rules)] if self.rules else []
        moves = "\n".join(f"{name} by {words}" for name, words in self.transitions.items())
        parts += [("moves from site to site", moves)] if moves else []
        parts += [("plan on Spark", self.spark)] if self.spark is not None else []
        parts += [(f"reuse in {name}", words) for name, words in self.reuse.items()]
        parts += [("warnings", "\n".join(self.warnings))] if self.warnings else []
        return "\n\n".join(f"-- {title}\n{text.strip()}" for title, text in parts)

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "graph": self.graph,
            "programs": self.programs,
            "rules": self.rules,
            "spark": self.spark,
            "reuse": dict(self.reuse),
            "transitions": dict(self.transitions),
            "warnings": list(self.warnings),
        }


@without_looking_for_garbage()
def explain_file(
    file: Path, functions: str | None, svg: Path | None, sources: list[str], *, on_spark: bool
) -> Explained:
    """All forms of the query in a file, with Spark's plan or without; the picture goes to `svg`. On sources, what
    consumers share is measured."""
    import_functions(functions)
    query = read_query(file)
    graph = resolve(query)
    if svg is not None:
        try:
            svg.write_text(to_svg(graph), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write the picture: {error.strerror}", place=str(svg)) from error
    messages = tuple(str(warning) for warning in warnings(graph))
    engine = Engine(graph)
    if len(graph.operators) > MANY_RULES:
        plan = _plan_on_spark(graph, engine.programs) if on_spark else None
        return replace(_summary(query, graph, engine, messages), spark=plan)
    programs = {operator.name: str(engine.program(operator.name)) for operator in graph.operators}
    plan = _plan_on_spark(graph, engine.programs) if on_spark else None
    rules, reuse = engine.describe_rules(), _reuse(graph, sources)
    moves = {operator.name: _how_it_moves(graph, operator.name) for operator in graph.operators}
    return Explained(unparse(query), describe(graph), programs, messages, plan, rules, reuse, moves)


def _how_it_moves(graph: OperatorGraph, name: str) -> str:
    """By which strategies an operator moves from site to site while events flow, and why."""
    match cut_in(graph, name):
        case Cut(back_us=0, after_us=after_us, reason=reason):
            return f"sms or mfgs: {reason}; an old instance is done after {format_duration(after_us)}"
        case Cut(back_us, after_us, reason):
            return (
                f"sms or mfgs: {reason}; an old instance is done {format_duration(back_us + after_us)} after a new one "
                "begins to read"
            )
        case reason:
            return f"mfgs: {reason}"


def _summary(query: Query, graph: OperatorGraph, engine: Engine, messages: tuple[str, ...]) -> Explained:
    """Of many rules: what comes first, how they run, and one program of each shape."""
    first = replace(query, definitions=query.definitions[:1], subscriptions=query.subscriptions[:1])
    left = len(graph.operators) - len(first.definitions) - len(first.subscriptions)
    streams, operators = (f"{len(of):,}" for of in (graph.streams, graph.operators))
    counts = f"{operators} rules over {streams} stream" + ("" if len(graph.streams) == 1 else "s")
    return Explained(
        f"{unparse(first).rstrip()}\n\n-- ... and {left:,} more rules",
        f"{counts}; the graph of more than {MANY_RULES} rules is not drawn",
        {name: str(engine.program(name)) for name in engine.one_of_each_shape()[:SHOWN_SHAPES]},
        messages[:SHOWN_SHAPES],
        rules=engine.describe_rules(),
    )


def _reuse(graph: OperatorGraph, sources: list[str]) -> dict[str, str]:
    """How consumers of a subscription share, and on sources, how much."""
    words = sharing_in_words(graph)
    if not sources:
        return words
    if not any(query.reuses for query in moving_queries(graph)):
        raise InputError(
            "no subscription of this query shares anything, so there is nothing to measure on a source",
            remedy="Leave --source out, or ask for a quality: `quality precision 0.8 recall 0.8`.",
        )
    paths = paths_of_streams(graph, sources)
    print("running the query over the sources: with reuse, twice, and alone ...", file=sys.stderr)
    measured = measure_reuse(graph, paths)
    for name, reuse in measured.items():
        words[name] += f"\nmeasured on the sources, CPU time:\n{reuse}"
    return words


def _plan_on_spark(graph: OperatorGraph, programs: Programs) -> str:
    """What Spark does and what Python does. No Spark is started for it."""
    from situ.runtime.spark.session.session import require_pyspark

    require_pyspark()
    from situ.runtime.spark.plan.plan import plan_on_spark

    return str(plan_on_spark(graph, programs=programs))
