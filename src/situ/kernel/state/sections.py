"""The state of a case as a table with one row for each group: a **section** per (definition, case, group key).

Sections are taken out of a state and put into another one, of all groups (a snapshot) or of some (a consumer who moves,
an operator that changes its place).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from situ.core.errors import StateError
from situ.core.time import BEGINNING, END
from situ.graph.patterns import is_plain
from situ.graph.query import Pause
from situ.kernel.arrays import EARLIEST, I64, LIVE, NODES_USED, REPORTS_TIMED_OUT, RUNS_USED
from situ.kernel.batch import ORIGINS, one_chunk
from situ.kernel.matching.matcher import Matcher, Matches, Shard, concat_matches
from situ.kernel.matching.order import counting_order
from situ.kernel.matching.policies import GHOST, Policies, Waiting
from situ.kernel.program.program import Program
from situ.kernel.state.case_state import CaseState
from situ.kernel.state.checks import (
    FARTHEST,
    numbers,
    owners,
    require,
    require_between,
    require_columns,
    require_event_times,
    require_times,
    require_whole,
)
from situ.kernel.state.store import SILENT, Store, concat_stores

_RUN_FIELDS = {
    "state": np.int32, "node": np.int64, "alive": np.uint64, "seen": np.uint64, "deadline": np.int64,
    "first_time": np.int64, "first_position": np.int64, "anchored": np.uint8, "extended": np.uint8,
    "selection": np.int64, "wakes": np.int64, "since": np.int64,
}  # fmt: skip
_NODE_FIELDS = {"parent": np.int64, "event": np.int64, "state": np.int32}
_EVENT_FIELDS = {"type_rank": np.int8, "time": np.int64, "position": np.int64, "consumed": np.uint8}
_MATCH_FIELDS = {
    "time": np.int64, "completing": np.int64, "first_position": np.int64, "selection": np.int64, "timed_out": np.uint8
}  # fmt: skip
_WAITING_FIELDS = _MATCH_FIELDS | {"status": np.uint8, "fires": np.int64, "moment": np.int64}
_PATH_FIELDS = {"event": np.int64, "variable": np.int16}


def sections_of(state: CaseState, chosen: np.ndarray, key_types: Sequence[pa.DataType]) -> pa.Table:
    """The state of the groups that are marked in `chosen`, by number: a row for each of them, in order of numbers."""
    numbers = np.flatnonzero(chosen)
    section = np.where(chosen, np.cumsum(chosen) - 1, len(numbers))  # by group; of the others, one more
    skip_past = np.full(len(chosen), -1, np.int64)
    skip_past[: len(state.policies.skip_past)] = state.policies.skip_past
    groups = state.matcher.groups
    columns = {f"key {i}": key for i, key in enumerate(state.groups.keys(numbers, key_types))} | {
        "positions": pa.array(groups["positions"][numbers]),
        "selections": pa.array(groups["selections"][numbers]),
        "skip_past": pa.array(skip_past[numbers]),
    }
    if isinstance(state.policies.after_match, Pause):
        state.make_room_for_groups()
        columns["paused_until"] = pa.array(state.policies.paused_until[numbers])
    if state.policies.program.case.once:
        columns["living"] = pa.array(groups["living"][numbers])
    if state.policies.program.automaton.begins:
        columns["begun"] = pa.array(groups["begun"][numbers])
    by_event = _BySection.of(section[state.retained.group], len(numbers))
    events = state.retained.take(by_event.order)
    fields = {name: pa.array(getattr(events, name)) for name in _EVENT_FIELDS}
    columns["events"] = _lists(by_event.offsets, fields | dict(events.columns))
    columns |= _run_lists(state.matcher, section, state.retained.group, by_event)
    columns["waiting"] = _waiting_lists(state.policies.waiting, section, by_event)
    return pa.table(columns)


@dataclass(frozen=True, slots=True)
class _BySection:
    """Rows that belong to a section, by section: their order, where each section begins in it, and by row its number
    within its section."""

    order: I64
    offsets: I64
    local: I64

    @classmethod
    def of(cls, section: I64, sections: int) -> _BySection:
        """Rows of the section `sections` belong to none."""
        counts = np.bincount(section, minlength=sections + 1)[:sections]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        order = counting_order(section, sections + 1)[: offsets[-1]]
        local = np.zeros(len(section), np.int64)
        local[order] = np.arange(len(order)) - np.repeat(offsets[:-1], counts)
        return cls(order, offsets, local)

    @property
    def sections(self) -> int:
        return len(self.offsets) - 1


def _run_lists(matcher: Matcher, section: I64, event_group: I64, by_event: _BySection) -> dict[str, pa.Array]:
    """The partial matches of all shards, and the events that they took."""
    runs = [s.runs[: s.counters[RUNS_USED]] for s in matcher.shards]
    nodes = [s.nodes[: s.counters[NODES_USED]] for s in matcher.shards]
    live = [np.flatnonzero(part["state"] >= 0) for part in runs]
    run = {
        name: np.concatenate([part[name][rows] for part, rows in zip(runs, live, strict=True)])
        for name in (*_RUN_FIELDS, "group")
    }
    node = {name: np.concatenate([part[name] for part in nodes]) for name in _NODE_FIELDS}
    used = list(map(len, nodes))
    begin = np.cumsum(used) - used  # of each shard's nodes
    by_node = _BySection.of(section[event_group[node["event"]]], by_event.sections)
    by_run = _BySection.of(section[run["group"]], by_event.sections)
    taken = run["node"] >= 0  # the others wait for a silence that comes first
    number = run["node"] + np.repeat(begin, list(map(len, live)))
    run["node"] = np.full(len(number), -1)
    run["node"][taken] = by_node.local[number[taken]]
    parent = by_node.local[node["parent"] + np.repeat(begin, used)]
    node["parent"] = np.where(node["parent"] >= 0, parent, -1)
    node["event"] = by_event.local[node["event"]]
    return {
        "nodes": _lists(by_node.offsets, {name: pa.array(node[name][by_node.order]) for name in _NODE_FIELDS}),
        "runs": _lists(by_run.offsets, {name: pa.array(run[name][by_run.order]) for name in _RUN_FIELDS}),
    }


def _waiting_lists(waiting: Waiting, section: I64, by_event: _BySection) -> pa.Array:
    by_match = _BySection.of(section[waiting.matches.group], by_event.sections)
    matches = waiting.matches.take(by_match.order)
    paths = {"event": pa.array(by_event.local[matches.path_event]), "variable": pa.array(matches.path_variable)}
    columns = {name: pa.array(getattr(matches, name)) for name in _MATCH_FIELDS}
    columns["completing"] = pa.array(by_event.local[matches.completing])
    columns |= {name: pa.array(getattr(waiting, name)[by_match.order]) for name in ("status", "fires", "moment")}
    columns["path"] = _lists(matches.offsets, paths)
    return _lists(by_match.offsets, columns)


def _lists(offsets: I64, columns: Mapping[str, pa.Array]) -> pa.Array:
    structs = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), structs)


def put_sections(
    state: CaseState, table: pa.Table, program: Program, keys: Sequence[pa.Array], input_types: int
) -> I64:
    """Add the sections of a table, whose groups have these keys, to a state that has none of them; their numbers.

    StateError if the program, which reads so many types, cannot have written them.
    """
    given = _case_sections(table, program, {name: column.type for name, column in state.retained.columns.items()})
    least = SILENT if program.automaton.has_silences else 0
    require_between(given.events.type_rank, least, input_types, "types of events")
    if ORIGINS in given.events.columns:
        require_whole(given.events.columns[ORIGINS], ORIGINS)
    before = state.groups.used.copy()
    numbers_ = state.groups.numbers(keys, table.num_rows)
    require(len(np.unique(numbers_)) == table.num_rows, "two sections have one group key")
    if before[numbers_[numbers_ < len(before)]].any():
        raise StateError("the state has a group that it is given once more", remedy="Take the group out of it first.")
    _require_keys_of_events(state, given, numbers_)
    marks = _marks_of(table, state.policies)
    state.make_room_for_groups()
    groups, policies = state.matcher.groups, state.policies
    groups["positions"][numbers_], groups["selections"][numbers_] = given.positions, given.selections
    policies.skip_past[numbers_] = given.skip_past
    policies.paused_until[numbers_], groups["living"][numbers_], groups["begun"][numbers_] = marks
    first_event = len(state.retained) + np.cumsum(given.event_lengths) - given.event_lengths
    state.retained = concat_stores(state.retained, replace(given.events, group=numbers_[given.events.group]))
    _put_runs(given, state.matcher, numbers_, first_event)
    _put_waiting(given, state, numbers_, first_event)
    return numbers_


def _marks_of(table: pa.Table, policies: Policies) -> tuple[I64, I64, I64]:
    """Until when each section pauses, where the only match starts that may stay, and whether it had an event with which
    silences began; where the rule asks for it."""
    paused_until, living = np.full(table.num_rows, BEGINNING), np.full(table.num_rows, -1)
    begun = np.zeros(table.num_rows, np.int64)
    if isinstance(policies.after_match, Pause):
        paused_until = numbers(table.column("paused_until"), np.int64, "pauses")
        require_times(paused_until, "pauses")
    if policies.program.case.once:
        living = numbers(table.column("living"), np.int64, "starts")
        require_between(living, -1, FARTHEST, "starts")
    if policies.program.automaton.begins:
        begun = numbers(table.column("begun"), np.int64, "beginnings")
        require_between(begun, 0, 2, "beginnings")
    return paused_until, living, begun


def _require_keys_of_events(state: CaseState, given: _CaseSections, numbers_: I64) -> None:
    """StateError, unless the events of a section have the section's group key."""
    group_count = len(state.groups)
    keys = [column for name, column in given.events.columns.items() if name.startswith("group.")]
    if keys:
        group_numbers = state.groups.numbers(keys, len(given.events))
        same = np.array_equal(group_numbers, numbers_[given.events.group])
        require(len(state.groups) == group_count and same, "events are in other groups")


def _put_runs(given: _CaseSections, matcher: Matcher, group: I64, first_event: I64) -> None:
    nodes, runs = given.nodes.fields, given.runs.fields
    node_section, run_section = owners(given.nodes.lengths), owners(given.runs.lengths)
    count = len(matcher.shards)
    for shard_number, shard in enumerate(matcher.shards):
        mine = group % count == shard_number
        mine_nodes, mine_runs = np.flatnonzero(mine[node_section]), np.flatnonzero(mine[run_section])
        shard.make_room(len(mine_runs), len(mine_nodes))
        nodes_before, runs_before = int(shard.counters[NODES_USED]), int(shard.counters[RUNS_USED])
        lengths = np.where(mine, given.nodes.lengths, 0)
        first_node = nodes_before + np.cumsum(lengths) - lengths  # of each section, in this shard
        section = node_section[mine_nodes]
        parent = nodes["parent"][mine_nodes]
        node = shard.nodes[nodes_before : nodes_before + len(section)]
        node["parent"] = np.where(parent >= 0, parent + first_node[section], -1)
        node["event"] = nodes["event"][mine_nodes] + first_event[section]
        node["state"] = nodes["state"][mine_nodes]
        section = run_section[mine_runs]
        run = shard.runs[runs_before : runs_before + len(section)]
        for name in _RUN_FIELDS:
            run[name] = runs[name][mine_runs]
        run["node"] += np.where(run["node"] >= 0, first_node[section], 0).astype(np.int32)
        run["group"] = group[section]
        _link(run, runs_before, matcher)
        _count(shard, len(mine_nodes), run)


def _link(run: np.ndarray, first: int, matcher: Matcher) -> None:
    """Chain the runs of each group, which stand together from run `first` on."""
    group = run["group"]
    begins = np.ones(len(run), np.bool_)
    begins[1:] = group[1:] != group[:-1]
    is_last = np.append(begins[1:], True)[: len(run)]
    run["next"] = np.where(is_last, -1, first + np.arange(1, len(run) + 1))
    heads = np.flatnonzero(begins)
    matcher.groups["head"][group[heads]] = first + heads
    matcher.groups["awaited"][group[heads]] = ~np.uint64(0)  # the kernel finds out when it looks at them
    matcher.groups["live"][:] += np.bincount(group, minlength=len(matcher.groups)).astype(np.int32)


def _count(shard: Shard, nodes: int, run: np.ndarray) -> None:
    earliest = int(shard.counters[EARLIEST]) if shard.counters[LIVE] else END
    shard.counters[EARLIEST] = min(earliest, int(run["deadline"].min(initial=END)), int(run["wakes"].min(initial=END)))
    shard.counters[NODES_USED] += nodes
    shard.counters[RUNS_USED] += len(run)
    shard.counters[LIVE] += len(run)


def _put_waiting(given: _CaseSections, state: CaseState, numbers_: I64, first_event: I64) -> None:
    added, before = given.waiting, state.policies.waiting
    section = added.matches.group
    offset = (first_event - (np.cumsum(given.event_lengths) - given.event_lengths))[section]
    paths = np.diff(added.matches.offsets)
    matches = replace(
        added.matches,
        completing=added.matches.completing + offset,
        group=numbers_[section],
        path_event=added.matches.path_event + np.repeat(offset, paths),
    )
    state.policies.waiting = Waiting(
        concat_matches([before.matches, matches]),
        np.concatenate([before.status, added.status]),
        np.concatenate([before.fires, added.fires]),
        np.concatenate([before.moment, added.moment]),
    )


def key_columns_of(table: pa.Table, types: Sequence[pa.DataType]) -> list[pa.Array]:
    """The group keys of a table of sections; StateError if they are of other types."""
    keys = {f"key {i}": one_chunk(table.column(f"key {i}")) for i in range(len(types))}
    require_columns(keys, dict(zip(keys, types, strict=True)))
    return list(keys.values())


@dataclass(frozen=True, slots=True)
class _Elements:
    """Partial matches, or the events that they took, of all sections: how many of each, and their fields."""

    lengths: I64
    fields: Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class _CaseSections:
    """What the sections of a table say; groups are numbered by the rows of the table."""

    positions: I64
    selections: I64
    skip_past: I64
    events: Store
    event_lengths: I64
    nodes: _Elements
    runs: _Elements
    waiting: Waiting


def _case_sections(table: pa.Table, program: Program, event_columns: Mapping[str, pa.DataType]) -> _CaseSections:
    """What the sections of a table say; StateError where the program cannot have written them."""
    positions, selections, skip_past = (
        numbers(table.column(name), np.int64, name) for name in ("positions", "selections", "skip_past")
    )
    for values in (positions, selections, skip_past):
        require_between(values, -1, FARTHEST, "positions")
    lengths, events = _flat(table.column("events"))
    require_columns(events, event_columns)
    rank, time, position, consumed = (
        numbers(events[name], dtype, f"{name} of events") for name, dtype in _EVENT_FIELDS.items()
    )
    require_event_times(time)
    require_between(position, 0, FARTHEST, "positions of events")
    columns = {name: events[name] for name in event_columns}
    store = Store(rank, time, owners(lengths), position, consumed, columns)
    nodes = _nodes_of(table.column("nodes"), program, lengths)
    runs = _runs_of(table.column("runs"), program, nodes)
    waiting = _waiting_of(table.column("waiting"), program, lengths)
    return _CaseSections(positions, selections, skip_past, store, lengths, nodes, runs, waiting)


def _elements_of(column: pa.ChunkedArray, fields: Mapping[str, type], rows: int, what: str) -> _Elements:
    lengths, columns = _flat(column)
    require(len(lengths) == rows, f"{what} are of other sections")
    return _Elements(lengths, {name: numbers(columns[name], dtype, what) for name, dtype in fields.items()})


def _nodes_of(column: pa.ChunkedArray, program: Program, event_lengths: I64) -> _Elements:
    """Events that partial matches took: each is an event of its section, and comes after one that it may follow."""
    nodes = _elements_of(column, _NODE_FIELDS, len(event_lengths), "nodes")
    section, code = owners(nodes.lengths), program.code
    begin = (np.cumsum(nodes.lengths) - nodes.lengths)[section]
    parent, state = nodes.fields["parent"], nodes.fields["state"]
    require_between(nodes.fields["event"], 0, event_lengths[section], "events of nodes")
    require_between(parent, -1, np.arange(len(parent)) - begin, "parents of nodes")
    require_between(state, 0, len(code.state_test), "states of nodes")
    before = state[np.maximum(parent, 0) + begin]
    may_follow = _may_follow(program)[np.where(parent < 0, len(code.state_test), before), state]
    require(may_follow.all(), "nodes follow others that they cannot")
    return nodes


def _may_follow(program: Program) -> np.ndarray:
    """By two states, whether an edge leads from the first to the second; the last row has those to start with."""
    code = program.code
    follows = np.zeros((len(code.state_test) + 1, len(code.state_test)), np.bool_)
    sources = np.repeat(np.arange(len(code.state_test)), np.diff(code.edge_offset))
    follows[sources, code.edge_target] = True
    follows[-1, code.starts] = True
    follows[-1] |= follows[code.begins].any(axis=0)
    return follows


def _runs_of(column: pa.ChunkedArray, program: Program, nodes: _Elements) -> _Elements:
    """Partial matches: each ends in a node of its section, in the same state, with edges and watches of this state."""
    runs = _elements_of(column, _RUN_FIELDS, len(nodes.lengths), "partial matches")
    section, code = owners(runs.lengths), program.code
    field = runs.fields
    begin = (np.cumsum(nodes.lengths) - nodes.lengths)[section]
    require_between(field["state"], 0, len(code.state_test), "states of partial matches")
    waits = np.isin(field["state"], code.begins)  # for a silence that comes first, before any event
    require_between(field["node"], -1, nodes.lengths[section], "nodes of partial matches")
    require(np.array_equal(field["node"] < 0, waits), "partial matches have no event")
    taken = np.flatnonzero(~waits)
    states = nodes.fields["state"][(field["node"] + begin)[taken]]
    require(np.array_equal(states, field["state"][taken]), "partial matches are elsewhere")
    edges = np.array([(1 << int(count)) - 1 for count in np.diff(code.edge_offset)], np.uint64)
    watches = np.uint64((1 << len(code.watch_test)) - 1)
    require(((field["alive"] & ~edges[field["state"]]) == 0).all(), "partial matches wait for edges that are not there")
    require(((field["seen"] & ~watches) == 0).all(), "partial matches have seen what nobody watches")
    require(max(field["anchored"].max(initial=0), field["extended"].max(initial=0)) <= 1, "partial matches are marked")
    for name in ("deadline", "wakes", "since"):
        require_times(field[name], "deadlines")
    require_event_times(field["first_time"])
    require_between(field["first_position"], 0, FARTHEST, "positions of partial matches")
    return runs


def _waiting_of(column: pa.ChunkedArray, program: Program, event_lengths: I64) -> Waiting:
    """Matches that wait: their events are those of their section, and their variables are the program's."""
    lengths, columns = _flat(column)
    require(len(lengths) == len(event_lengths), "waiting matches are of other sections")
    group = owners(lengths)
    path_lengths, path = _flat(columns["path"])
    first_event = np.cumsum(event_lengths) - event_lengths
    field = {name: numbers(columns[name], dtype, "waiting matches") for name, dtype in _WAITING_FIELDS.items()}
    event, variable = (numbers(path[name], dtype, "paths") for name, dtype in _PATH_FIELDS.items())
    require_between(field["completing"], 0, event_lengths[group], "events of waiting matches")
    require_between(event, 0, np.repeat(event_lengths[group], path_lengths), "events of paths")
    require_between(path_lengths, 1, FARTHEST, "lengths of paths")
    require_between(variable, 0, len(program.variables), "variables of paths")
    if is_plain(program.case.detect) and not program.code.window[REPORTS_TIMED_OUT]:
        steps = np.tile(np.arange(len(program.variables)), len(path_lengths))
        require(np.array_equal(variable, steps), "paths are not those of the pattern")
    require_between(field["status"], 0, GHOST + 1, "states of waiting matches")
    for name in ("time", "fires", "moment"):
        require_times(field[name], "times of waiting matches")
    base = first_event[group]
    matches = Matches(
        field["time"],
        field["completing"] + base,
        group,
        field["first_position"],
        field["selection"],
        field["timed_out"],
        np.concatenate([[0], np.cumsum(path_lengths)]).astype(np.int64),
        event + np.repeat(base, path_lengths),
        variable,
    )
    return Waiting(matches, field["status"], field["fires"], field["moment"])


def _flat(column: pa.Array | pa.ChunkedArray) -> tuple[I64, dict[str, pa.Array]]:
    """A column of lists of structs: the length of each list, and the fields of all structs."""
    lists = one_chunk(column) if isinstance(column, pa.ChunkedArray) else column
    structs = lists.flatten()
    names = [structs.type.field(i).name for i in range(structs.type.num_fields)]
    return numbers(lists.value_lengths(), np.int64, "lengths of lists"), dict(
        zip(names, structs.flatten(), strict=True)
    )
