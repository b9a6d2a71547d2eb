"""The state of a case as a table with one row for each group: a **section** per (definition, case, group key).

Sections are taken out of a state and put into another one, of all groups (a snapshot) or of some (a consumer who moves,
an operator that changes its place).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.core.errors import StateError
from situ.kernel.arrays import EARLIEST, I64, LIVE, NO_DEADLINE, NODES_USED, RUNS_USED
from situ.kernel.batch import one_chunk
from situ.kernel.case_state import CaseState
from situ.kernel.matcher import Matcher, Matches, Shard, concat_matches
from situ.kernel.order import counting_order
from situ.kernel.policies import Waiting
from situ.kernel.store import Store, concat_stores

_RUN_FIELDS = ("state", "node", "alive", "seen", "deadline", "first_time", "first_position", "anchored", "extended",
               "selection")  # fmt: skip
_NODE_FIELDS = ("parent", "event", "state")
_EVENT_FIELDS = ("type_rank", "time", "position", "consumed")
_MATCH_FIELDS = ("time", "completing", "first_position", "selection", "timed_out")


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
    by_event = _BySection.of(section[state.retained.group], len(numbers))
    events = state.retained.take(by_event.order)
    fields = {name: pa.array(getattr(events, name)) for name in _EVENT_FIELDS}
    columns["events"] = _lists(by_event.offsets, fields | events.columns)
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
    run["node"] = by_node.local[run["node"] + np.repeat(begin, list(map(len, live)))]
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


def put_sections(state: CaseState, table: pa.Table, keys: Sequence[pa.Array]) -> I64:
    """Add the sections of a table, whose groups have these keys, to a state that has none of them; their numbers."""
    before = state.groups.used.copy()
    numbers = state.groups.numbers(keys, table.num_rows)
    if before[numbers[numbers < len(before)]].any() or len(np.unique(numbers)) < table.num_rows:
        raise StateError("the state has a group that it is given once more", remedy="Take the group out of it first.")
    state.make_room_for_groups()
    groups, policies = state.matcher.groups, state.policies
    groups["positions"][numbers] = _numbers(table.column("positions"))
    groups["selections"][numbers] = _numbers(table.column("selections"))
    policies.skip_past[numbers] = _numbers(table.column("skip_past"))
    lengths, events = _flat(table.column("events"))
    first_event = len(state.retained) + np.cumsum(lengths) - lengths
    added = Store(
        _numbers(events["type_rank"]),
        _numbers(events["time"]),
        np.repeat(numbers, lengths),
        _numbers(events["position"]),
        _numbers(events["consumed"]),
        {name: events[name] for name in state.retained.columns},
    )
    state.retained = concat_stores(state.retained, added)
    _put_runs(table, state.matcher, numbers, first_event)
    _put_waiting(table, state, numbers, first_event)
    return numbers


def _put_runs(table: pa.Table, matcher: Matcher, numbers: I64, first_event: I64) -> None:
    node_lengths, nodes = _flat(table.column("nodes"))
    run_lengths, runs = _flat(table.column("runs"))
    sections = np.arange(table.num_rows)
    node_section, run_section = np.repeat(sections, node_lengths), np.repeat(sections, run_lengths)
    count = len(matcher.shards)
    for shard_number, shard in enumerate(matcher.shards):
        mine = numbers % count == shard_number
        mine_nodes, mine_runs = np.flatnonzero(mine[node_section]), np.flatnonzero(mine[run_section])
        shard.make_room(len(mine_runs), len(mine_nodes))
        nodes_before, runs_before = int(shard.counters[NODES_USED]), int(shard.counters[RUNS_USED])
        lengths = np.where(mine, node_lengths, 0)
        first_node = nodes_before + np.cumsum(lengths) - lengths  # of each section, in this shard
        section = node_section[mine_nodes]
        parent = _numbers(nodes["parent"])[mine_nodes]
        node = shard.nodes[nodes_before : nodes_before + len(section)]
        node["parent"] = np.where(parent >= 0, parent + first_node[section], -1)
        node["event"] = _numbers(nodes["event"])[mine_nodes] + first_event[section]
        node["state"] = _numbers(nodes["state"])[mine_nodes]
        section = run_section[mine_runs]
        run = shard.runs[runs_before : runs_before + len(section)]
        for name in _RUN_FIELDS:
            run[name] = _numbers(runs[name])[mine_runs]
        run["node"] += first_node[section].astype(np.int32)
        run["group"] = numbers[section]
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
    matcher.groups["live"][:] += np.bincount(group, minlength=len(matcher.groups)).astype(np.int32)


def _count(shard: Shard, nodes: int, run: np.ndarray) -> None:
    earliest = int(shard.counters[EARLIEST]) if shard.counters[LIVE] else NO_DEADLINE
    shard.counters[EARLIEST] = min(earliest, int(run["deadline"].min(initial=NO_DEADLINE)))
    shard.counters[NODES_USED] += nodes
    shard.counters[RUNS_USED] += len(run)
    shard.counters[LIVE] += len(run)


def _put_waiting(table: pa.Table, state: CaseState, numbers: I64, first_event: I64) -> None:
    lengths, columns = _flat(table.column("waiting"))
    section = np.repeat(np.arange(len(lengths)), lengths)
    path_lengths, path = _flat(pa.chunked_array([columns["path"]]))
    base = first_event[section]
    matches = Matches(
        _numbers(columns["time"]),
        _numbers(columns["completing"]) + base,
        numbers[section],
        _numbers(columns["first_position"]),
        _numbers(columns["selection"]),
        _numbers(columns["timed_out"]),
        np.concatenate([[0], np.cumsum(path_lengths)]).astype(np.int64),
        _numbers(path["event"]) + np.repeat(base, path_lengths),
        _numbers(path["variable"]),
    )
    before = state.policies.waiting
    state.policies.waiting = Waiting(
        concat_matches([before.matches, matches]),
        np.concatenate([before.status, _numbers(columns["status"])]),
        np.concatenate([before.fires, _numbers(columns["fires"])]),
        np.concatenate([before.moment, _numbers(columns["moment"])]),
    )


def key_columns_of(table: pa.Table, keys: int) -> list[pa.Array]:
    """The group keys of a table of sections."""
    return [one_chunk(table.column(f"key {i}")) for i in range(keys)]


def _flat(column: pa.ChunkedArray) -> tuple[I64, dict[str, pa.Array]]:
    """A column of lists of structs: the length of each list, and the fields of all structs."""
    lists = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    structs = lists.flatten()
    names = [structs.type.field(i).name for i in range(structs.type.num_fields)]
    return _numbers(lists.value_lengths()), dict(zip(names, structs.flatten(), strict=True))


def _numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A copy, which can be written: kernels are compiled for each kind of array that they are given."""
    values = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    return values.copy()
