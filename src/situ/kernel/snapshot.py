"""State as bytes: Arrow tables under names, with a version. No pickle, no code.

A pattern's state is a table with one row for each group: a **section** per (definition, case, group key). So sections
can be picked, moved and joined as rows, and each table carries the digest of the program that its rows fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.core.errors import StateError
from situ.kernel.arrays import EARLIEST, FREE, I64, LIVE, NO_DEADLINE, NODES_USED, RUNS_USED
from situ.kernel.groups import GroupIndex
from situ.kernel.matcher import POOL, Matcher, Matches, Shard
from situ.kernel.order import counting_order
from situ.kernel.policies import Policies, Waiting
from situ.kernel.store import Store

VERSION = 2
_MAGIC = b"situ.version"
_DIGEST = b"situ.program"
# Compressed, the state of a pattern with very many groups is a quarter as large. Arrow's threads would only be in the
# way: there are many small columns, and engines run shards side by side.
_WRITE = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)


def pack(tables: Mapping[str, pa.Table]) -> bytes:
    """Tables as bytes: one after another, after a table of their names.

    >>> unpack(pack({"a": pa.table({"x": [1]})}))["a"].to_pylist()
    [{'x': 1}]
    """
    names = pa.table({"name": pa.array(list(tables), pa.string())}, metadata={_MAGIC: str(VERSION).encode()})
    sink = pa.BufferOutputStream()
    for table in (names, *tables.values()):
        with pa.ipc.new_stream(sink, table.schema, options=_WRITE) as writer:
            writer.write_table(table)
    return sink.getvalue().to_pybytes()


def unpack(data: bytes) -> dict[str, pa.Table]:
    """The tables of `pack`; StateError if the bytes are none, or of another version."""
    source = pa.BufferReader(data)
    try:
        names = _read(source)
        version = (names.schema.metadata or {}).get(_MAGIC)
        if version == str(VERSION).encode():
            return {name: _read(source) for name in names.column("name").to_pylist()}
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise StateError("these bytes are no snapshot", remedy=f"Arrow says: {error}") from error
    found = version.decode() if version else "none"
    raise StateError(
        f"the snapshot has version {found}, this situ reads version {VERSION}",
        remedy="Read it with the situ that wrote it, or start without a snapshot.",
    )


def _read(source: pa.BufferReader) -> pa.Table:
    return pa.ipc.open_stream(source, options=_READ).read_all()


def digest(*parts: object) -> str:
    """A short hash of what a state must fit: texts, and what prints itself.

    >>> digest("program", ("a", "b")) == digest("program", ("a", "b")) != digest("program", ("b", "a"))
    True
    """
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]


def with_digest(table: pa.Table, digest: str) -> pa.Table:
    return table.replace_schema_metadata({_DIGEST: digest.encode()})


def digest_of(table: pa.Table) -> str:
    return (table.schema.metadata or {}).get(_DIGEST, b"").decode()


# --- a pattern's state, one row per group

_RUN_FIELDS = ("state", "node", "alive", "seen", "deadline", "first_time", "first_position", "anchored", "extended",
               "selection")  # fmt: skip
_NODE_FIELDS = ("parent", "event", "state")
_EVENT_FIELDS = ("type_rank", "time", "position", "consumed")
_MATCH_FIELDS = ("time", "completing", "first_position", "selection", "timed_out")


def pattern_sections(
    matcher: Matcher,
    policies: Policies,
    retained: Store,
    groups: GroupIndex,
    key_types: Sequence[pa.DataType],
    keep_all: bool,
) -> pa.Table:
    """The state of a case, a row per group: of all groups, or of those that hold an event."""
    busy = groups.used if keep_all else np.zeros(len(groups), np.bool_)
    busy[retained.group] = True
    chosen = np.flatnonzero(busy)
    section = np.cumsum(busy) - 1  # by group
    skip_past = np.full(len(groups), -1, np.int64)
    skip_past[: len(policies.skip_past)] = policies.skip_past
    columns = {f"key {i}": key for i, key in enumerate(groups.keys(chosen, key_types))} | {
        "positions": pa.array(matcher.groups["positions"][chosen]),
        "selections": pa.array(matcher.groups["selections"][chosen]),
        "skip_past": pa.array(skip_past[chosen]),
    }
    by_event = _BySection.of(section[retained.group], len(chosen))
    events = retained.take(by_event.order)
    fields = {name: pa.array(getattr(events, name)) for name in _EVENT_FIELDS}
    columns["events"] = _lists(by_event.offsets, fields | events.columns)
    columns |= _run_lists(matcher, section, retained.group, by_event)
    columns["waiting"] = _waiting_lists(policies.waiting, section, by_event)
    return pa.table(columns)


@dataclass(frozen=True, slots=True)
class _BySection:
    """Rows by section: their order, where each section begins in it, and by row its number within its section."""

    order: I64
    offsets: I64
    local: I64

    @classmethod
    def of(cls, section: I64, sections: int) -> _BySection:
        order = counting_order(section, sections)
        counts = np.bincount(section, minlength=sections)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        local = np.empty(len(section), np.int64)
        local[order] = np.arange(len(section)) - np.repeat(offsets[:-1], counts)
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


def restore_pattern(table: pa.Table, matcher: Matcher, policies: Policies, event_columns: list[str]) -> Store:
    """Put the sections of a table into a matcher and policies without state; the events they hold.

    Group g is row g of the table.
    """
    rows = table.num_rows
    matcher.add_groups(rows)
    matcher.groups["positions"][:rows] = _numbers(table.column("positions"))
    matcher.groups["selections"][:rows] = _numbers(table.column("selections"))
    policies.skip_past = _numbers(table.column("skip_past"))
    lengths, events = _flat(table.column("events"))
    store = Store(
        _numbers(events["type_rank"]),
        _numbers(events["time"]),
        np.repeat(np.arange(rows), lengths),
        _numbers(events["position"]),
        _numbers(events["consumed"]),
        {name: events[name] for name in event_columns},
    )
    first_event = np.cumsum(lengths) - lengths
    _restore_runs(table, matcher, first_event)
    policies.waiting = _restore_waiting(table, first_event)
    return store


def _restore_runs(table: pa.Table, matcher: Matcher, first_event: I64) -> None:
    node_lengths, nodes = _flat(table.column("nodes"))
    run_lengths, runs = _flat(table.column("runs"))
    groups = np.arange(table.num_rows)
    node_group, run_group = np.repeat(groups, node_lengths), np.repeat(groups, run_lengths)
    count = len(matcher.shards)
    for number in range(count):
        mine_nodes = np.flatnonzero(node_group % count == number)
        mine_runs = np.flatnonzero(run_group % count == number)
        shard = Shard.empty(POOL + 2 * len(mine_runs), POOL + 2 * len(mine_nodes))  # as many may come
        lengths = np.where(groups % count == number, node_lengths, 0)
        first_node = np.cumsum(lengths) - lengths  # of each group, in this shard
        group = node_group[mine_nodes]
        parent = _numbers(nodes["parent"])[mine_nodes]
        node = shard.nodes[: len(group)]
        node["parent"] = np.where(parent >= 0, parent + first_node[group], -1)
        node["event"] = _numbers(nodes["event"])[mine_nodes] + first_event[group]
        node["state"] = _numbers(nodes["state"])[mine_nodes]
        group = run_group[mine_runs]
        run = shard.runs[: len(group)]
        for name in _RUN_FIELDS:
            run[name] = _numbers(runs[name])[mine_runs]
        run["node"] += first_node[group].astype(np.int32)
        run["group"] = group
        _link(run, matcher)
        shard.counters[NODES_USED] = len(mine_nodes)
        shard.counters[RUNS_USED] = shard.counters[LIVE] = len(mine_runs)
        shard.counters[FREE] = -1
        shard.counters[EARLIEST] = run["deadline"].min(initial=NO_DEADLINE)
        matcher.shards[number] = shard


def _link(run: np.ndarray, matcher: Matcher) -> None:
    """Chain the runs of each group; they stand together."""
    group = run["group"]
    first = np.ones(len(run), np.bool_)
    first[1:] = group[1:] != group[:-1]
    last = np.append(first[1:], True)[: len(run)]
    run["next"] = np.where(last, -1, np.arange(1, len(run) + 1))
    heads = np.flatnonzero(first)
    matcher.groups["head"][group[heads]] = heads
    matcher.groups["live"][:] += np.bincount(group, minlength=len(matcher.groups)).astype(np.int32)


def _restore_waiting(table: pa.Table, first_event: I64) -> Waiting:
    lengths, columns = _flat(table.column("waiting"))
    group = np.repeat(np.arange(len(lengths)), lengths)
    path_lengths, path = _flat(pa.chunked_array([columns["path"]]))
    base = first_event[group]
    matches = Matches(
        _numbers(columns["time"]),
        _numbers(columns["completing"]) + base,
        group,
        _numbers(columns["first_position"]),
        _numbers(columns["selection"]),
        _numbers(columns["timed_out"]),
        np.concatenate([[0], np.cumsum(path_lengths)]).astype(np.int64),
        _numbers(path["event"]) + np.repeat(base, path_lengths),
        _numbers(path["variable"]),
    )
    return Waiting(matches, _numbers(columns["status"]), _numbers(columns["fires"]), _numbers(columns["moment"]))


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
