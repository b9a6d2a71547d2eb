"""State as bytes: Arrow tables under names, with a version. No pickle, no code.

A pattern's state is a table with one row for each group: a **section** per (definition, case, group key). So sections
can be picked, moved and joined as rows, and each table carries the digest of the program that its rows fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from situ.core.errors import StateError
from situ.kernel.arrays import EARLIEST, FREE, I64, LIVE, NO_DEADLINE, NODES_USED, RUNS_USED
from situ.kernel.matcher import Matcher, Matches, Shard
from situ.kernel.policies import Policies, Waiting
from situ.kernel.store import Store

VERSION = 1
_MAGIC = b"situ.version"
_DIGEST = b"situ.program"
_SCHEMA = pa.schema([("name", pa.string()), ("table", pa.large_binary())])


def pack(tables: Mapping[str, pa.Table]) -> bytes:
    """Tables as bytes.

    >>> unpack(pack({"a": pa.table({"x": [1]})}))["a"].to_pylist()
    [{'x': 1}]
    """
    schema = _SCHEMA.with_metadata({_MAGIC: str(VERSION).encode()})
    payloads = [_to_bytes(table) for table in tables.values()]
    return _to_bytes(pa.table([pa.array(list(tables)), pa.array(payloads, pa.large_binary())], schema=schema))


def unpack(data: bytes) -> dict[str, pa.Table]:
    """The tables of `pack`; StateError if the bytes are none, or of another version."""
    try:
        outer = pa.ipc.open_stream(data).read_all()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise StateError("these bytes are no snapshot", remedy=f"Arrow says: {error}") from error
    version = (outer.schema.metadata or {}).get(_MAGIC)
    if version != str(VERSION).encode():
        found = version.decode() if version else "none"
        raise StateError(
            f"the snapshot has version {found}, this situ reads version {VERSION}",
            remedy="Read it with the situ that wrote it, or start without a snapshot.",
        )
    names, payloads = (outer.column(i).to_pylist() for i in range(2))
    return {name: pa.ipc.open_stream(payload).read_all() for name, payload in zip(names, payloads, strict=True)}


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


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
_MATCH_FIELDS = ("time", "completing", "first_position", "selection", "timed_out")


def pattern_sections(
    matcher: Matcher,
    policies: Policies,
    retained: Store,
    keys: Sequence[tuple[object, ...] | None],
    key_types: Sequence[pa.DataType],
    keep_all: bool,
) -> pa.Table:
    """The state of a case, a row per group: of all groups, or of those that hold an event."""
    busy = np.zeros(len(keys), np.bool_)
    busy[retained.group] = True
    if keep_all:
        busy[:] = [key is not None for key in keys]
    chosen = np.flatnonzero(busy)
    place = np.full(len(keys) + 1, -1)
    place[chosen] = np.arange(len(chosen))
    columns: dict[str, pa.Array] = {
        f"key {i}": pa.array([keys[g][i] for g in chosen.tolist()], type_)  # type: ignore[index]
        for i, type_ in enumerate(key_types)
    }
    groups = matcher.groups
    skip_past = np.full(len(keys), -1, np.int64)
    skip_past[: len(policies.skip_past)] = policies.skip_past
    columns |= {
        "positions": pa.array(groups.positions[chosen]),
        "selections": pa.array(groups.selections[chosen]),
        "skip_past": pa.array(skip_past[chosen]),
    }
    event_order = np.argsort(place[retained.group], kind="stable")
    events = retained.take(event_order)
    local_event, event_offsets = _local(place[retained.group], event_order, len(chosen))
    fields = {
        "type_rank": events.type_rank,
        "time": events.time,
        "position": events.position,
        "consumed": events.consumed,
    }
    arrays = {name: pa.array(values) for name, values in fields.items()} | events.columns
    columns["events"] = _lists(event_offsets, arrays)
    columns |= _run_lists(matcher, place, local_event, len(chosen))
    columns |= _waiting_lists(policies.waiting, place, local_event, len(chosen))
    return pa.table(columns)


def _run_lists(matcher: Matcher, place: I64, local_event: I64, groups: int) -> dict[str, pa.Array]:
    runs: dict[str, list[np.ndarray]] = {name: [] for name in (*_RUN_FIELDS, "group")}
    nodes: dict[str, list[np.ndarray]] = {name: [] for name in ("parent", "event", "state", "group")}
    offset = 0
    for shard in matcher.shards:
        used = int(shard.counters[NODES_USED])
        live = np.flatnonzero(shard.runs.state[: shard.counters[RUNS_USED]] >= 0)
        for name in _RUN_FIELDS:
            runs[name].append(getattr(shard.runs, name)[live])
        runs["node"][-1] = runs["node"][-1].astype(np.int64) + offset
        runs["group"].append(place[shard.runs.group[live]])
        owner = np.zeros(used, np.int64)
        owner[shard.runs.node[live]] = place[shard.runs.group[live]]
        for node in range(used - 1, -1, -1):  # a node belongs to the group of those that stem from it
            if shard.nodes.parent[node] >= 0:
                owner[shard.nodes.parent[node]] = owner[node]
        parent = shard.nodes.parent[:used].astype(np.int64)
        nodes["parent"].append(np.where(parent >= 0, parent + offset, -1))
        nodes["event"].append(local_event[shard.nodes.event[:used]])
        nodes["state"].append(shard.nodes.state[:used])
        nodes["group"].append(owner)
        offset += used
    run = {name: np.concatenate(parts) for name, parts in runs.items()}
    tree = {name: np.concatenate(parts) for name, parts in nodes.items()}
    order = np.argsort(tree["group"], kind="stable")
    local, offsets = _local(tree["group"], order, groups)
    parent = tree["parent"][order]
    node_list = {
        "parent": pa.array(np.where(parent >= 0, local[parent], -1)),
        "event": pa.array(tree["event"][order]),
        "state": pa.array(tree["state"][order]),
    }
    run_order = np.argsort(run["group"], kind="stable")
    _, run_offsets = _local(run["group"], run_order, groups)
    run["node"] = local[run["node"]] if len(local) else run["node"]
    run_list = {name: pa.array(run[name][run_order]) for name in _RUN_FIELDS}
    return {"nodes": _lists(offsets, node_list), "runs": _lists(run_offsets, run_list)}


def _waiting_lists(waiting: Waiting, place: I64, local_event: I64, groups: int) -> dict[str, pa.Array]:
    group = place[waiting.matches.group]
    order = np.argsort(group, kind="stable")
    _, offsets = _local(group, order, groups)
    matches = waiting.matches.take(order)
    paths = {"event": pa.array(local_event[matches.path_event]), "variable": pa.array(matches.path_variable)}
    columns = {name: pa.array(getattr(matches, name)) for name in _MATCH_FIELDS}
    columns["completing"] = pa.array(local_event[matches.completing])
    columns |= {name: pa.array(getattr(waiting, name)[order]) for name in ("status", "fires", "moment")}
    columns["path"] = _lists(matches.offsets, paths)
    return {"waiting": _lists(offsets, columns)}


def _local(group: I64, order: I64, groups: int) -> tuple[I64, I64]:
    """Numbers within each group, by old number, and where each group begins in `order`."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=groups))]).astype(np.int64)
    local = np.empty(len(group), np.int64)
    local[order] = np.arange(len(group)) - offsets[group[order]]
    return local, offsets


def _lists(offsets: I64, columns: Mapping[str, pa.Array]) -> pa.Array:
    structs = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), structs)


def restore_pattern(table: pa.Table, matcher: Matcher, policies: Policies, event_columns: list[str]) -> Store:
    """Put the sections of a table into a matcher and policies without state; the events they hold.

    Group g is row g of the table.
    """
    rows = table.num_rows
    matcher.add_groups(rows)
    matcher.groups.positions[:rows] = _numbers(table.column("positions"))
    matcher.groups.selections[:rows] = _numbers(table.column("selections"))
    policies.skip_past = _numbers(table.column("skip_past")).copy()
    event_group, events = _flat(table.column("events"))
    store = Store(
        _numbers(events["type_rank"]),
        _numbers(events["time"]),
        event_group,
        _numbers(events["position"]),
        _numbers(events["consumed"]).astype(np.uint8),
        {name: events[name] for name in event_columns},
    )
    event_base = np.searchsorted(event_group, np.arange(rows))
    _restore_runs(table, matcher, event_base)
    policies.waiting = _restore_waiting(table, event_base)
    return store


def _restore_runs(table: pa.Table, matcher: Matcher, event_base: I64) -> None:
    node_group, nodes = _flat(table.column("nodes"))
    run_group, runs = _flat(table.column("runs"))
    count = len(matcher.shards)
    for number in range(count):
        mine_nodes, mine_runs = (
            np.flatnonzero(node_group % count == number),
            np.flatnonzero(run_group % count == number),
        )
        groups_of_nodes = node_group[mine_nodes]
        base = np.searchsorted(groups_of_nodes, np.arange(table.num_rows))  # where a group's nodes begin in this shard
        parent = _numbers(nodes["parent"])[mine_nodes]
        shard = Shard.empty(max(len(mine_runs), 1), max(len(mine_nodes), 1))
        shard.nodes.parent[: len(mine_nodes)] = np.where(parent >= 0, parent + base[groups_of_nodes], -1)
        shard.nodes.event[: len(mine_nodes)] = _numbers(nodes["event"])[mine_nodes] + event_base[groups_of_nodes]
        shard.nodes.state[: len(mine_nodes)] = _numbers(nodes["state"])[mine_nodes]
        group = run_group[mine_runs]
        for name in _RUN_FIELDS:
            getattr(shard.runs, name)[: len(mine_runs)] = _numbers(runs[name])[mine_runs]
        shard.runs.node[: len(mine_runs)] += base[group].astype(np.int32)
        shard.runs.group[: len(mine_runs)] = group
        _link(shard, group, matcher)
        shard.counters[NODES_USED] = len(mine_nodes)
        shard.counters[RUNS_USED] = shard.counters[LIVE] = len(mine_runs)
        shard.counters[FREE] = -1
        shard.counters[EARLIEST] = shard.runs.deadline[: len(mine_runs)].min(initial=NO_DEADLINE)
        matcher.shards[number] = shard


def _link(shard: Shard, group: I64, matcher: Matcher) -> None:
    """Chain the runs of each group; they stand together."""
    count = len(group)
    follows = np.zeros(count, np.bool_)
    follows[:-1] = group[1:] == group[:-1]
    shard.runs.next[:count] = np.where(follows, np.arange(1, count + 1), -1)
    heads = np.flatnonzero(np.concatenate([[True], ~follows[:-1]])) if count else np.zeros(0, np.int64)
    matcher.groups.head[group[heads]] = heads
    matcher.groups.live[:] += np.bincount(group, minlength=len(matcher.groups)).astype(np.int32)


def _restore_waiting(table: pa.Table, event_base: I64) -> Waiting:
    group, columns = _flat(table.column("waiting"))
    path_match, path = _flat(pa.chunked_array([columns["path"]]))
    lengths = np.bincount(path_match, minlength=len(group))
    base = event_base[group] if len(group) else np.zeros(0, np.int64)
    matches = Matches(
        _numbers(columns["time"]),
        _numbers(columns["completing"]) + base,
        group,
        _numbers(columns["first_position"]),
        _numbers(columns["selection"]),
        _numbers(columns["timed_out"]).astype(np.uint8),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        _numbers(path["event"]) + base[path_match],
        _numbers(path["variable"]).astype(np.int16),
    )
    return Waiting(
        matches, _numbers(columns["status"]).astype(np.uint8), _numbers(columns["fires"]), _numbers(columns["moment"])
    )


def _flat(column: pa.ChunkedArray) -> tuple[I64, dict[str, pa.Array]]:
    """The rows of a column of lists: the number of the list each is from, and their fields."""
    lists = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    owner = np.repeat(np.arange(len(lists)), lists.value_lengths().to_numpy(zero_copy_only=False))
    structs = lists.flatten()
    names = [structs.type.field(i).name for i in range(structs.type.num_fields)]
    return owner, dict(zip(names, structs.flatten(), strict=True))


def _numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    return column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
