"""From a journal to the state of a site: the last snapshot, and all steps since, done again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from situ.core.errors import StateError
from situ.core.time import BEGINNING, END
from situ.kernel.state.checks import damage_is_told
from situ.kernel.state.snapshot import unpack
from situ.runtime.sites.batches import BatchRecord
from situ.runtime.sites.controls import KnownVersion
from situ.runtime.sites.deployed_plan import DeployedPlan, plan_of_json
from situ.runtime.sites.host import HostMaker
from situ.runtime.sites.journal import Journal, LogPosition
from situ.runtime.sites.logs import SINK, PullState, Reader
from situ.runtime.sites.messages import Incarnation, LogName
from situ.runtime.sites.peers import MOST_LIVES, lives_of_json
from situ.runtime.sites.running_version import RunningVersion
from situ.runtime.sites.source_times import SourceState


@dataclass(frozen=True)
class RecoveredState:
    """What a site goes on with."""

    versions: dict[int, RunningVersion]
    known: KnownVersion
    prepared: DeployedPlan | None
    deployments: list[str]
    sources: Mapping[tuple[str, str], SourceState]
    promises: Mapping[str, int]
    lives: list[Incarnation]
    peer_lives: dict[str, str]
    commits: int
    steps: int
    since_snapshot: int
    snapshot_size: int

    def new_life(self, word: str) -> Incarnation:
        """The life that begins now."""
        ends = {str(log): made.end for version in self.versions.values() for log, made in version.made.items()}
        return Incarnation(word, ends)


def recover(name: str, journal: Journal, make_host: HostMaker, now: float) -> RecoveredState:
    """The state of site `name`, as its journal has it."""
    values = journal.values()
    versions = _versions(name, values, make_host)
    stubs = journal.stubs()
    for version in versions.values():
        _restore_logs(version, values)
        shelves = {n: log.shelf for n, log in version.made.items()} | {n: log.shelf for n, log in version.read.items()}
        for log_name, shelf in shelves.items():
            for stub in stubs.get(log_name, ()):
                shelf.add(stub)
    snapshot = journal.snapshot()
    if snapshot is not None:
        tables = unpack(snapshot)
        with damage_is_told():
            _restore_hosts(versions, tables)
    for number, following in pairwise(sorted(versions)):
        versions[number].successor = versions[following]
    for step in journal.steps():
        if step.version in versions:
            versions[step.version].replay(step, journal.rows)
    for version in versions.values():
        for log in version.made.values():
            log.end = log.durable_end  # of logs that sources fill, too
        _require_same_engine(version, values)
        if version.host.driven:
            text = values.get(f"batch/{version.number}")
            version.last_batch = BatchRecord() if text is None else BatchRecord.of_json(text)
            version.catch_up(journal.rows)
        for read in version.read.values():
            if read.pulled is not None:
                read.pulled = version.host.pulled().get(read.name.type, read.pulled)
        version.read_again(journal.rows)
    commits, steps = map(int, values.get("counted", "0 0").split())
    return RecoveredState(
        versions,
        KnownVersion.of_json(values["known"]) if "known" in values else KnownVersion(),
        plan_of_json(values["prepared"]) if "prepared" in values else None,
        json.loads(values.get("deployments", "[]")),
        {_pair(key): SourceState.of_json(text, now) for key, text in _under("source/", values)},
        {stream: int(text) for stream, text in _under("promise/", values)},
        lives_of_json(values["lives"])[-MOST_LIVES:] if "lives" in values else [],
        dict(_under("peer/", values)),
        commits,
        steps,
        sum(stub.size for of_log in stubs.values() for stub in of_log),
        len(snapshot or b""),
    )


def _under(prefix: str, values: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    return [(key.removeprefix(prefix), value) for key, value in values.items() if key.startswith(prefix)]


def _pair(key: str) -> tuple[str, str]:
    stream, _, source = key.partition("/")
    return stream, source


def _versions(name: str, values: Mapping[str, str], make_host: HostMaker) -> dict[int, RunningVersion]:
    plans = sorted((int(number), plan_of_json(text), text) for number, text in _under("plan/", values))
    return {
        number: RunningVersion(name, plan, make_host(text, name), int(values.get(f"ends/{number}", END)))
        for number, plan, text in plans
    }


def _restore_logs(version: RunningVersion, values: Mapping[str, str]) -> None:
    for name, made in version.made.items():
        if (text := values.get(f"made/{name}")) is not None:
            made.durable_end, made.durable_us = map(int, text.split())
            made.watermark_us = made.durable_us
        if made.pulled is not None and (text := values.get(f"pull/{name}")) is not None:
            made.pulled = PullState.of_json(text)
            made.durable_request = made.pulled.number
        if SINK in made.readers:
            _restore_sink(made.readers[SINK], values.get(f"sink/{name}"))
    for name, read in version.read.items():
        if (text := values.get(f"read/{name}")) is not None:
            read.committed, read.committed_us, read.committed_request = map(int, text.split())
            read.received, read.received_us, read.received_request = map(int, text.split())
            read.taken, read.taken_us, read.taken_request = map(int, text.split())
        if read.sink is not None:
            _restore_sink(read.sink, values.get(f"sink/{name}"))


def _require_same_engine(version: RunningVersion, values: Mapping[str, str]) -> None:
    """StateError, if the operators of a version ran in this process before and are to run on Spark now, or the other
    way round: their state is where they ran."""
    has_batches = f"batch/{version.number}" in values
    made = [log for name, log in version.made.items() if name.type in version.plan.operators]
    has_run = any(log.durable_end or log.durable_us > BEGINNING for log in made)
    if has_run and has_batches != version.host.driven:
        before, remedy = ("on Spark", "with") if has_batches else ("in the site itself", "without")
        raise StateError(
            f"version {version.number} has run {before} at {version.site}, and its state is there",
            remedy=f"Start the site {remedy} --engine spark, as before, or in a new directory.",
        )


def _restore_sink(sink: Reader, text: str | None) -> None:
    sink.committed = sink.sent = int(text or 0)


_FED, _MADE, _STATES = "fed", "made", "states"


def state_tables(versions: Iterable[RunningVersion]) -> dict[str, pa.Table]:
    """What a snapshot has: the states of hosts, and up to where they have read and made logs."""
    running = list(versions)
    fed = [(str(log), *at) for version in running for log, at in version.fed.items()]
    made = [(str(name), log.end, log.watermark_us, 0) for version in running for name, log in version.made.items()]
    states = [(version.number, version.host.snapshot()) for version in running]
    return {
        _FED: _positions(fed),
        _MADE: _positions(made),
        _STATES: pa.table(
            {
                "version": pa.array([number for number, _ in states], pa.int64()),
                "state": pa.array([state for _, state in states], pa.large_binary()),
            }
        ),
    }


def _positions(rows: list[tuple[str, int, int, int]]) -> pa.Table:
    names, numbers, times, requests = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns = {
        "log": pa.array(names, pa.string()),
        "number": pa.array(numbers, pa.int64()),
        "time": pa.array(times, pa.int64()),
        "request": pa.array(requests, pa.int64()),
    }
    return pa.table(columns)


def _restore_hosts(versions: Mapping[int, RunningVersion], tables: Mapping[str, pa.Table]) -> None:
    for row in tables[_FED].to_pylist():
        log = LogName.parse(row["log"])
        if log.version in versions:
            versions[log.version].fed[log] = LogPosition(row["number"], row["time"], row["request"])
    for row in tables[_MADE].to_pylist():
        log = LogName.parse(row["log"])
        if log.version in versions:
            versions[log.version].made[log].end = row["number"]
    for row in tables[_STATES].to_pylist():
        if row["version"] in versions:
            versions[row["version"]].host.restore(row["state"])
