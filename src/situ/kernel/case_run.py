"""One case of a pattern rule at work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from situ.core.hops import hop
from situ.core.memory import MemoryBudget
from situ.core.time import BEGINNING
from situ.core.types import to_arrow
from situ.graph.patterns import is_plain
from situ.graph.typing import THIS
from situ.kernel.arrays import I64, U64, Events, Nodes
from situ.kernel.batch import ORIGINS, Batch, Calls, concat_arrays
from situ.kernel.candidates import Candidates, TypeTests, accepted_rows
from situ.kernel.columns.evaluate import evaluate
from situ.kernel.host_rows import HostRows, one_match
from situ.kernel.matching.dead_ends import DeadEnds
from situ.kernel.matching.matcher import Host, Matches, concat_matches
from situ.kernel.matching.order import (
    dense_ranks,
    is_sorted,
    is_sorted_by,
    lexical_order,
    number_positions,
)
from situ.kernel.matching.policies import JudgedEvents
from situ.kernel.matching.selections import SelectionLog, chosen_numbers
from situ.kernel.operator import (
    RULE,
    SLICE,
    Chosen,
    Produced,
    complex_events,
    joined_extents,
    joined_origins,
    no_events,
)
from situ.kernel.program.conditions import Term
from situ.kernel.program.pattern_program import PatternProgram
from situ.kernel.state.case_state import CaseState
from situ.kernel.state.groups import is_among
from situ.kernel.state.rule_groups import RuleGroupIndex
from situ.kernel.state.sections import key_columns_of, put_sections, sections_of
from situ.kernel.state.selection_tables import log_of_table, log_to_table
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
        self._tests = {name: TypeTests.of(self.program, name) for name in self.compiled.types}
        self.state = CaseState.empty(context, self.compiled, shards, memory)
        self.dead_ends = DeadEnds.of(context, number, self.program) if chosen is None else None
        carried = {name: self.state.retained.columns[name] for name in self._logged()} if context.selections else {}
        self.log = SelectionLog.empty(self.case.within, carried) if context.selections else None

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
        if self.state.retain(store) and not self.context.selections and self.chosen is None:
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
                    batch, bits = accepted_rows(inputs[name], self._tests[name], self.calls)
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
            match = one_match(events[::-1], path[::-1])
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
        if self.context.selections:
            columns["_selection"] = pa.array(matches.selection)
        if self.context.provenance:
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
        if not self.context.selections:
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
            self.log = self.log.joined(log_of_table(tables[LOG], self.case.within, groups, types))

    def _tables(self, chosen: np.ndarray) -> dict[str, pa.Table]:
        tables = {SECTIONS: sections_of(self.state, chosen, self._key_types)}
        if self.log is not None:
            tables[LOG] = log_to_table(self.log, chosen)
        return tables

    @property
    def _key_types(self) -> list[pa.DataType]:
        return [self.context.key_type(key) for key in self.context.group_by]


def in_order(matches: Matches) -> Matches:
    """By time, then by the event that completed them: whatever shards found them, and how."""
    if is_sorted(matches.time) and is_sorted(matches.completing):
        return matches
    order = np.argsort(matches.completing, kind="stable")  # merges the shards, each of which is in order by itself
    if not is_sorted(matches.time[order]):
        order = lexical_order((matches.completing, matches.time))
    return matches.take(order)


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
