"""The embedded host: operators of a plan on a `Flow`, in this process."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from situ.core.errors import SituError, StateError
from situ.core.memory import MemoryBudget
from situ.core.time import BEGINNING, END
from situ.core.types import TIMESTAMP_ARROW, to_arrow
from situ.flow.flow import Flow, as_one
from situ.flow.lateness import judge_lateness, late_table
from situ.flow.port import Port
from situ.graph.operators import Operator, OperatorGraph
from situ.graph.patterns import steps_of
from situ.graph.query import Aggregation, Join, Rule, Stream
from situ.graph.rule_properties import longest_us
from situ.io.rows.ahead import reject_ahead, with_default_ahead
from situ.io.rows.conform import REJECTED, Conformed
from situ.kernel.batch import EXTENT, Batch, Calls, as_timestamps, concat
from situ.kernel.compile import RuleProgram
from situ.kernel.state.checks import damage_is_told, numbers, require_times
from situ.kernel.state.snapshot import pack, unpack
from situ.runtime.sites.compiled_plan import CompiledPlan, compiled_plan
from situ.runtime.sites.contents import Contents
from situ.runtime.sites.finishing import FinishingOperators
from situ.runtime.sites.host import Admitted, MadeRows
from situ.runtime.sites.logs import PullState
from situ.runtime.sites.messages import LogKind
from situ.runtime.sites.moving_states import ArrivingState, farthest, no_rows, state_rows, step_rows
from situ.runtime.sites.plan_logs import PlanLogs
from situ.runtime.sites.pulled_input import PulledInput
from situ.runtime.sites.pulled_operator import CoveredTime, PulledOperator, steps_in_numbers
from situ.runtime.sites.ranges import Ranges
from situ.runtime.sites.rows import TIME, times_us
from situ.runtime.sites.selections import Filter, Selection

#: Somebody who waits for time to pass wants to hear of it as often as this part of what he waits for, and not more
#: often than every so many microseconds.
_PACE, _LEAST_PACE_US = 10, 10_000
_LATEST, _REQUESTS, _ENDING, _ARRIVING = "latest", "requests", "ending", "arriving"


@dataclass
class EmbeddedHost:
    """The operators of a plan at one site."""

    driven: ClassVar[bool] = False

    compiled: CompiledPlan
    site: str
    memory: MemoryBudget = field(default_factory=MemoryBudget.of_process)

    def __post_init__(self) -> None:
        plan, graph = self.compiled.plan, self.compiled.graph
        self._streams = {stream.name: stream for stream in graph.streams}
        here = [o for o in graph.operators if plan.operators[o.name].site == self.site]
        plain = [o for o in here if o.name not in self.compiled.pulling]
        self._contents: dict[str, Contents] = {}
        self._pulled_inputs: dict[str, PulledInput] = {}
        self._pulling = [self._pulled_operator(o) for o in here if o.name in self.compiled.pulling]
        names = {operator.name for operator in plain}
        cuts = self.compiled.cuts
        #: By type that is made here and, before its cut, elsewhere, too: how far it has come there.
        self._elsewhere = dict.fromkeys((name for name in names if name in cuts), BEGINNING)
        read_here = [type_ for operator in plain for type_ in operator.inputs]
        outside = dict.fromkeys(t for t in read_here if t not in names or t in self._elsewhere)
        self._ports = {
            type_: Port(type_, tuple(o.name for o in plain if type_ in o.inputs), self._streams.get(type_))
            for type_ in outside
        }
        spans = {name: (cuts[name].cut_us, END) for name in names if name in cuts}
        programs = self.compiled.programs.among(operator.name for operator in plain).owning(spans)
        self.flow = Flow(programs, list(self._ports.values()), memory=self.memory)
        self._readers = {n: self.compiled.reader(s) for n, s in self._streams.items()}
        #: By operator here and type from outside that it is made of, how long after such an event it may wait for time.
        self.waits_us = _waits(graph, programs, outside)
        self._made_here = {operator.name for operator in here}
        since = BEGINNING if plan.silent_since_us is None else plan.silent_since_us
        self._latest_us = dict.fromkeys(outside, since)
        contexts = self.compiled.programs.contexts
        finishing = {name: contexts[name] for name in cuts if plan.operators[name].finished_at == self.site}
        self._finishing = FinishingOperators(finishing, cuts, self._streams, self.memory)
        #: The states of operators that are carried on to here, until all of them have come.
        self._arriving: dict[str, ArrivingState] = {}
        read = [type_ for operator in here for type_ in operator.inputs] + self._finishing.inputs
        self._watermarks: dict[str, int] = dict.fromkeys([*outside, *read], BEGINNING)
        self._state_bytes = Counter[str]()
        #: When the version ends: operators that are carried on and still here, those whose state was told already and
        #: up to where inputs had come then, those that have left, and the types of which everything has come.
        self._until_us = END
        self._carried: set[str] = set()
        self._told: dict[str, dict[str, int] | None] = {}
        self._left: set[str] = set()
        self._ended: set[str] = set()

    def _pulled_operator(self, operator: Operator) -> PulledOperator:
        steps = steps_in_numbers(operator, self.compiled.plan.operators[operator.name].steps)
        pulling = PulledOperator(
            self.compiled.pulling[operator.name], steps, frozenset(), self._streams, Counter(), self.memory
        )
        ranged = []
        for number in (number for step in steps[1:] for number in step):
            event = pulling.events[number]
            selection = self.compiled.selections[event][self.site]
            logs = [log for log in self.compiled.logs.read_at(self.site) if log.type == event]
            if logs and pulling.filters[event] in selection.pulled:
                ranged.append(number)
                self._pulled_inputs.setdefault(event, PulledInput(selection.pulled))
        return replace(pulling, ranged=frozenset(ranged))

    def stream(self, name: str) -> Stream:
        return self._streams[name]

    def logs(self) -> PlanLogs:
        return self.compiled.logs

    def schema(self, kind: LogKind, event_type: str) -> pa.Schema:
        return self.compiled.schemas[kind, event_type]

    # ---- rows of sources

    def admit(self, stream: str, conformed: Conformed, latest_us: int, promise_us: int, now_us: int) -> Admitted:
        declared, place = self._streams[stream], f"rows of {stream}"
        if stream in self.compiled.plan.live:
            declared = with_default_ahead(declared)
        if declared.ahead_us is not None and not self.compiled.plan.bounded:
            conformed = reject_ahead(conformed, declared, now_us, place)
        late, limits = judge_lateness(conformed.times, declared, latest_us, promise_us)
        events = conformed.events.append_column(TIME, as_timestamps(conformed.times))
        times, late_rows = conformed.times, _no_rows(self.schema("late", stream))
        if late.any():
            late_rows = _one_batch(late_table(conformed.events, late, limits - times), late_rows.schema)
            events, times = events.filter(pa.array(~late)), times[~late]
        rejected = _one_batch(conformed.rejected, REJECTED) if conformed.rejected.num_rows else _no_rows(REJECTED)
        columns = [*((a.name, to_arrow(a.type)) for a in declared.attributes), (TIME, TIMESTAMP_ARROW)]
        admitted = _one_batch(events, pa.schema(columns))
        return Admitted(admitted, late_rows, rejected, int(times.max(initial=latest_us)))

    # ---- what other sites are sent

    def choose(
        self,
        event_type: str,
        rows: pa.RecordBatch,
        selection: Selection,
        asked: Sequence[Ranges],
        unless: Sequence[Ranges] | None = None,
    ) -> pa.RecordBatch:
        batch = self._batch(event_type, rows)
        chosen = selection.chosen(batch, asked, self._calls)
        if unless is not None:
            chosen &= ~selection.chosen(batch, unless, self._calls)
        return _those(rows, chosen)

    def choose_each(
        self, event_type: str, rows: pa.RecordBatch, selections: Sequence[tuple[Selection, Sequence[Ranges]]]
    ) -> list[pa.RecordBatch]:
        batch = self._batch(event_type, rows)
        if event_type not in self._contents:
            attributes = dict(self.compiled.graph.schemas[event_type].attributes)
            self._contents[event_type] = Contents(attributes, (selection for selection, _ in selections))
        passing = self._contents[event_type].passing(batch, self._calls)
        return [_those(rows, each.chosen(batch, asked, self._calls, passing)) for each, asked in selections]

    @property
    def _calls(self) -> Calls:
        return Calls(functions=self.compiled.functions, errors=self.flow.failed_calls)

    def pulled(self) -> dict[str, PullState]:
        return {type_: requests.state for type_, requests in self._pulled_inputs.items()}

    # ---- a step

    def step(
        self,
        inputs: Sequence[tuple[str, pa.RecordBatch]],
        watermarks: Mapping[str, int],
        answered: Mapping[str, int],
    ) -> list[MadeRows]:
        for type_ in self._elsewhere.keys() & watermarks.keys():
            self._elsewhere[type_] = max(self._elsewhere[type_], watermarks[type_])
        left = {type_: END for type_ in self._left if self._elsewhere.get(type_, BEGINNING) == END}
        self._pass({type_: low for type_, low in watermarks.items() if type_ not in self._elsewhere} | left)
        arrived: dict[str, list[Batch]] = defaultdict(list)
        for type_, rows in inputs:
            if rows.num_rows:
                self._hand_on(type_, self._batch(type_, rows), arrived)
        made: dict[tuple[LogKind, str], list[MadeRows]] = defaultdict(list)
        self._advance(arrived, made)
        self._tell_states(arrived, made)
        self._let_leave(arrived, made)
        self._finish(arrived, made)
        ranges = {type_: requests.answered(answered[type_]) for type_, requests in self._pulled_inputs.items()}
        for operator in self._pulling:  # inputs come first
            events = operator.step(
                {type_: concat(arrived[type_]) for type_ in operator.events if arrived[type_]},
                {type_: self._covered(operator, type_, ranges) for type_ in operator.events},
            )
            self._watermarks[operator.name] = operator.low_us
            self._hand_on(operator.name, events, arrived)
            rows = self.compiled.rows("events", operator.name, events)
            made["events", operator.name].append(MadeRows("events", operator.name, rows, operator.low_us))
            if operator.name in self._ports:
                self._advance(arrived, made)
        self._ask()
        return [_joined(parts) for parts in made.values()]

    def _hand_on(self, type_: str, batch: Batch, arrived: dict[str, list[Batch]]) -> None:
        if not len(batch):
            return
        arrived[type_].append(batch)
        if type_ in self._ports:
            self._latest_us[type_] = max(self._latest_us[type_], batch.latest)
            self.flow.add(self._ports[type_], batch)

    def _advance(self, arrived: dict[str, list[Batch]], made: dict[tuple[LogKind, str], list[MadeRows]]) -> None:
        """Let operators that do not pull read what has come."""
        if not self.flow.nodes:
            return
        lows = {type_: self._watermarks[type_] for type_ in (*self._ports, *self._left)}
        lows |= {type_: low for type_, low in self._elsewhere.items() if type_ not in self._left}
        produced = self.flow.advance(END, lows)
        for name, node in self.flow.nodes.items():
            # Rules of one shape are known by what they find; how far they are, all of them say.
            events, timed_out = (produced[name].events, produced[name].timed_out) if name in produced else (None, None)
            low = node.low_watermark
            self._watermarks[name] = min(low, self._elsewhere.get(name, END))
            arrived[name] += [events] if events is not None and len(events) else []
            made["events", name].append(MadeRows("events", name, self.compiled.rows("events", name, events), low))
            if self.flow.operator(name).rule.timed_out:
                rows = self.compiled.rows("timed out", name, timed_out)
                made["timed out", name].append(MadeRows("timed out", name, rows, low))

    def _covered(
        self, operator: PulledOperator, type_: str, ranges: Mapping[str, Mapping[Filter, Ranges]]
    ) -> CoveredTime:
        pulled = operator.pulled
        return CoveredTime(self._watermarks[type_], ranges[type_][pulled[type_]] if type_ in pulled else None)

    def _ask(self) -> None:
        """Ask other sites for what operators need of pulled types."""
        for type_, requests in self._pulled_inputs.items():
            readers = [operator for operator in self._pulling if type_ in operator.pulled]
            needed: dict[Filter, list[Ranges]] = defaultdict(list)
            for operator in readers:
                needed[operator.pulled[type_]].append(operator.needed.get(type_, ()))
            requests.ask(needed, min(operator.forget_us for operator in readers))

    def _batch(self, type_: str, rows: pa.RecordBatch) -> Batch:
        times = times_us(rows)
        columns = {name: rows.column(name) for name in rows.schema.names if name != TIME}
        if type_ in self._readers:
            return self._readers[type_].batch(Conformed(pa.table(columns), times, REJECTED.empty_table()))
        return Batch(times, columns)

    # ---- versions that end

    def receive(self, operator: str, parts: Sequence[tuple[str, bytes]]) -> None:
        if operator not in self._arriving:
            context = self.compiled.programs.contexts[operator]
            self._arriving[operator] = ArrivingState(context, self._streams, self.memory)
        for part, data in parts:
            self._arriving[operator].receive(part, data)

    def begin(self, since_us: int) -> None:
        if not self._arriving:
            return
        for type_, low in farthest([state.lows for state in self._arriving.values()], since_us).items():
            if type_ in self._watermarks:
                self._watermarks[type_] = max(self._watermarks[type_], low)
        taken = {name: state.taken() for name, state in self._arriving.items()}
        self._arriving.clear()
        with damage_is_told():
            for name in [name for name in taken if name in self._finishing]:
                self._finishing.begin(name, as_one([taken.pop(name)], since_us), since_us)
            if taken:
                self.flow.restore(as_one(taken.values(), since_us), passed=since_us)
        for name in taken:
            for type_ in self.waits_us[name]:  # what waits in its state may be decided by time alone
                self._latest_us[type_] = max(self._latest_us[type_], since_us - 1)

    def end_at(self, until_us: int, carried: Mapping[str, bool]) -> None:
        if self._until_us == END:
            self._until_us, self._carried = until_us, {*carried}
            self._told = {name: None for name, is_told in carried.items() if is_told}

    def _is_awaited(self, type_: str) -> bool:
        """Whether an operator reads a type that is carried on, and for which time must not end."""
        return any(type_ in self.flow.operator(name).inputs for name in self._carried)

    def _pass(self, watermarks: Mapping[str, int]) -> None:
        """Let time pass, by type. For operators that are carried on, that of a stream passes up to the version's end;
        that of complex events at least as far as they lag behind streams. What is after it goes along."""
        for type_, low in watermarks.items():
            if low == END:
                self._ended.add(type_)
                if self._is_awaited(type_):
                    lag_us = self.compiled.lags_us[type_]
                    low = BEGINNING if lag_us is None else self._until_us - lag_us
            self._watermarks[type_] = max(self._watermarks[type_], low)

    def _lows(self, name: str) -> dict[str, int]:
        """How far the inputs of an operator here have come."""
        return {type_: self._watermarks[type_] for type_ in self.flow.operator(name).inputs}

    def _tell_states(self, arrived: dict[str, list[Batch]], made: dict[tuple[LogKind, str], list[MadeRows]]) -> None:
        """Tell the states of operators that go on while these move; then, step by step, what they have read."""
        copies = self.flow.copied([name for name, told in self._told.items() if told is None])
        for name, told in self._told.items():
            lows, context = self._lows(name), self.compiled.programs.contexts[name]
            if told is None:
                rows = state_rows(copies[name], lows)
            else:
                events = {type_: arrived[type_] for type_ in lows if arrived[type_]}
                if not events and lows == told:
                    continue
                for batch in (b for type_ in events if context.inputs[type_].located for b in events[type_]):
                    batch.require(EXTENT)
                rows = step_rows(events, lows)
            self._told[name] = lows
            made["state", name].append(MadeRows("state", name, rows, BEGINNING))

    def _finish(self, arrived: dict[str, list[Batch]], made: dict[tuple[LogKind, str], list[MadeRows]]) -> None:
        """Let operators go on that finish here what began before their cuts."""
        lows = self._watermarks | {type_: END for type_ in self._ended if self._elsewhere.get(type_, END) == END}
        for name, (produced, low) in self._finishing.step(arrived, lows).items():
            rows = self.compiled.rows("events", name, None if produced is None else produced.events)
            made["events", name].append(MadeRows("events", name, rows, low))
            if self.compiled.programs.contexts[name].operator.rule.timed_out:
                rows = self.compiled.rows("timed out", name, None if produced is None else produced.timed_out)
                made["timed out", name].append(MadeRows("timed out", name, rows, low))

    def _let_leave(self, arrived: dict[str, list[Batch]], made: dict[tuple[LogKind, str], list[MadeRows]]) -> None:
        """Take out operators that are carried on, and have read all of their inputs."""
        leaving = False
        for name in self.compiled.plan.operators if self._carried else ():
            if name in self._carried and self._has_read_all(name):
                leaving = True
                made["events", name].append(MadeRows("events", name, self.compiled.rows("events", name, None), END))
                if self.flow.operator(name).rule.timed_out:
                    rows = self.compiled.rows("timed out", name, None)
                    made["timed out", name].append(MadeRows("timed out", name, rows, END))
                made["state", name].append(MadeRows("state", name, self._last_of_state(name), END))
        if leaving:
            self._pass({type_: END for type_ in self._ended if self._elsewhere.get(type_, END) == END})
            self._advance(arrived, made)

    def _has_read_all(self, name: str) -> bool:
        """Whether all of its inputs have come that the version gives to an operator."""
        types = self.flow.operator(name).inputs
        return all(type_ in self._ended and self._elsewhere.get(type_, END) == END for type_ in types)

    def _last_of_state(self, name: str) -> pa.RecordBatch:
        """Take out an operator: its state, if it was not told already."""
        lows, tables = self._lows(name), self.flow.take(name)
        was_told = self._told.pop(name, None) is not None
        self._forget(name)
        return no_rows() if was_told else state_rows(tables, lows)

    def _forget(self, name: str) -> None:
        """An operator has left: all of its events have been made here."""
        self._carried.discard(name)
        self._left.add(name)
        self._ended.add(name)
        del self.waits_us[name]

    # ---- waiting for time

    def undecided(self, asked: Mapping[str, tuple[int, int]], nudged: Mapping[str, int]) -> dict[str, tuple[int, int]]:
        wanted = dict(asked)
        for operator in self._pulling:
            for type_ in operator.pulled:
                self._want(wanted, operator.name, nudged.get(type_, BEGINNING), END)
        while True:  # who waits for an operator here waits for what it reads
            needed = self._undecided_by_flow(wanted)
            for operator in self._pulling:
                until_us, pace_us = wanted.get(operator.name, _NOTHING)
                for type_ in operator.events:
                    self._want(needed, type_, operator.undecided.get(type_, BEGINNING), END)
                    if type_ not in operator.pulled:  # the answers to requests come by themselves
                        self._want(needed, type_, until_us, pace_us)
            for type_, until_us in self._finishing.wanted(asked, self._watermarks).items():
                self._want(needed, type_, until_us, _LEAST_PACE_US)
            more = {t: need for t, need in needed.items() if t in self._made_here and t not in wanted}
            if not more:
                return {t: need for t, need in needed.items() if t not in self._made_here or t in self._elsewhere}
            wanted |= more

    def _undecided_by_flow(self, asked: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        needed: dict[str, tuple[int, int]] = {}
        for operator, waits in self.waits_us.items():
            until = max((self._latest_us[t] + w + 1 for t, w in waits.items() if self._latest_us[t] != BEGINNING),
                        default=BEGINNING)  # fmt: skip
            longest_us = max(waits.values(), default=0)
            wanted, pace = asked.get(operator, _NOTHING)
            if wanted not in (BEGINNING, END):
                # The operator's own promise may lag behind that of its inputs by as much as it waits.
                wanted += longest_us * (min(map(self._watermarks.__getitem__, waits)) >= wanted)
            for type_ in waits:
                self._want(needed, type_, until, max(longest_us // _PACE, _LEAST_PACE_US) if longest_us else END)
                self._want(needed, type_, wanted, pace)
        return needed

    def _want(self, wanted: dict[str, tuple[int, int]], type_: str, until_us: int, pace_us: int) -> None:
        """Somebody waits for the time of a type. Of several, who waits for the nearest time is told first, and then
        the others: at the pace of the nearest, they would be told too often."""
        if self._watermarks.get(type_, BEGINNING) < until_us < END:
            wanted[type_] = min(wanted.get(type_, (END, END)), (until_us, pace_us))

    def passed_us(self, event_type: str) -> int:
        if event_type in self._pulled_inputs:
            return END  # only what is needed was asked for
        # What has ended holds nothing back any more, even where its time has not come to an end.
        lows = self._watermarks | dict.fromkeys(self._ended, END)
        limits = [min(map(lows.__getitem__, w)) for w in self.waits_us.values() if event_type in w]
        limits += [operator.low_us for operator in self._pulling if event_type in operator.events]
        limits += self._finishing.passed_us(event_type, lows)
        return max(limits, default=END)

    def count(self, figures: Mapping[str, int]) -> None:
        raise StateError("operators that run here are counted here")

    def figures(self) -> dict[str, int]:
        failed = {f"failed calls of {name}": calls for name, calls in self.flow.failed_calls.items()}
        return {"duplicates": self.flow.duplicates} | failed

    # ---- state

    def state_bytes(self) -> dict[str, int]:
        return dict(self._state_bytes)

    def _times(self) -> dict[str, pa.Table]:
        types = list(self._watermarks)
        table = pa.table(
            {
                "type": pa.array(types, pa.string()),
                "time": pa.array([self._latest_us.get(type_, BEGINNING) for type_ in types], pa.int64()),
                "low": pa.array([self._watermarks[type_] for type_ in types], pa.int64()),
            }
        )
        return {_LATEST: table}

    def _restore_times(self, tables: Mapping[str, pa.Table]) -> None:
        for name, into in (("time", self._latest_us), ("low", self._watermarks)):
            times = numbers(tables[_LATEST].column(name), np.int64, "times")
            require_times(times, "times")
            into.update(zip(tables[_LATEST].column("type").to_pylist(), times.tolist(), strict=True))

    def snapshot(self) -> bytes:
        ending = {
            "until": self._until_us,
            "carried": sorted(self._carried),
            "left": sorted(self._left),
            "ended": sorted(self._ended),
            "told": self._told,
            "elsewhere": self._elsewhere,
        }
        state = self.flow.snapshot()
        self._state_bytes = Counter[str]()
        for key, table in state.items():
            kind, _, rest = key.partition("/")
            if kind == "operator":
                self._state_bytes[rest.rpartition("/")[0]] += table.nbytes
        tables = state | self._times() | {_ENDING: pa.table({"ending": [json.dumps(ending)]})}
        arriving = [state.snapshot() for state in self._arriving.values()]
        tables[_ARRIVING] = pa.table({"name": pa.array(list(self._arriving), pa.string()),
                                      "state": pa.array(arriving, pa.large_binary())})  # fmt: skip
        tables |= self._finishing.snapshot()
        for operator in self._pulling:
            tables |= operator.snapshot()
        if self._pulled_inputs:
            requests = {type_: requests.to_json() for type_, requests in self._pulled_inputs.items()}
            tables[_REQUESTS] = pa.table({"type": list(requests), "requests": list(requests.values())})
        return pack(tables)

    def restore(self, snapshot: bytes) -> None:
        tables = unpack(snapshot)
        with damage_is_told():
            self._restore_times(tables)
            del tables[_LATEST]
            ending = json.loads(tables.pop(_ENDING).column("ending")[0].as_py())
            for name in ending["left"]:
                self.flow.take(name)
                self._forget(name)
            self._until_us, self._carried, self._ended = ending["until"], {*ending["carried"]}, {*ending["ended"]}
            self._told, self._elsewhere = ending["told"], ending["elsewhere"]
            for row in tables.pop(_ARRIVING).to_pylist():
                self.receive(row["name"], ())
                self._arriving[row["name"]].restore(row["state"])
            self._finishing.restore(tables)
            for operator in self._pulling:
                operator.restore(tables)
            if self._pulled_inputs:
                for row in tables.pop(_REQUESTS).to_pylist():
                    self._pulled_inputs[row["type"]].restore(row["requests"])
            self.flow.restore(tables)


def make_embedded_host(plan: str, site: str) -> EmbeddedHost:
    """The host of a plan, given as JSON, at a site; SituError says why it cannot run there."""
    compiled = compiled_plan(plan)
    if site not in compiled.plan.sites:
        raise SituError(f"the plan has nothing to do for site {site!r}")
    return EmbeddedHost(compiled, site)


#: Somebody who waits for nothing.
_NOTHING = (BEGINNING, END)


def _those(rows: pa.RecordBatch, chosen: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    return rows if chosen.all() else rows.filter(pa.array(chosen))


def _joined(parts: Sequence[MadeRows]) -> MadeRows:
    """What was made of one type in one step."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.Table.from_batches([part.rows for part in parts]).combine_chunks()
    of_one = rows.to_batches()[0] if rows.num_rows else parts[0].rows
    return replace(parts[-1], rows=of_one)


@cache
def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """No rows of a schema, made once: most pieces have nothing late and nothing rejected."""
    return pa.RecordBatch.from_arrays([pa.array([], type_) for type_ in schema.types], schema=schema)


def _one_batch(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a schema as one record batch; integers of other widths become those of the schema."""
    columns = [table.column(name) for name in schema.names]
    arrays = [
        (column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)]))
        for column in columns
    ]
    typed = [
        array if array.type == type_ else array.cast(type_) for array, type_ in zip(arrays, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(typed, schema=schema)


def _waits(
    graph: OperatorGraph, here: Mapping[str, RuleProgram], outside: Mapping[str, None]
) -> dict[str, dict[str, int]]:
    waits: dict[str, dict[str, int]] = {}
    for operator in graph.operators:
        if operator.name in here:
            own = _decided_after_us(operator.rule) if here[operator.name].waits_for_time else 0
            waits[operator.name] = {}
            for type_ in operator.inputs:
                before = ({type_: 0} if type_ in outside else {}) | waits.get(type_, {})
                for source, wait in before.items():
                    waits[operator.name][source] = max(waits[operator.name].get(source, 0), wait + own)
    return waits


def _decided_after_us(rule: Rule) -> int:
    """How long after an event the passing of time alone may still decide something about it."""
    if isinstance(rule.kind, Aggregation | Join):
        window = rule.kind.window
        return window.over + window.every if window.unit == "time" else 0
    silent = [sum(step.silence_us or 0 for step in steps_of(case.detect)) for case in rule.cases]
    return max(longest_us(case) or silence for case, silence in zip(rule.cases, silent, strict=True))
