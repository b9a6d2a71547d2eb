"""A case of a pattern rule, compiled: all that depends on the query alone.

Streaming engines restore their operators in every step, so a process compiles each case once and keeps the result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from situ.core.functions import Function, Functions
from situ.graph.operators import Operator, Schema
from situ.graph.patterns import tests_of
from situ.graph.typing import THIS, scope_of
from situ.kernel.operator import Conditions, Context, attributes_read
from situ.kernel.program.program import Program, pattern_to_program


@dataclass(frozen=True, slots=True)
class CompiledCase:
    """`types` are the event types that it reads, `stored` their attributes that are needed after the tests: by terms,
    assignments, host conditions. `text` is the program as it prints itself."""

    program: Program
    schemas: Mapping[str, Schema]
    types: tuple[str, ...]
    stored: Mapping[str, tuple[str, ...]]
    text: str

    def tests(self) -> dict[str, tuple[Conditions, ...]]:
        tests = self.program.conditions.tests
        return {name: tuple(test.conditions for test in tests if test.event_type == name) for name in self.types}

    def columns_read(self, context: Context, judged: Collection[Conditions]) -> dict[str, frozenset[str]]:
        tests = [test for test in self.program.conditions.tests if test.conditions not in judged]
        tested = attributes_read(
            [(condition, {THIS: test.event_type}) for test in tests for condition in test.conditions], self.schemas
        )
        always = frozenset(context.group_by) | frozenset(context.carried)
        return {name: always | tested[name] | frozenset(columns) for name, columns in self.stored.items()}


@dataclass(frozen=True, slots=True)
class _Signatures:
    """Users' functions as a compiler sees them: equal if their names and types are."""

    known: tuple[Function, ...]
    functions: Functions = field(compare=False)


def compile_case(context: Context, number: int) -> CompiledCase:
    """Case `number`, counted from 0, of the context's operator."""
    functions = context.functions
    registered = tuple(function for name in functions.names if (function := functions.lookup(name)) is not None)
    schemas = tuple((name, context.schemas[name]) for name in context.operator.inputs)
    return _compile(context.operator, number, schemas, _Signatures(registered, functions))


@lru_cache(maxsize=4096)
def _compile(
    operator: Operator, number: int, schemas_of_inputs: tuple[tuple[str, Schema], ...], signatures: _Signatures
) -> CompiledCase:
    schemas, case = dict(schemas_of_inputs), operator.rule.cases[number]
    scope = scope_of(operator.rule, case, schemas, signatures.functions)
    program = pattern_to_program(operator, case, schemas, scope)
    types = tuple(dict.fromkeys(test.event_type for test in tests_of(case.detect)))
    conditions, aliases = program.conditions, scope.event_types
    read = attributes_read(
        [
            *((assignment.expression, aliases) for assignment in case.assign),
            *((t.expression, {THIS: t.event_type}) for t in (*conditions.whole_terms, *conditions.real_terms)),
            *((host.expression, {**aliases, host.alias: host.event_type}) for host in conditions.host),
        ],
        schemas,
    )
    return CompiledCase(program, schemas, types, {name: tuple(sorted(read[name])) for name in types}, str(program))
