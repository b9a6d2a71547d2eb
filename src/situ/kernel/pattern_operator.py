"""A pattern rule at work: batches in, complex events out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from situ.core.hops import hop
from situ.core.memory import MemoryBudget
from situ.core.time import BEGINNING
from situ.core.types import to_arrow
from situ.graph.patterns import is_plain
from situ.graph.query import Within
from situ.graph.typing import THIS
from situ.kernel.arrays import I64, U64, Events, NewEvents, Nodes
from situ.kernel.batch import ORIGINS, Batch, Calls, Marks, concat, concat_arrays, one_chunk
from situ.kernel.columns.evaluate import Rows, evaluate
from situ.kernel.columns.values import Mask
from situ.kernel.matching.dead_ends import DeadEnds
from situ.kernel.matching.matcher import Host, Matches, concat_matches
from situ.kernel.matching.order import (
    dense_ranks,
    is_sorted,
    is_sorted_by,
    lexical_order,
    number_positions,
    union_of_sorted,
)
from situ.kernel.matching.policies import JudgedEvents
from situ.kernel.matching.selections import SelectionLog, chosen_numbers
from situ.kernel.operator import (
    RULE,
    SLICE,
    Chosen,
    Conditions,
    Produced,
    complex_events,
    joined_extents,
    joined_origins,
    no_events,
)
from situ.kernel.program.conditions import Term
from situ.kernel.program.pattern_program import PatternProgram
from situ.kernel.program.program import Program
from situ.kernel.state.case_state import CaseState
from situ.kernel.state.checks import (
    numbers,
    require_between,
    require_columns,
    require_event_times,
    require_sorted,
    require_whole,
)
from situ.kernel.state.groups import is_among
from situ.kernel.state.rule_groups import RuleGroupIndex
from situ.kernel.state.sections import key_columns_of, put_sections, sections_of
from situ.kernel.state.store import (
    SILENT,
    MatchRows,
    Store,
    StoreRows,
    concat_stores,
    gather,
    joined_columns,
    order_parts,
    pair_columns,
    silence_rows,
)

#: What the tables of a case are called, after its number: its sections, and the log of open selections.
SECTIONS, LOG = "", " log"


@dataclass(frozen=True, slots=True)
class Candidates:
    """New events that some test accepts, of all input types one after another: the rows of `store` after the first
    `kept`, which were kept from before. `order` has their rows in the order in which they are offered."""

    store: Store
    kept: int
    accepted: U64
    order: I64

    def offered(self) -> NewEvents:
        """They in their order."""
        order, store, accepted = self.order, self.store, self.accepted
        if len(order) < len(accepted) or not is_sorted(order):
            accepted = accepted[order - self.kept]
            group, time, position = store.group[order], store.time[order], store.position[order]
        else:  # they are in it already
            new = slice(self.kept, None)
            group, time, position = store.group[new], store.time[new], store.position[new]
        return NewEvents(order, group, _read_only(time), position, accepted, shard=0, shards=1)


class _TypeTests(NamedTuple):
    """The tests of a case that are asked of one event type, each with its number; those that every event fulfils, as
    bits; and whether events matter that no test accepts."""

    numbered: list[tuple[int, Conditions]]
    everywhere: np.uint64
    needs_all: bool

    @classmethod
    def of(cls, program: Program, event_type: str) -> _TypeTests:
        numbered = [(i, t.conditions) for i, t in enumerate(program.conditions.tests) if t.event_type == event_type]
        everywhere = np.uint64(sum(1 << i for i, conditions in numbered if not conditions))
        return cls(numbered, everywhere, bool(everywhere) or program.automaton.counts_positions)


class CaseRun:
    """One case of a pattern rule with its state."""

    def __init__(
        self, program: PatternProgram, number: int, calls: Calls, memory: MemoryBudget, shards: int,
        chosen: Chosen | None,
    ) -> None:  # fmt: skip
        self.context = context = program.context
        self.compiled = program.cases[number]
        self.calls, self.chosen = calls, chosen
        rule = context.operator.rule
        self.case = rule.cases[number]
        self.program = self.compiled.program
        self._counts_positions = self.program.automaton.counts_positions
        self._tests = {name: _TypeTests.of(self.program, name) for name in self.compiled.types}
        self.state = CaseState.empty(context, self.compiled, shards, memory)
        self.dead_ends = DeadEnds.of(context, number, self.program) if chosen is None else None
        carried = {name: self.state.retained.columns[name] for name in self._logged()} if context.provenance else {}
        self.log = SelectionLog.empty(self.case.within, carried) if context.provenance else None

    def _logged(self) -> list[str]:
        return [ORIGINS, *(f"group.{key}" for key in self.context.group_by)]

    # --- a step

    def process(self, inputs: Mapping[str, Batch], before: int) -> Produced:
        self.state.policies.passed = before
        if self.context.start_us is not None and before > BEGINNING:
            self._begin(self.context.start_us)
        if not any(name in inputs for name in self.compiled.types) and not self._waits_for(before):
            return Produced(no_events(self.context), no_events(self.context), before)
        new = self._candidates(inputs, before)
        store = new.store
        events = self._events(store)
        self.state.matcher.add_groups(len(self.state.groups))
        host = self._host(store) if self.program.conditions.host else None
        with hop("kernel"):
            matches_of_steps = [self.state.matcher.run(new.offered(), events, host)] if len(new.order) else []
            matches_of_steps.append(self.state.matcher.pass_time(before))
            found = concat_matches(matches_of_steps)
        if self.program.automaton.has_silences:
            found, store = self._with_silences(found, store)
        matches = self._own(self._settle(found, before, store), store)
        selections = self._selections(new.order, events, store, before) if self.log is not None else None
        if self.state.retain(store) and not self.context.provenance and self.chosen is None:
            self.state.forget_idle_groups()  # those two number selections by group
        low = min(before, self.state.policies.low_watermark)
        timed_out = matches.timed_out != 0
        if len(matches) == 0 or not timed_out.any():
            return Produced(self._complex(matches, store), no_events(self.context), low, selections)
        stayed = matches.take(np.flatnonzero(~timed_out))
        gone = matches.take(np.flatnonzero(timed_out))
        return Produced(self._complex(stayed, store), self._complex(gone, store), low, selections)

    def idle(self, before: int) -> bool:
        """Whether the passing of time changes nothing."""
        if self.context.start_us is not None and self.program.automaton.begins:
            return False
        self.state.policies.passed = before
        return not self._waits_for(before)

    def _begin(self, start_us: int) -> None:
        """As soon as time passes, silences that come first have begun at the start."""
        if self.program.automaton.begins and not self.context.group_by:
            self.state.groups.numbers([], 1)
            self.state.make_room_for_groups()
            self.state.matcher.begin(start_us)

    def _waits_for(self, before: int) -> bool:
        """Whether the passing of time alone can change anything."""
        return (
            self.state.matcher.earliest < before or len(self.state.policies.waiting.matches) > 0 or self.log is not None
        )

    def _selections(self, order: I64, events: Events, store: Store, before: int) -> pa.Table:
        assert self.log is not None
        indices = pa.array(order)
        columns = {name: store.columns[name].take(indices) for name in self._logged()}
        self.log.add(store.group[order], store.time[order], events.opened[order], columns)
        return self.log.close(before, ORIGINS, {key: f"group.{key}" for key in self.context.group_by})

    def _with_silences(self, found: Matches, store: Store) -> tuple[Matches, Store]:
        """The silences that were over in this step become rows of the store, after all events."""
        silent = self.state.matcher.number_silences(len(store))
        if len(silent.silences) == 0:
            return found, store
        rows = silence_rows(self.context, self.compiled.stored, silent.silences, self.state.groups, self._key_types)
        found = replace(found, completing=silent.rows(found.completing), path_event=silent.rows(found.path_event))
        return found, concat_stores(store, rows)

    def _settle(self, found: Matches, before: int, store: Store) -> Matches:
        if not self.state.policies.needed:
            return found
        oldest = self.state.matcher.oldest_start()
        events = JudgedEvents(store.time, store.position, store.type_rank == SILENT, store.consumed)
        living = self.state.matcher.groups["living"]
        return self.state.policies.settle(found, before, events, oldest, living)

    def _own(self, matches: Matches, store: Store) -> Matches:
        """Those that begin in the slice or span of time that found them."""
        if len(matches) == 0 or (self.context.slice_us is None and self.context.own_us is None):
            return matches
        first = matches.path_event[matches.offsets[:-1]]
        if self.context.own_us is not None:
            mine = self.context.begins_in_span(store.time[first])
            return matches if mine.all() else matches.take(np.flatnonzero(mine))
        slices = store.columns[f"group.{SLICE}"].take(pa.array(first))
        return matches.take(np.flatnonzero(self.context.begins_in_slice(store.time[first], slices)))

    # --- candidates

    def _candidates(self, inputs: Mapping[str, Batch], before: int) -> Candidates:
        parts: list[tuple[str, Batch]] = []
        accepted: list[U64] = []
        for name in self.compiled.types:
            if name in inputs and len(inputs[name]):
                with hop("tests"):
                    batch, bits = self._accepted(name, inputs[name])
                if len(batch):
                    parts.append((name, batch))
                    accepted.append(bits)
        kept = len(self.state.retained)
        if not parts:
            return Candidates(self.state.retained, kept, np.zeros(0, np.uint64), np.zeros(0, np.int64))
        bits = np.concatenate(accepted) if len(accepted) > 1 else accepted[0]
        with hop("gathering"):
            store = self._store(parts)
        group, time, position = store.group[kept:], store.time[kept:], store.position[kept:]
        order = order_parts(self.context, parts, store.type_rank[kept:], group, len(self.state.groups), time)
        if self._counts_positions or self.state.policies.needed:
            number_positions(order, group, position, self.state.matcher.groups["positions"])
        has_silences = self.program.automaton.has_silences
        if self._counts_positions and not has_silences and not self.context.operator.rule.timed_out:
            # An event that no test accepts ends what waits for the very next one; only timed-out output shows that.
            order = order[bits[order] != 0]
        if self.dead_ends is not None:
            with hop("dead ends"):
                bits = self.dead_ends.without(bits, order, group, len(self.state.groups), time, before)
                order = order[bits[order] != 0]
        order += kept
        return Candidates(store, kept, bits, order)

    def _accepted(self, name: str, batch: Batch) -> tuple[Batch, U64]:
        """The rows that some test accepts (all rows, where positions count), and which tests do, as bits."""
        tests, everywhere, needs_all = self._tests[name]
        if batch.marks is not None:
            bits = _chosen_bits(batch.marks, tests) | everywhere
            return (batch, bits) if needs_all or bits.all() else (batch.take(bits != 0), bits[bits != 0])
        if not needs_all and batch.knows_few([conditions for _, conditions in tests]):
            return self._few(batch, tests)
        masks = [(i, c, mask) for i, c in tests if (mask := batch.mask(c, self.calls)) is not None]
        if needs_all or sum(np.count_nonzero(mask) for _, _, mask in masks) > len(batch) // 4:
            bits = _packed([(i, mask) for i, _, mask in masks], len(batch)) | everywhere
            rows = np.flatnonzero(bits != 0)
            return (batch, bits) if needs_all or len(rows) == len(batch) else (batch.view(rows), bits[rows])
        return self._few(batch, [(i, c) for i, c, _ in masks])

    def _few(self, batch: Batch, tests: list[tuple[int, Conditions]]) -> tuple[Batch, U64]:
        """The same where few rows are accepted."""
        rows_by_test = [(np.uint64(1 << i), batch.rows(c, self.calls)) for i, c in tests]
        rows = union_of_sorted([accepted_rows for _, accepted_rows in rows_by_test])
        return batch.view(rows), _marked(len(batch), rows_by_test, rows)

    def _store(self, parts: list[tuple[str, Batch]]) -> Store:
        """What was kept from before, and after it the columns that are needed later, of all types one after another."""
        lengths = [len(batch) for _, batch in parts]
        total, kept = sum(lengths), self.state.retained
        group_by = self.context.group_by
        of_pairs = pair_columns(self.context, self.compiled.stored, *parts[0]) if len(parts) == 1 else None
        if of_pairs is not None and isinstance(self.state.groups, RuleGroupIndex):
            columns: Mapping[str, pa.Array] = of_pairs
            group = self.state.groups.numbers_of_pairs(parts[0][1], group_by, kept.group)
        else:
            columns = gather(self.context, self.compiled.stored, parts)
            group = self.state.groups.numbers([columns[f"group.{key}"] for key in group_by], total)
            group = np.concatenate([kept.group, group]) if len(kept) else group
        self.state.matcher.add_groups(len(self.state.groups))
        ranks = np.array([self.context.inputs[name].rank for name, _ in parts], np.int8)
        position, consumed = np.zeros(len(kept) + total, np.int64), np.zeros(len(kept) + total, np.uint8)
        position[: len(kept)], consumed[: len(kept)] = kept.position, kept.consumed
        return Store(
            np.concatenate([kept.type_rank, np.repeat(ranks, lengths)]),
            np.concatenate([kept.time, *(batch.times for _, batch in parts)]),
            group,
            position,
            consumed,
            joined_columns(kept, columns),
        )

    # --- the kernel's view

    def _events(self, store: Store) -> Events:
        conditions = self.program.conditions
        whole = np.zeros((len(store), len(conditions.whole_terms)), np.int64)
        whole_null = np.zeros(whole.shape, np.uint8)
        real = np.zeros((len(store), len(conditions.real_terms)), np.float64)
        real_null = np.zeros(real.shape, np.uint8)
        ranked: dict[str, list[tuple[int, pa.Array]]] = {}
        for number, term in enumerate(conditions.whole_terms):
            values = self._term(term, store)
            if term.ranked is not None:
                ranked.setdefault(str(to_arrow(term.ranked)), []).append((number, values))
            else:
                _fill(values.cast(pa.int64()), whole, whole_null, number)
        for terms in ranked.values():
            for (number, _), ranks in zip(terms, _joint_ranks([values for _, values in terms]), strict=True):
                _fill(ranks, whole, whole_null, number)
        for number, term in enumerate(conditions.real_terms):
            _fill(self._term(term, store), real, real_null, number)
        chosen_offset, chosen = chosen_numbers(self.chosen, self.state.groups, self._key_types)
        return Events(
            position=store.position,
            whole=whole,
            whole_null=whole_null,
            real=real,
            real_null=real_null,
            opened=np.full(len(store), -1, np.int64) if self.log is not None else np.zeros(0, np.int64),
            chosen_offset=chosen_offset,
            chosen=chosen,
        )

    def _term(self, term: Term, store: Store) -> pa.Array:
        rows = StoreRows(store, term.event_type, self.context.schemas[term.event_type].names)
        return evaluate(term.expression, rows, **self.calls)

    def _host(self, store: Store) -> Host:
        """Evaluates a host condition on one path, by the same code that evaluates assignments."""
        variables = self.program.variables

        def holds(number: int, event: int, node: int, nodes: Nodes) -> int:
            condition = self.program.conditions.host[number]
            names = (*variables, THIS)
            events, path = [event], [names.index(condition.alias)]
            state_variable = self.program.code.state_variable
            while node >= 0:
                events.append(int(nodes["event"][node]))
                path.append(int(state_variable[nodes["state"][node]]))
                node = int(nodes["parent"][node])
            mine = path[0]
            match = _one_match(events[::-1], path[::-1])
            types = {**self.program.scope.event_types, condition.alias: condition.event_type}
            rows = HostRows(match, store, names, types, lambda name: self.context.schemas[name].names, mine)
            value = evaluate(condition.expression, rows, **self.calls)[0].as_py()
            return 2 if value is None else int(value)

        return holds

    # --- what comes out

    def _complex(self, matches: Matches, store: Store) -> Batch:
        if len(matches) == 0:
            return no_events(self.context)
        with hop("results"):
            return self._complex_events(self._in_order(matches, store), store)

    def _complex_events(self, matches: Matches, store: Store) -> Batch:
        scope = self.program.scope
        plain = is_plain(self.case.detect) and not self.context.operator.rule.timed_out
        schemas = self.context.schemas
        rows = MatchRows(
            matches, store, self.program.variables, scope.event_types, lambda name: schemas[name].names, plain
        )
        columns = {
            assignment.name: evaluate(assignment.expression, rows, **self.calls) for assignment in self.case.assign
        }
        if self.context.located:
            columns |= joined_extents(store.columns, matches.path_event, matches.offsets)
        if self.context.provenance:
            columns["_selection"] = pa.array(matches.selection)
            columns[ORIGINS] = joined_origins(store.columns[ORIGINS], matches.path_event, matches.offsets)
        return complex_events(self.context, matches.time, columns)

    def _in_order(self, matches: Matches, store: Store) -> Matches:
        """By time, then by the event that completed them; of rules that run as one, rule by rule."""
        if RULE not in self.context.group_by:
            return in_order(matches) if self.context.in_order else matches
        rules = store.values(f"group.{RULE}", matches.completing).to_numpy(zero_copy_only=False)
        if is_sorted_by(rules, matches.time, matches.completing):
            return matches
        return matches.take(lexical_order((matches.completing, matches.time, rules)))

    # --- snapshots

    def snapshot(self) -> dict[str, pa.Table]:
        """The state: of all groups where selections are numbered, else of those that hold an event or a
        mark."""
        self.state.compact()
        chosen = self.state.groups.used
        if not self.context.provenance:
            chosen[:] = False
            chosen |= self.state.marked_groups()
            chosen |= self.state.matcher.groups["live"][: len(chosen)] > 0
            chosen[self.state.retained.group] = True
        return self._tables(chosen)

    def take(self, keys: Sequence[pa.Array]) -> dict[str, pa.Table]:
        """Remove the groups whose first keys are among `keys`; their state."""
        state = self.state
        state.compact()
        state.make_room_for_groups()
        used = np.flatnonzero(state.groups.used)
        of_groups = state.groups.keys(used, self._key_types)[: len(keys)]
        gone = np.zeros(len(state.groups), np.bool_)
        gone[used] = is_among(of_groups, keys)
        tables = self._tables(gone)
        state.remove(gone)
        if self.log is not None:
            self.log = self.log.take(np.flatnonzero(~gone[self.log.group]))
        return tables

    def put(self, tables: Mapping[str, pa.Table]) -> None:
        """Add the state of groups that are not here."""
        keys = key_columns_of(tables[SECTIONS], self._key_types)
        groups = put_sections(self.state, tables[SECTIONS], self.program, keys, len(self.context.inputs))
        if self.log is not None:
            types = {name: column.type for name, column in self.log.columns.items()}
            self.log = self.log.joined(_log_of_table(tables[LOG], self.case.within, groups, types))

    def _tables(self, chosen: np.ndarray) -> dict[str, pa.Table]:
        tables = {SECTIONS: sections_of(self.state, chosen, self._key_types)}
        if self.log is not None:
            tables[LOG] = _log_to_table(self.log, chosen)
        return tables

    @property
    def _key_types(self) -> list[pa.DataType]:
        return [self.context.key_type(key) for key in self.context.group_by]


def _log_to_table(log: SelectionLog, chosen: np.ndarray) -> pa.Table:
    """The candidates that open selections of some groups may hold; a group is the row of its section."""
    mine = log.take(np.flatnonzero(chosen[log.group]))
    numbers = {name: pa.array(getattr(mine, name)) for name in ("time", "opened", "reported")}
    section = (np.cumsum(chosen) - 1)[mine.group]
    return pa.table({"group": pa.array(section)} | numbers | mine.columns)


def _log_of_table(
    table: pa.Table, within: Within | None, groups: I64, types: Mapping[str, pa.DataType]
) -> SelectionLog:
    """What `_log_to_table` gave, of groups that have these numbers here."""
    columns = {name: one_chunk(table.column(name)) for name in types}
    require_columns(columns, types)
    require_whole(columns[ORIGINS], ORIGINS)
    section, time, opened = (numbers(table.column(name), np.int64, name) for name in ("group", "time", "opened"))
    require_between(section, 0, len(groups), "groups of selections")
    require_sorted(section, "groups of selections")
    require_event_times(time)
    reported = numbers(table.column("reported"), np.uint8, "selections")
    return SelectionLog(within, groups[section], time, opened, reported, columns)


class HostRows(MatchRows):
    """One path for a host condition. The event under test is the last one, and no aggregate sees it."""

    def __init__(
        self,
        matches: Matches,
        store: Store,
        variables: tuple[str, ...],
        event_types: Mapping[str, str],
        attributes: Callable[[str], tuple[str, ...]],
        mine: int,
    ) -> None:
        super().__init__(matches, store, variables, event_types, attributes)
        self._single[variables[mine]] = matches.path_event[-1:]

    def repeated(self, alias: str) -> tuple[I64, Rows]:
        matches = self._matches
        shorter = replace(
            matches,
            offsets=matches.offsets - np.array([0, 1]),
            path_event=matches.path_event[:-1],
            path_variable=matches.path_variable[:-1],
        )
        return MatchRows(shorter, self._store, self._variables, self._types, self._attributes).repeated(alias)


def in_order(matches: Matches) -> Matches:
    """By time, then by the event that completed them: whatever shards found them, and how."""
    if is_sorted(matches.time) and is_sorted(matches.completing):
        return matches
    order = np.argsort(matches.completing, kind="stable")  # merges the shards, each of which is in order by itself
    if not is_sorted(matches.time[order]):
        order = lexical_order((matches.completing, matches.time))
    return matches.take(order)


def _chosen_bits(marks: Marks, tests: list[tuple[int, Conditions]]) -> U64:
    """The bits of some tests, each at its place; nearly always they are there already."""
    places = [(marks.numbers[conditions], to) for to, conditions in tests if conditions]
    if all(place == to for place, to in places):
        chosen = sum(1 << to for _, to in places)
        is_all = chosen == (1 << len(marks.numbers)) - 1
        return marks.bits if is_all else marks.bits & np.uint64(chosen)
    bits = np.zeros(len(marks.bits), np.uint64)
    for place, to in places:
        bits |= ((marks.bits >> np.uint64(place)) & np.uint64(1)) << np.uint64(to)
    return bits


def _packed(masks: list[tuple[int, Mask]], length: int) -> U64:
    """Masks as bits; by bytes for as long as that is enough, which is an eighth of the memory to go through."""
    width: Any = np.uint8 if all(i < 8 for i, _ in masks) else np.uint64
    bits = np.zeros(length, width)
    for i, mask in masks:
        bits |= mask.view(np.uint8).astype(width, copy=False) << width(i)
    return bits.astype(np.uint64)


_scratch = threading.local()


def _marked(length: int, some: list[tuple[np.uint64, I64]], candidates: I64) -> U64:
    """The bits of the tests that accept each candidate. The marks are kept, all zero, for the next use: many operators
    that read one batch share them, and they stay in the processor's cache."""
    marks: U64 = getattr(_scratch, "marks", np.zeros(0, np.uint64))
    if len(marks) < length:
        marks = _scratch.marks = np.zeros(length, np.uint64)
    for bit, rows in some:
        marks[rows] |= bit
    bits = marks[candidates]
    marks[candidates] = 0
    return bits


def _one_match(events: list[int], variables: list[int]) -> Matches:
    one = np.zeros(1, np.int64)
    offsets = np.array([0, len(events)])
    return Matches(one, one, one, one, one, np.zeros(1, np.uint8), offsets, np.array(events), np.array(variables))


def _read_only(values: I64) -> I64:
    """Times come from Arrow, and cannot be written, or not. The kernel is compiled for each kind of array it is given,
    so it is always given one kind."""
    view = values.view()
    view.flags.writeable = False
    return view


def _fill(values: pa.Array, cells: np.ndarray, nulls: np.ndarray, column: int) -> None:
    if values.null_count:
        nulls[:, column] = values.is_null().to_numpy(zero_copy_only=False)
        values = values.fill_null(0)
    cells[:, column] = values.to_numpy(zero_copy_only=False)


def _joint_ranks(columns: list[pa.Array]) -> list[pa.Array]:
    """Ranks of values over several columns together: they compare as the values do."""
    ranks = dense_ranks(concat_arrays(columns))
    ranks = pa.array(ranks, mask=ranks == 0)
    bounds = np.cumsum([0, *(len(column) for column in columns)])
    return [ranks.slice(begin, end - begin) for begin, end in pairwise(bounds)]


class PatternOperator:
    """A pattern rule at work: its cases side by side."""

    def __init__(
        self, program: PatternProgram, calls: Calls, memory: MemoryBudget, shards: int, chosen: Chosen | None
    ) -> None:
        self.context = program.context
        self.cases = [CaseRun(program, number, calls, memory, shards, chosen) for number in range(len(program.cases))]

    def snapshot(self) -> dict[str, pa.Table]:
        return self._of_cases([case.snapshot() for case in self.cases])

    def take(self, keys: Sequence[pa.Array]) -> dict[str, pa.Table]:
        return self._of_cases([case.take(keys) for case in self.cases])

    def put(self, tables: Mapping[str, pa.Table]) -> None:
        for number, case in enumerate(self.cases):
            names = (SECTIONS, LOG) if self.context.provenance else (SECTIONS,)
            case.put({name: tables[f"case {number}{name}"] for name in names})

    def _of_cases(self, cases: list[dict[str, pa.Table]]) -> dict[str, pa.Table]:
        return {f"case {number}{name}": table for number, case in enumerate(cases) for name, table in case.items()}

    def idle(self, before: int) -> bool:
        idle = [case.idle(before) for case in self.cases]  # of all: time passes for each
        return all(idle)

    def process(self, inputs: Mapping[str, Batch], before: int) -> Produced:
        produced = [case.process(inputs, before) for case in self.cases]
        return Produced(
            _merged([p.events for p in produced], self.context.in_order),
            _merged([p.timed_out for p in produced], self.context.in_order),
            min(p.low_watermark for p in produced),
            pa.concat_tables([p.selections for p in produced]) if self.context.provenance else None,
        )


def _merged(batches: list[Batch], in_order: bool) -> Batch:
    """Several batches as one, in order of time if that is asked for."""
    if len(batches) == 1:
        return batches[0]
    joined = concat(batches)
    return joined.take(np.argsort(joined.times, kind="stable")) if in_order else joined
