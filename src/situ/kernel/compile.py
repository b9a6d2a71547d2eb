"""Operator -> program -> operator at work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias, assert_never

from situ.core.errors import QueryError
from situ.core.identity_cache import IdentityCache
from situ.core.memory import MemoryBudget
from situ.graph.operators import OperatorGraph
from situ.graph.query import Aggregation, Join
from situ.graph.rule_properties import lacks_window, marks_every_key
from situ.graph.typing import THIS
from situ.kernel.aggregation_operator import AggregationOperator
from situ.kernel.batch import Calls
from situ.kernel.join_operator import JoinOperator
from situ.kernel.operator import Chosen, Conditions, Context, RunningOperator, attributes_read
from situ.kernel.pattern_operator import PatternOperator
from situ.kernel.program.pattern_program import PatternProgram
from situ.kernel.program.shape import Shaped, is_of_template, shaped, template_context
from situ.kernel.program.tally_program import TallyProgram
from situ.kernel.program.window_program import AggregationProgram, JoinProgram
from situ.kernel.tally_operator import TallyOperator

#: A rule, compiled: all that can be known of an operator before it runs. It holds no events, and prints itself.
RuleProgram: TypeAlias = PatternProgram | AggregationProgram | JoinProgram | TallyProgram


def compile_operator(context: Context) -> RuleProgram:
    """The program of an operator: what it asks of events, what it reads, what its state must fit. It has no state."""
    match context.operator.rule.kind:
        case None:
            return TallyProgram.of(context) if context.operator.rule.tallied else PatternProgram.of(context)
        case Aggregation() as kind:
            return AggregationProgram.of(context, kind)
        case Join() as kind:
            return JoinProgram.of(context, kind)
        case kind:
            assert_never(kind)


#: What programs of templates differ in: the shape, the length of slices of time, whether order matters, and the span of
#: time in which begins what they find.
_TemplateKey: TypeAlias = tuple[int, int | None, bool, tuple[int, int] | None]

#: What so many rules ask of single events, and the columns that they read. Of thousands of rules one changes, and the
#: others are not looked through again.
_TESTS: IdentityCache[Shaped, None, dict[str, tuple[Conditions, ...]]] = IdentityCache(most=1 << 15)
_COLUMNS: IdentityCache[Shaped, object, dict[str, frozenset[str]]] = IdentityCache(most=1 << 15)


class Programs(Mapping[str, RuleProgram]):
    """The programs of many rules, each compiled when it is first asked for: rules that run as one need not all of them
    be compiled, and what is asked of single events, the template of their shape tells. A flow of these runs rules of
    one shape as one."""

    def __init__(self, contexts: Mapping[str, Context]) -> None:
        self.contexts = dict(contexts)
        self._compiled: dict[str, RuleProgram] = {}
        self._shaped: dict[str, Shaped | None] = {}
        self._templates: dict[_TemplateKey, RuleProgram] = {}
        self._template_of: dict[str, RuleProgram] = {}

    def __getitem__(self, name: str) -> RuleProgram:
        context = self.contexts[name]  # what is compiled may be shared with those of other names
        if name not in self._compiled:
            self._compiled[name] = compile_operator(context)
        return self._compiled[name]

    def __contains__(self, name: object) -> bool:
        return name in self.contexts

    def __iter__(self) -> Iterator[str]:
        return iter(self.contexts)

    def __len__(self) -> int:
        return len(self.contexts)

    def add(self, context: Context) -> None:
        self.contexts[context.operator.name] = context

    def remove(self, name: str) -> None:
        del self.contexts[name]
        for of_name in (self._compiled, self._shaped, self._template_of):
            of_name.pop(name, None)

    def among(self, names: Iterable[str]) -> Programs:
        """Some of the programs; what is known of them, all know."""
        some = Programs({name: self.contexts[name] for name in names})
        some._compiled, some._shaped = self._compiled, self._shaped
        some._templates, some._template_of = self._templates, self._template_of
        return some

    def owning(self, spans: Mapping[str, tuple[int, int]]) -> Programs:
        """The same programs, some of which find only what begins in a span of time."""
        if not spans:
            return self
        owning = Programs({n: replace(c, own_us=spans.get(n, c.own_us)) for n, c in self.contexts.items()})
        owning._compiled = {name: program for name, program in self._compiled.items() if name not in spans}
        owning._template_of = {name: program for name, program in self._template_of.items() if name not in spans}
        owning._shaped, owning._templates = self._shaped, self._templates
        return owning

    def shaped(self, name: str) -> Shaped | None:
        """The shape of a rule; None if it has to run by itself."""
        if name not in self._shaped:
            context = self.contexts[name]
            # With provenance, selections are numbered and shown by the rule's own group keys.
            self._shaped[name] = None if context.provenance else shaped(context.operator, context.schemas)
        return self._shaped[name]

    def template(self, name: str) -> RuleProgram:
        """The program of a rule's shape; its own, if it has to run by itself."""
        rule, context = self.shaped(name), self.contexts[name]
        if rule is None:
            return self[name]
        if name not in self._template_of:
            key = (
                id(rule.shape),
                context.slice_us,
                context.ordered,
                context.own_us,
            )  # shapes that are equal are one object
            if key not in self._templates:
                self._templates[key] = compile_operator(template_context(context, rule))
            self._template_of[name] = self._templates[key]
        return self._template_of[name]

    def tests(self, name: str) -> dict[str, tuple[Conditions, ...]]:
        """For each input type, what a rule asks of single events; as its program says it, by that of its shape."""
        rule = self.shaped(name)
        if rule is None:
            return self[name].tests()

        def own() -> dict[str, tuple[Conditions, ...]]:
            return {type_: tuple(map(rule.own, tests)) for type_, tests in self.template(name).tests().items()}

        return _TESTS.get(rule, None, own)

    def columns_read(self, name: str, judged: Collection[Conditions] = ()) -> dict[str, frozenset[str]]:
        """The columns of each input type that a rule always reads, if some of its tests have been judged already; as
        its program says it, by that of its shape."""
        rule, context = self.shaped(name), self.contexts[name]
        if rule is None:
            return self[name].columns_read(judged)
        if judged:
            return self._columns_read(name, judged)
        read_of = context.slice_us, context.ordered, context.located, [context.schemas[name] for name in context.inputs]
        return _COLUMNS.get(rule, read_of, lambda: self._columns_read(name, judged))

    def _columns_read(self, name: str, judged: Collection[Conditions]) -> dict[str, frozenset[str]]:
        template, schemas = self.template(name), self.contexts[name].schemas
        tests = [(type_, c) for type_, conditions in self.tests(name).items() for c in conditions if c not in judged]
        tested = attributes_read([(part, {THIS: type_}) for type_, c in tests for part in c], schemas)
        after_tests = template.columns_read({c for conditions in template.tests().values() for c in conditions})
        return {
            type_: frozenset(column for column in columns if not is_of_template(column)) | tested[type_]
            for type_, columns in after_tests.items()
        }


def start_operator(
    program: RuleProgram,
    failed_calls: Counter[str],
    memory: MemoryBudget,
    threads: int = 1,
    chosen: Chosen | None = None,
) -> RunningOperator:
    """A program at work, with no state yet.

    Calls of users' functions that fail are counted in `failed_calls`, by function. What would take more than `memory`
    ends with an error. A grouped pattern is matched by `threads` threads, a power of two. `chosen`: only these
    selections are processed.
    """
    calls = Calls(functions=program.context.functions, errors=failed_calls)
    match program:
        case PatternProgram():
            return PatternOperator(program, calls, memory, threads, chosen)
        case AggregationProgram():
            return AggregationOperator(program, calls, memory, chosen)
        case JoinProgram():
            return JoinOperator(program, calls, memory, chosen)
        case TallyProgram():
            return TallyOperator(program, calls, memory)
        case _:
            assert_never(program)


def refuse_unbounded_state(graph: OperatorGraph) -> None:
    """An error, if on unbounded input the state of an operator would grow for ever."""
    for operator in graph.operators:
        if lacks_window(operator):
            raise QueryError(
                f"{operator.name} has no window: on an unbounded stream its state would grow for ever",
                place=operator.rule.cases[0].place,
                remedy="Add `within T` to its detect, or run it on files or tables, which end.",
            )
        if marks_every_key(operator):
            raise QueryError(
                f"{operator.name} detects once for each key: on an unbounded stream it would mark ever more keys",
                place=operator.rule.cases[0].place,
                remedy="Write `after match pause T` instead of `once`, or run it on files or tables, which end.",
            )
