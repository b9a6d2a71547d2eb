"""What runs the operators that a plan puts at a site, whatever they run on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from situ.graph.query import Stream
from situ.io.rows.conform import Conformed
from situ.runtime.sites.logs import PullState
from situ.runtime.sites.messages import LogKind
from situ.runtime.sites.plan_logs import PlanLogs
from situ.runtime.sites.ranges import Ranges
from situ.runtime.sites.selections import Selection

#: The columns of a log of states: which part of one, and its bytes (`moving_states.py`).
PART, STATE = "part", "state"
STATES = pa.schema([(PART, pa.string()), (STATE, pa.large_binary())])


@dataclass(frozen=True, slots=True)
class Admitted:
    """Rows of a source, judged once: events in order of arrival, with all attributes and their times; late and rejected
    rows; and the largest time so far."""

    events: pa.RecordBatch
    late: pa.RecordBatch
    rejected: pa.RecordBatch
    latest_us: int


@dataclass(frozen=True, slots=True)
class MadeRows:
    """What a step made of one type: rows, and the promise that no event before a time will follow. Or the state of an
    operator that is carried on, in pieces, after which nothing follows."""

    kind: LogKind
    type: str
    rows: pa.RecordBatch
    watermark: int


class Host(Protocol):
    """The operators of one version of a plan at one site. It is deterministic: the same steps give the same rows."""

    @property
    def driven(self) -> bool:
        """Whether a query outside of the site runs the operators, and tells what it made batch by batch (`batches.py`).
        A step then makes nothing, and is not done again after a restart: it only tells how far inputs have come."""

    def stream(self, name: str) -> Stream:
        """What the query says of a stream."""

    def logs(self) -> PlanLogs:
        """The logs of the plan, at all sites."""

    def schema(self, kind: LogKind, event_type: str) -> pa.Schema:
        """The columns that a log of the plan has."""

    def admit(self, stream: str, conformed: Conformed, latest_us: int, promise_us: int, now_us: int) -> Admitted:
        """Judge rows of a source of which the largest time so far was `latest_us`; events before `promise_us` are
        late, and those too far ahead of `now_us` no events."""

    def choose(
        self,
        event_type: str,
        rows: pa.RecordBatch,
        selection: Selection,
        asked: Sequence[Ranges],
        unless: Sequence[Ranges] | None = None,
    ) -> pa.RecordBatch:
        """The rows of a type that are selected, where these ranges are pulled; `unless`: but for those that are
        selected where those are."""

    def choose_each(
        self, event_type: str, rows: pa.RecordBatch, selections: Sequence[tuple[Selection, Sequence[Ranges]]]
    ) -> list[pa.RecordBatch]:
        """For each selection of a type that sites are sent, always the same ones, the rows that are selected, where
        these ranges are pulled. What several of them ask for is looked for once."""

    def step(
        self,
        inputs: Sequence[tuple[str, pa.RecordBatch]],
        watermarks: Mapping[str, int],
        answered: Mapping[str, int],
    ) -> list[MadeRows]:
        """Read rows of types that are not made here. By type, no event before the watermark will follow; of those that
        are pulled, no such event of the requests up to the one that is `answered`."""

    def receive(self, operator: str, parts: Sequence[tuple[str, bytes]]) -> None:
        """Before the first step: some parts of the state in which the version before leaves an operator."""

    def begin(self, since_us: int) -> None:
        """Before the first step: all states have come, and operators go on with them, at a time. To be told again
        changes nothing."""

    def end_at(self, until_us: int, carried: Mapping[str, bool]) -> None:
        """The version ends at a time, and these operators are carried on. When one of them has been given all of its
        inputs, a step makes its state: time has come to `until_us` for it, and not to its end. Of those that are told
        `True`, the next step makes the state, and steps after it what they read. Others are told that time has ended,
        when nobody needs that it has not. To be told again changes nothing."""

    def pulled(self) -> Mapping[str, PullState]:
        """By type, what operators here pull of it from other sites."""

    def undecided(
        self, asked: Mapping[str, tuple[int, int]], nudged: Mapping[str, int]
    ) -> Mapping[str, tuple[int, int]]:
        """By type that is not made here: up to which time somebody waits for time to pass, and at what pace to hear of
        it is of use. `asked`: the same by operator, of readers elsewhere that wait for its promise. `nudged`: by type
        that is pulled, up to which time its origin keeps much, and would rather forget it."""

    def passed_us(self, event_type: str) -> int:
        """How far time has come for the operator here that has come farthest among those that read a type: whatever of
        the type lies beyond waits for others."""

    def count(self, figures: Mapping[str, int]) -> None:
        """Add what a query outside has counted in a batch to the figures."""

    def figures(self) -> Mapping[str, int]:
        """Copies that `unique` dropped, and calls of users' functions that failed, since the host was made."""

    def state_bytes(self) -> Mapping[str, int]:
        """By operator, the bytes of its state when the last snapshot was made; nothing, if there was none."""

    def snapshot(self) -> bytes:
        """The state of all operators, and what waits for its time."""

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot of the same plan at the same site."""


class HostMaker(Protocol):
    """Makes the host of a plan at a site, or says with a SituError why it cannot run there."""

    def __call__(self, plan: str, site: str) -> Host: ...
