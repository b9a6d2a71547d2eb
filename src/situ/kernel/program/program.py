"""Pattern -> program: the automaton and its conditions as arrays that the kernel runs, readable as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from situ.core.errors import QueryError
from situ.core.time import format_duration
from situ.graph.expressions import Expression
from situ.graph.operators import Operator, Schema
from situ.graph.patterns import Contiguity, steps_of, tests_of
from situ.graph.query import Case, From
from situ.graph.typing import THIS, Scope, scope_of
from situ.kernel.arrays import REPORTS_TIMED_OUT, Code
from situ.kernel.program.automaton import Automaton, Edge, pattern_to_automaton
from situ.kernel.program.conditions import Comparison, ConditionCompiler, Conditions, Fold, Op
from situ.lang.unparse import unparse_expression

MOST_TESTS = 64
_CONTIGUITY = {Contiguity.NEXT: 0, Contiguity.EACH: 1, Contiguity.IMMEDIATELY: 2}
_SILENCE = 3
_ACCEPT = {False: 1, True: 2}


@dataclass(frozen=True)
class Program:
    """One case of a pattern rule, compiled.

    `variables` are the aliases in textual order; the kernel knows them by number.
    """

    name: str
    case: Case
    scope: Scope
    variables: tuple[str, ...]
    automaton: Automaton
    conditions: Conditions
    code: Code

    @property
    def remembers_groups(self) -> bool:
        """Whether it matters which event of a group was the first one: silences that come first begin with it, unless
        every event breaks them, and so lets them begin anyway."""
        types = {test.event_type for test in tests_of(self.case.detect)}
        return any(types - self._breaking(state) for state in self.automaton.begins)

    def _breaking(self, state: int) -> set[str]:
        """The types of which every event breaks a silence that is waited for in a state."""
        watches = [self.automaton.watches[bit] for bit in _bits_of(self.automaton.watched_in(state))]
        return {watch.event_type for watch in watches if not watch.conditions}

    def __str__(self) -> str:
        return "\n".join(_describe(self))


def pattern_to_program(
    operator: Operator, case: Case, schemas: Mapping[str, Schema], scope: Scope | None = None
) -> Program:
    """Compile one case of a pattern rule."""
    automaton = pattern_to_automaton(case.detect)
    scope = scope or scope_of(operator.rule, case, schemas)
    variables = tuple(step.alias for step in steps_of(case.detect))
    compiler = ConditionCompiler(scope, schemas, {alias: i for i, alias in enumerate(variables)})
    code = _to_arrays(automaton, compiler, case, variables, operator.rule.timed_out)
    if len(compiler.result.tests) > MOST_TESTS:
        raise QueryError(
            f"{operator.name} has {len(compiler.result.tests)} different conditions in one pattern, "
            f"more than {MOST_TESTS}",
            place=case.place,
            remedy="Split it into several definitions.",
        )
    return Program(operator.name, case, scope, variables, automaton, compiler.result, code)


def _to_arrays(
    automaton: Automaton, compiler: ConditionCompiler, case: Case, variables: tuple[str, ...], timed_out: bool
) -> Code:
    states = automaton.states
    tests, ranges = _compiled(compiler, [(s.conditions, s.alias, s.event_type) for s in states])
    watch_tests, watch_ranges = _compiled(compiler, [(w.conditions, w.alias, w.event_type) for w in automaton.watches])
    edges = [sorted((e for e in automaton.edges if e.source == s), key=lambda e: e.target) for s in range(len(states))]
    flat = [edge for of_state in edges for edge in of_state]
    watched = [
        [w for w in range(len(automaton.watches)) if automaton.watched_in(s) >> w & 1] for s in range(len(states))
    ]
    anchor = case.within.anchor if case.within is not None else None
    interest = [
        _bits([tests[e.target] for e in edges[s] if not e.length_us] + [watch_tests[w] for w in watched[s]])
        for s in range(len(states))
    ]
    impatient = [_is_impatient(automaton, edges[s], watched[s]) for s in range(len(states))]
    result = compiler.result
    return Code(
        state_variable=np.array([variables.index(s.alias) if s.alias else -1 for s in states], np.int32),
        state_test=np.array(tests, np.int32),
        state_code=ranges,
        state_accept=np.array(
            [0 if a is None else _ACCEPT[automaton.ends_in_absence] for a in automaton.accepts], np.uint8
        ),
        state_final=np.array([a or 0 for a in automaton.accepts], np.uint64),
        state_anchor=np.array([s.alias == anchor for s in states], np.uint8),
        state_interest=np.array(interest, np.uint64),
        state_conjunction=np.array([s.conjunction for s in states], np.int32),
        state_past=np.array([_is_past(automaton, s, edges[s]) for s in range(len(states))], np.uint8),
        state_impatient=np.array(impatient, np.uint8),
        edge_offset=_offsets(edges),
        edge_target=np.array([e.target for e in flat], np.int32),
        edge_contiguity=np.array([_SILENCE if e.length_us else _CONTIGUITY[e.contiguity] for e in flat], np.uint8),
        edge_forbid=np.array([e.forbid for e in flat], np.uint64),
        edge_keep=np.array([e.keep for e in flat], np.uint64),
        edge_refuse=_refusals(compiler, [(e.refuses, states[e.target].event_type) for e in flat]),
        edge_length=np.array([e.length_us for e in flat], np.int64),
        edge_stays=np.array([e.stays for e in flat], np.uint8),
        watch_offset=_offsets(watched),
        watch_number=np.array([w for of_state in watched for w in of_state], np.int32),
        watch_test=np.array(watch_tests, np.int32),
        watch_code=watch_ranges,
        watch_refuse=_refusals(compiler, [(w.refuses, w.event_type) for w in automaton.watches]),
        watch_refused=np.array([w.refused for w in automaton.watches], np.uint8),
        watch_immediately=np.array([w.immediately for w in automaton.watches], np.uint8),
        watch_unless=np.array([w.unless for w in automaton.watches], np.uint64),
        starts=np.array([s.state for s in automaton.starts], np.int32),
        start_refuse=_refusals(compiler, [(s.refuses, states[s.state].event_type) for s in automaton.starts]),
        begins=np.array(automaton.begins, np.int32),
        instructions=np.array(result.code, np.int32).reshape(-1, 3),
        whole_constants=np.array(result.whole_constants, np.int64),
        real_constants=np.array(result.real_constants, np.float64),
        window=np.array(
            [*_window(case), int(timed_out), _once(automaton, case), int(automaton.has_silences)], np.int64
        ),
    )


def _is_impatient(automaton: Automaton, edges: Sequence[Edge], watched: Sequence[int]) -> bool:
    """Whether some edge or watch of a state is about the very next event."""
    watches = [automaton.watches[number] for number in watched]
    return any(edge.contiguity is Contiguity.IMMEDIATELY for edge in edges) or any(
        watch.immediately or not watch.event_type for watch in watches
    )


def _compiled(
    compiler: ConditionCompiler, conditions: list[tuple[tuple[Expression, ...], str, str]]
) -> tuple[list[int], np.ndarray]:
    """The test numbers and code ranges of many conditions; equal ones share their code. -1: of no event type."""
    compiled: dict[tuple[tuple[Expression, ...], str, str], tuple[int, tuple[int, int]]] = {}
    for condition in conditions:
        if condition not in compiled:
            compiled[condition] = compiler.compile(*condition) if condition[2] else (-1, (0, 0))
    ranges = np.array([compiled[c][1] for c in conditions], np.int32).reshape(-1, 2)
    return [compiled[c][0] for c in conditions], ranges


def _refusals(compiler: ConditionCompiler, refusals: Sequence[tuple[tuple[Expression, ...] | None, str]]) -> np.ndarray:
    """The tests and code ranges of what is passed over, each with its event type; equal ones share their code."""
    result = np.full((len(refusals), 3), -1, np.int32)
    refusing = [number for number, (conditions, _) in enumerate(refusals) if conditions is not None]
    tests, ranges = _compiled(compiler, [(refusals[n][0] or (), THIS, refusals[n][1]) for n in refusing])
    result[refusing, 0], result[refusing, 1:] = tests, ranges
    return result


def _offsets(lists: Sequence[Sequence[object]]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(items) for items in lists])]).astype(np.int32)


def _bits(numbers: list[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number if number >= 0 else 0
    return mask


def _bits_of(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def _window(case: Case) -> tuple[int, int]:
    if case.within is None:
        return 0, 0
    kinds = {From.FIRST: 1, From.PREVIOUS: 2}
    anchor = case.within.anchor
    return (kinds[anchor] if isinstance(anchor, From) else 3), case.within.micros


def _once(automaton: Automaton, case: Case) -> int:
    if not case.once:
        return 0
    return 2 if automaton.selectors else 1


def _is_past(automaton: Automaton, number: int, edges: Sequence[Edge]) -> bool:
    """Whether a match that has come to a state can end there, or go on with another step than it began with.

    The states before it are of that first step, or past it themselves.
    """
    state = automaton.states[number]
    following = [automaton.states[edge.target] for edge in edges]
    same = [s.alias == state.alias or (s.conjunction != 0 and s.conjunction == state.conjunction) for s in following]
    return automaton.accepts[number] is not None or not all(same)


def _describe(program: Program) -> list[str]:
    """The program as a person reads it: tests, states with their edges, watches, code."""
    automaton, conditions, code = program.automaton, program.conditions, program.code
    lines = [f"program {program.name}" + (f" case {program.case.number}" if program.case.number is not None else "")]
    if program.case.within is not None:
        anchor = program.case.within.anchor
        lines.append(
            f"  window {format_duration(program.case.within.micros)} from "
            + (anchor.value if isinstance(anchor, From) else anchor)
            + (", reports what times out" if code.window[REPORTS_TIMED_OUT] else "")
        )
    if program.case.once:
        lines.append("  once: the first start that gets past its first step lives")
    lines.append("  positions: " + ("of all events" if automaton.counts_positions else "of candidates only"))
    for number, test in enumerate(conditions.tests):
        text = " and ".join(unparse_expression(c) for c in test.conditions)
        lines.append(f"  test {number}: {test.event_type}" + (f"({text})" if text else ""))
    for kind, terms in (("i", conditions.whole_terms), ("f", conditions.real_terms)):
        for number, term in enumerate(terms):
            ranked = " by rank" if term.ranked is not None else ""
            lines.append(f"  term {kind}{number}: {term.event_type} {unparse_expression(term.expression)}{ranked}")
    for number, host in enumerate(conditions.host):
        lines.append(f"  host {number}: {unparse_expression(host.expression)}   -- evaluated in Python")
    for number, watch in enumerate(automaton.watches):
        text = " and ".join(unparse_expression(c) for c in watch.conditions)
        extra = _refusal(watch.refuses, "if" if watch.refused else "but not if")
        extra += ", the next event only" if watch.immediately else ""
        extra += f", unless {_mask(watch.unless)}" if watch.unless else ""
        lines.append(f"  watch {number}: {watch.event_type or 'any event'}" + (f"({text})" if text else "") + extra)
    starts = dict.fromkeys(automaton.begins, "begin")
    starts |= {start.state: "start" + _refusal(start.refuses, "but not if") for start in automaton.starts}
    for number, state in enumerate(automaton.states):
        accepting = ("", "accept", "accept at deadline")[code.state_accept[number]]
        marks = [mark for mark in (starts.get(number), accepting) if mark]
        final = automaton.accepts[number]
        marks += [f"unless {_mask(final)}"] if final else []
        cross = _code_text(program, *code.state_code[number])
        taken = f"by test {code.state_test[number]}" if not state.silent else "by silence" if state.alias else "waits"
        lines.append(
            f"  state {number}: {state.alias + ' ' if state.alias else ''}{taken}"
            + (f" [{', '.join(marks)}]" if marks else "")
            + (f" if {cross}" if cross else "")
        )
        for edge in (e for e in automaton.edges if e.source == number):
            closed = f", closed by {_mask(edge.forbid)}" if edge.forbid else ""
            keeps = f", keeps {_mask(edge.keep)}" if edge.keep else ""
            refuses = _refusal(edge.refuses, "but not if")
            silence = f" after {format_duration(edge.length_us)}" if edge.length_us else ""
            stays = ", from the same time on" if edge.stays else ""
            lines.append(f"    {edge.contiguity.value} -> {edge.target}{silence}{refuses}{closed}{keeps}{stays}")
    return lines


def _refusal(refuses: tuple[Expression, ...] | None, word: str) -> str:
    """What is passed over because it ends a loop."""
    return "" if refuses is None else f", {word} " + (" and ".join(map(unparse_expression, refuses)) or "true")


def _mask(mask: int) -> str:
    return "watch " + ", ".join(str(bit) for bit in range(64) if mask >> bit & 1)


def _code_text(program: Program, begin: int, end: int) -> str:
    """All that an instruction says: programs that differ print differently, and so their states do not fit."""
    words = []
    for op, a, b in program.code.instructions[begin:end].tolist():
        name, variable = Op(op).name.lower(), program.variables[b]
        match Op(op):
            case Op.SELF_I | Op.SELF_F | Op.HOST:
                words.append(f"{name}({a})")
            case Op.CONST_I:
                words.append(f"{name}({program.conditions.whole_constants[a]})")
            case Op.CONST_F:
                words.append(f"{name}({program.conditions.real_constants[a]!r})")
            case Op.TERM_I | Op.TERM_F | Op.MEAN_I | Op.MEAN_F | Op.DEVIATION_I | Op.DEVIATION_F:
                words.append(f"{name}({variable}, {a})")
            case Op.AGGREGATE_I | Op.AGGREGATE_F | Op.ELEMENT_I | Op.ELEMENT_F:
                words.append(f"{name}({Fold(a % 8).name.lower()}, {variable}, {a // 8})")
            case Op.COUNT:
                words.append(f"{name}({variable})")
            case Op.COMPARE_I | Op.COMPARE_F:
                words.append(f"{name}({Comparison(a).name.lower()})")
            case _:
                words.append(name)
    return " ".join(words)
