"""Ways in which a site's core could be wrong, each of which storms must find out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from runtime.sites import storm
from runtime.sites.moving import NEVER, moving_query
from runtime.sites.storm import Storm, random_storm, run_storm, unjournalled
from situ.core.time import BEGINNING, END
from situ.flow.flow import Flow
from situ.graph.cuts import Cut
from situ.runtime.sites import admission, compiled_plan, finishing, relays
from situ.runtime.sites.actions import Send
from situ.runtime.sites.admission import rows_between
from situ.runtime.sites.conversation import Conversation
from situ.runtime.sites.deployed_plan import Strategy
from situ.runtime.sites.embedded_host import EmbeddedHost
from situ.runtime.sites.logs import MadeLog, Reader, ReadLog
from situ.runtime.sites.messages import LogBatch, Position, Way
from situ.runtime.sites.moving_states import ArrivingState
from situ.runtime.sites.protocol import Windows
from situ.runtime.sites.pulled_operator import PulledOperator
from situ.runtime.sites.running_version import RunningVersion
from situ.runtime.sites.simulation import world
from situ.runtime.sites.site import SiteCore


@contextmanager
def acknowledge_before_commit() -> Iterator[None]:
    original, accept_first = ReadLog.position, Conversation._accept

    def position(self: ReadLog, life: str, credit: int, again: bool = False) -> Position:
        return replace(original(self, life, credit, again), committed=self.received, watermark=self.received_us)

    def accept(self: Conversation, log: ReadLog, batch: LogBatch) -> None:
        accept_first(self, log, batch)
        self._site.do(Send(log.name.origin, self.position_in(log)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReadLog, "position", position)
        patch.setattr(Conversation, "_accept", accept)
        yield


@contextmanager
def promise_before_commit() -> Iterator[None]:
    original = MadeLog.promise_for

    def promise_for(self: MadeLog, reader: Reader) -> int | None:
        durable_us, self.durable_us = self.durable_us, self.watermark_us
        try:
            return original(self, reader)
        finally:
            self.durable_us = durable_us

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MadeLog, "promise_for", promise_for)
        yield


@contextmanager
def position_not_stored() -> Iterator[None]:
    original = SiteCore._step

    def step(self: SiteCore, now: float) -> None:
        original(self, now)
        for name in [name for name in self.open.values if name.startswith("read/")]:
            del self.open.values[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SiteCore, "_step", step)
        yield


@contextmanager
def batch_taken_twice() -> Iterator[None]:
    def is_new(self: ReadLog, batch: LogBatch) -> bool:
        return batch.following > batch.first or batch.watermark > self.received_us

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReadLog, "is_new", is_new)
        yield


@contextmanager
def credit_on_processing() -> Iterator[None]:
    original = SiteCore._step

    def step(self: SiteCore, now: float) -> None:
        original(self, now)
        for log in self.read_logs():
            if log.taken > log.committed and self.conversation.introduced:
                position = self.conversation.position_in(log)
                more = replace(position, credit=position.credit + unjournalled(self, log.name))
                self.do(Send(log.name.origin, more))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SiteCore, "_step", step)
        yield


@contextmanager
def version_cut_one_microsecond_off() -> Iterator[None]:
    def cut(events: pa.RecordBatch, starts_us: int, ends_us: int) -> pa.RecordBatch:
        return rows_between(events, starts_us + (starts_us > -(2**62)), ends_us + (ends_us < 2**62))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admission, "rows_between", cut)
        yield


@contextmanager
def relay_forgets_a_reader() -> Iterator[None]:
    """Relays hand on so many messages for a site, and then know nothing of it any more."""
    original, handed_on = relays._by_next, Counter[str]()

    def by_next(onward: Sequence[Way]) -> dict[str, tuple[Way, ...]]:
        handed_on.update(way[-1] for way in onward if way)
        return original([way for way in onward if way and handed_on[way[-1]] <= 10])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relays, "_by_next", by_next)
        yield


@contextmanager
def pull_window_one_microsecond_short() -> Iterator[None]:
    original = PulledOperator._windows

    def windows(self: PulledOperator, *arguments: Any) -> Windows:
        asked = original(self, *arguments)
        return Windows(asked.first_us, asked.last_us - 1, asked.known_ns)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PulledOperator, "_windows", windows)
        yield


@contextmanager
def decided_before_all_have_answered() -> Iterator[None]:
    original = RunningVersion.answered

    def answered(self: RunningVersion) -> dict[str, int]:
        requests = {type_: state.number for type_, state in self.host.pulled().items()}
        return {type_: requests[type_] for type_ in original(self)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunningVersion, "answered", answered)
        yield


@contextmanager
def range_forgotten_too_early() -> Iterator[None]:
    def forget_us(self: PulledOperator) -> int:
        return self.low_us if self.low_us in (BEGINNING, END) else self.low_us - self.shape.window_us // 2

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PulledOperator, "forget_us", property(forget_us))
        yield


@contextmanager
def asked_before_commit() -> Iterator[None]:
    original = Conversation._pull

    def pull(self: Conversation, read: ReadLog, now: float) -> None:
        read.pulled = self._site.versions[read.name.version].host.pulled().get(read.name.type, read.pulled)
        original(self, read, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Conversation, "_pull", pull)
        yield


@contextmanager
def answered_twice() -> Iterator[None]:
    original = EmbeddedHost.choose

    def choose(self: EmbeddedHost, event_type: str, rows: Any, selection: Any, asked: Any, unless: Any = None) -> Any:
        return original(self, event_type, rows, selection, asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmbeddedHost, "choose", choose)
        yield


@contextmanager
def found_twice() -> Iterator[None]:
    original = PulledOperator._certain

    def certain(self: PulledOperator, batches: Any, old: Any, *others: Any) -> Any:
        return original(self, batches, dict.fromkeys(old, 0), *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PulledOperator, "_certain", certain)
        yield


@contextmanager
def waiting_events_doubled() -> Iterator[None]:
    original = Flow.take

    def take(self: Flow, name: str) -> Any:
        taken = original(self, name)
        return {key: pa.concat_tables([table] * (1 + key.startswith("inbox/"))) for key, table in taken.items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Flow, "take", take)
        yield


@contextmanager
def state_one_microsecond_off() -> Iterator[None]:
    original = EmbeddedHost.end_at

    def end_at(self: EmbeddedHost, until_us: int, carried: Any) -> None:
        original(self, until_us + 1, carried)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmbeddedHost, "end_at", end_at)
        yield


@contextmanager
def waiting_events_left_behind() -> Iterator[None]:
    original = Flow.take

    def take(self: Flow, name: str) -> Any:
        return {key: table for key, table in original(self, name).items() if not key.startswith("inbox/")}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Flow, "take", take)
        yield


@contextmanager
def state_left_behind() -> Iterator[None]:
    def begin(self: EmbeddedHost, since_us: int) -> None:
        self._arriving.clear()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmbeddedHost, "begin", begin)
        yield


@contextmanager
def finished_too_early() -> Iterator[None]:
    original = finishing.cut_times

    def cut_times(plan: Any, graph: Any) -> Any:
        return {name: replace(cut, decided_us=cut.cut_us) for name, cut in original(plan, graph).items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_plan, "cut_times", cut_times)
        compiled_plan.compiled_plan.cache_clear()
        yield
    compiled_plan.compiled_plan.cache_clear()


@contextmanager
def found_by_both_instances() -> Iterator[None]:
    original = finishing.LoneOperator.__init__

    def init(self: Any, context: Any, streams: Any, memory: Any, own_us: Any = None) -> None:
        original(self, context, streams, memory)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finishing.LoneOperator, "__init__", init)
        yield


@contextmanager
def cut_against_the_table() -> Iterator[None]:
    original = finishing.cut_in

    def cut_in(graph: Any, name: str) -> Cut:
        cut = original(graph, name)
        return Cut(0, 4_000_000, "") if isinstance(cut, str) else cut

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finishing, "cut_in", cut_in)
        patch.setattr(storm, "cut_in", cut_in)
        patch.setattr(storm, "moving_query", lambda rng: moving_query(rng, [*NEVER]))
        compiled_plan.compiled_plan.cache_clear()
        yield
    compiled_plan.compiled_plan.cache_clear()


@contextmanager
def step_not_followed() -> Iterator[None]:
    original = ArrivingState.receive

    def receive(self: ArrivingState, part: str, data: bytes) -> None:
        if part != "step":
            original(self, part, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ArrivingState, "receive", receive)
        yield


@contextmanager
def step_followed_twice() -> Iterator[None]:
    original = ArrivingState._follow

    def follow(self: ArrivingState, tables: Any) -> None:
        original(self, dict(tables))
        original(self, tables)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ArrivingState, "_follow", follow)
        yield


#: Mutations of operators that move; storms in which these do so by these strategies catch them.
MOVING: dict[str, tuple[Strategy, ...]] = {
    "finished_too_early": ("sms",),
    "found_by_both_instances": ("sms",),
    "cut_against_the_table": ("sms",),
    "step_not_followed": ("mfgs",),
    "step_followed_twice": ("mfgs",),
}

#: Mutations of what versions carry on; storms that carry catch them.
CARRYING: dict[str, Callable[[], object]] = {
    mutation.__name__: mutation
    for mutation in (
        waiting_events_doubled,
        state_one_microsecond_off,
        waiting_events_left_behind,
        state_left_behind,
    )
}

#: Mutations of what pulls; storms with pulls catch them.
PULLING: dict[str, Callable[[], object]] = {
    mutation.__name__: mutation
    for mutation in (
        pull_window_one_microsecond_short,
        decided_before_all_have_answered,
        range_forgotten_too_early,
        asked_before_commit,
        answered_twice,
        found_twice,
    )
}

MUTATIONS: dict[str, Callable[[], object]] = (
    {
        mutation.__name__: mutation
        for mutation in (
            acknowledge_before_commit,
            promise_before_commit,
            position_not_stored,
            batch_taken_twice,
            credit_on_processing,
            version_cut_one_microsecond_off,
            relay_forgets_a_reader,
        )
    }
    | PULLING
    | CARRYING
    | {name: globals()[name] for name in MOVING}
)


#: Storms pass sooner, if nothing is wrong.
LIMIT_S = 60.0


#: What shows only when a process ends between two things that it does at once: its storms kill more often.
BETWEEN_TWO_ACTIONS = frozenset({"asked_before_commit"})


def storm_for(name: str, seed: int) -> Storm:
    """The storm of a seed that may find a mutation."""
    carries = name in CARRYING or name in MOVING
    drawn = random_storm(seed, pulls=name in PULLING, carries=carries, strategies=MOVING.get(name, ("naive",)))
    if name in BETWEEN_TWO_ACTIONS:
        return replace(drawn, faults=replace(drawn.faults, kills=max(drawn.faults.kills, 3)))
    return drawn


def is_caught(name: str, seed: int) -> bool:
    """Whether a storm of a seed finds out that the core is wrong in this way."""
    with MUTATIONS[name]():  # type: ignore[attr-defined]
        try:
            run_storm_for(name, seed)
        except Exception:  # whatever it is: results, promises, numbers, no progress
            return True
    return False


def run_storm_for(name: str, seed: int) -> None:
    """Run the storm that may find a mutation, which passes unless something is wrong."""
    with pytest.MonkeyPatch.context() as patch:
        if name in BETWEEN_TWO_ACTIONS:
            patch.setattr(world, "KILLED_WHILE_WRITING", 0.2)
        run_storm(storm_for(name, seed), LIMIT_S)
