"""Events flow through a plan, and everything that is sent is counted.

A plan has no circles, so operators are run one after the other, each on whole columns: which events of each input
reach its site, and when (`protocol.py`); what situ's own operator makes of exactly these; when it has detected that.

- A pushed event arrives one way after it is available: after it occurred, or was detected.
- A pulled one leaves when it is available and the request is there, which takes a way, too. The request leaves when all
  events of a combination that opens the window have arrived.
- A complex event is detected when the last of the events that it is made of has arrived, or when its own time has come,
  if that is later (an aggregation, an absence). How long an operator must wait until it is certain that nothing is
  under way any more is its enlarged window (PaNORAMA, section 6), not part of this.

At one site an event is sent once, for all readers there. If an operator that stands later in the plan asks for an event
before an earlier one does, the earlier one counts it as arrived only when it has asked itself. Complex events and
numbers of messages do not depend on that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from situ.core.errors import InputError, did_you_mean
from situ.core.functions import Functions
from situ.core.functions import default as default_functions
from situ.core.time import END
from situ.graph.operators import OperatorGraph
from situ.kernel.arrays import I64
from situ.kernel.batch import EXTENT, Batch, Calls, as_timestamps
from situ.kernel.compile import compile_operator
from situ.kernel.operator import Context, RunningOperator, contexts_of
from situ.lab.fresh_operator import fresh_operator
from situ.lab.panorama.simulation.events import Occurred, SimulatedEvents, latest_of_origins, numbered, observed
from situ.placement.evaluate import latencies, sets_of_steps
from situ.placement.plan import Placed
from situ.placement.problem import PlacementError, PlannedOperator, Problem
from situ.runtime.sites.protocol import NO_REQUESTS, Requests, Windows, joined, known_ns, pull_windows, requests
from situ.runtime.sites.pulled_operator import pulled_shape
from situ.runtime.sites.selections import Filter, filter_of, passes


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent of one event type to one site; `arrived_ns` by the number of the event, END if it was not sent.

    `cost` is the sum of messages x hops (or prices), `asking_cost` that of one request to each source of the type.
    """

    event: str
    to: int
    arrived_ns: I64
    cost: float
    requests: Requests = NO_REQUESTS
    asking_cost: float = 0.0

    @property
    def messages(self) -> int:
        return int(np.count_nonzero(self.arrived_ns != END))


@dataclass(frozen=True, slots=True)
class SimulationRun:
    """What a simulation counted.

    `complex_events` are those of all operators, and `detected_ns` says when each was detected. `latency_ns` is of the
    outputs: from a complex event's own time to its arrival at the root. `buffered_ns`: how long, for each event type
    that is pulled, a time buffer must keep events. `enlarged_window_ns`: for how long an operator must keep events,
    that is its window and the plan's latency up to it.
    """

    sent: tuple[Sent, ...]
    complex_events: dict[str, pa.Table]
    detected_ns: dict[str, I64]
    latency_ns: dict[str, I64]
    buffered_ns: dict[str, int]
    enlarged_window_ns: dict[str, int]

    @property
    def data_cost(self) -> float:
        """Messages x hops of events, results to the root included."""
        return sum(sent.cost for sent in self.sent)

    @property
    def request_cost(self) -> float:
        """Messages x hops of requests, extensions apart."""
        return sum(sent.requests.starts * sent.asking_cost for sent in self.sent)

    @property
    def extension_cost(self) -> float:
        return sum(sent.requests.extensions * sent.asking_cost for sent in self.sent)

    @property
    def growth_cost(self) -> float:
        """What requests cost if one is sent whenever more is needed than was asked for, as sites do."""
        return sum(sent.requests.growths * sent.asking_cost for sent in self.sent)

    @property
    def episode_cost(self) -> float:
        """What requests would cost if one were enough for each time without a gap that is asked for."""
        return sum(sent.requests.episodes * sent.asking_cost for sent in self.sent)


def simulate(
    problem: Problem,
    graph: OperatorGraph,
    placed: Sequence[Placed],
    events: Mapping[str, Occurred],
    functions: Functions = default_functions,
) -> SimulationRun:
    """Run a plan on events. Complex events are those of the embedded engine, whatever the plan.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> from situ.network.network import Link, Network, Site
    >>> from situ.network.statistics import Statistics
    >>> from situ.placement.coverage import Coverage
    >>> from situ.placement.from_graph import problem_of
    >>> graph = resolve(parse('''
    ...     stream Alarm(ts int) time ts in s
    ...     stream Reading(ts int) time ts in s
    ...     subscribe Cause detect Reading as r then each Alarm as a within 2 s assign read = r.ts, alarm = a.ts
    ... '''))
    >>> network = Network((Site("edge"), Site("hub")), (Link("edge", "hub", latency_ms=5),))
    >>> rates = Statistics({"Alarm": {"hub": 0.1}, "Reading": {"edge": 1.0}})
    >>> problem = problem_of(graph, network, rates, Coverage(), root="hub")
    >>> edge, hub = network.number("edge"), network.number("hub")
    >>> readings = Occurred(pa.table({"ts": range(20)}), np.full(20, edge))
    >>> alarms = Occurred(pa.table({"ts": [10]}), np.array([hub]))
    >>> run = simulate(problem, graph, [Placed(hub, ((1,), (0,)))], {"Alarm": alarms, "Reading": readings})
    >>> sorted(run.complex_events["Cause"].column("read").to_pylist()), run.data_cost, run.request_cost
    ([8, 9], 2.0, 1.0)
    >>> run.latency_ns["Cause"].tolist()  # a request there, a reading back
    [10000000, 10000000]
    """
    simulation = _Simulation(problem, graph, tuple(placed), functions)
    simulation.observe(events)
    for reader in simulation.readers:
        simulation.run(reader)
    return simulation.result()


@dataclass(frozen=True, slots=True)
class _OperatorAtSite:
    """An operator at its site, with its filters by event type."""

    planned: PlannedOperator
    placed: Placed
    context: Context
    operator: RunningOperator
    filters: Mapping[str, Filter]


@dataclass
class _Simulation:
    problem: Problem
    graph: OperatorGraph
    placed: tuple[Placed, ...]
    functions: Functions
    readers: list[_OperatorAtSite] = field(init=False)
    events: dict[str, SimulatedEvents] = field(init=False, default_factory=dict)
    complex_events: dict[str, pa.Table] = field(init=False, default_factory=dict)
    buffered_ns: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        contexts = contexts_of(self.graph, self.functions, provenance=True, selections=False)
        self.readers = [
            _reader(planned, where, contexts[planned.name])
            for planned, where in zip(self.problem.operators, self.placed, strict=True)
        ]
        self._pushed: defaultdict[tuple[int, str], set[Filter]] = defaultdict(set)
        for reader in self.readers:
            for number in reader.placed.steps[0]:
                event = reader.planned.inputs[number].event
                self._pushed[reader.placed.site, event].add(reader.filters[event])
        self._arrived: dict[tuple[int, str], I64] = {}
        self._needs: defaultdict[tuple[int, str], dict[Filter, list[Windows]]] = defaultdict(dict)

    # --- events

    def observe(self, given: Mapping[str, Occurred]) -> None:
        streams = [stream.name for stream in self.graph.streams]
        for name in given:
            if name not in streams:
                raise InputError(f"no stream {name!r} in the query", remedy=did_you_mean(name, streams))
        for stream in self.graph.streams:
            if stream.name not in self.problem.sources:
                continue
            if stream.name not in given:
                raise InputError(f"no events of {stream.name}", remedy="Give a table of them, if need be without rows.")
            known = observed(stream, given[stream.name])
            sources = self.problem.sources[stream.name].sites
            elsewhere = known.sites[~np.isin(known.sites, sources)]
            if len(elsewhere):
                raise InputError(
                    f"{stream.name} occurs at site number {elsewhere[0]}, which is not one of its sources",
                    remedy="Give rates for all sites where it occurs.",
                )
            self.events[stream.name] = known

    def _accepted(self, event: str, filter_: Filter) -> npt.NDArray[np.bool_]:
        calls = Calls(functions=self.functions, errors=Counter())
        return passes(filter_, self.events[event].batch, calls)

    def _way_ns(self, event: str, site: int) -> I64:
        """From the site of each event."""
        return self.problem.network.ways_from(site).latency_ns[self.events[event].sites]

    def _arrived_at(self, site: int, event: str) -> I64:
        """When each event arrives at a site, for all that is pushed there and has been pulled so far."""
        if (site, event) not in self._arrived:
            known = self.events[event]
            arrived = np.full(len(known), END)
            for filter_ in self._pushed[site, event]:
                accepted = self._accepted(event, filter_)
                arrived[accepted] = (known.available_ns + self._way_ns(event, site))[accepted]
            self._arrived[site, event] = arrived
        return self._arrived[site, event]

    # --- an operator

    def run(self, reader: _OperatorAtSite) -> None:
        """Deliver its inputs, step by step, and let it make its complex events."""
        site, name = reader.placed.site, reader.planned.name
        rows: dict[str, I64] = {}
        for earlier, step in sets_of_steps(reader.placed):
            for number in step:
                event = reader.planned.inputs[number].event
                needed = self._accepted(event, reader.filters[event])
                if earlier:
                    needed &= self._pull(reader, earlier, number, rows, needed)
                rows[event] = np.flatnonzero(needed)
        inputs = {event: self.events[event].batch.view(some) for event, some in rows.items() if len(some)}
        made = reader.operator.process(inputs, END).events
        made = made.take(np.argsort(made.times, kind="stable"))
        detected = latest_of_origins(made, {event: self._arrived_at(site, event) for event in rows})
        self.complex_events[name] = _table(reader.context, made)
        self.events[name] = SimulatedEvents(numbered(name, made), np.full(len(made), site), detected)

    def _pull(
        self,
        reader: _OperatorAtSite,
        earlier: tuple[int, ...],
        number: int,
        rows: dict[str, I64],
        accepted: npt.NDArray[np.bool_],
    ) -> npt.NDArray[np.bool_]:
        """What of an input falls into pull windows; it arrives, unless it is there already."""
        site, names = reader.placed.site, reader.planned.events
        read = [names[other] for other in earlier]
        windows = pull_windows(
            pulled_shape(reader.context),
            earlier,
            [self.events[other].batch.times[rows[other]] for other in read],
            [self._arrived_at(site, other)[rows[other]] for other in read],
            number,
        )
        event = names[number]
        known, events = known_ns(windows, self.events[event].batch.times), self.events[event]
        asked = np.flatnonzero(accepted & (known != END))
        way = self._way_ns(event, site)[asked]
        leaves = np.maximum(events.available_ns[asked], known[asked] + way)
        arrived = self._arrived_at(site, event)
        first = leaves + way < arrived[asked]
        arrived[asked[first]] = (leaves + way)[first]
        waited = int((leaves - events.available_ns[asked])[first].max(initial=0))
        self.buffered_ns[event] = max(self.buffered_ns.get(event, 0), waited)
        self._needs[site, event].setdefault(reader.filters[event], []).append(windows)
        return known != END

    # --- what was counted

    def result(self) -> SimulationRun:
        sent = [self._sent(event, site) for site, event in self._arrived]
        results, detected = {}, {name: self.events[name].available_ns for name in self.complex_events}
        for number in self.problem.outputs:
            name = self.problem.operators[number].name
            arrived = detected[name] + self._way_ns(name, self.problem.root)
            results[name] = arrived - self.events[name].batch.times * 1000
            cost = float(self.problem.costs_from(self.problem.root)[self.events[name].sites].sum())
            sent.append(Sent(name, self.problem.root, arrived, cost))
        return SimulationRun(tuple(sent), self.complex_events, detected, results, self.buffered_ns, self._enlarged_ns())

    def _sent(self, event: str, site: int) -> Sent:
        costs, arrived = self.problem.costs_from(site), self._arrived[site, event]
        cost = float(costs[self.events[event].sites][arrived != END].sum())
        number = self.problem.number.get(event)
        sources = self.problem.sources[event].sites if number is None else np.array([self.placed[number].site])
        lead_ns = int(self.problem.network.ways_from(site).latency_ns[sources].max())
        asked = (
            requests(joined(needs), lead_ns)
            for filter_, needs in self._needs[site, event].items()
            if filter_ not in self._pushed[site, event]
        )
        return Sent(event, site, arrived, cost, sum(asked, NO_REQUESTS), float(costs[sources].sum()))

    def _enlarged_ns(self) -> dict[str, int]:
        until = latencies(self.problem, self.placed)
        return {
            reader.planned.name: round(reader.planned.window_s * 1e9) + latency_ns
            for reader, latency_ns in zip(self.readers, until, strict=True)
        }


def _reader(planned: PlannedOperator, placed: Placed, context: Context) -> _OperatorAtSite:
    given = sorted(number for step in placed.steps for number in step)
    if given != list(range(len(planned.inputs))) or not all(placed.steps):
        raise PlacementError(
            f"the steps {placed.steps} of {planned.name} do not take each of its {len(planned.inputs)} inputs once",
            remedy="Name every input in one step.",
        )
    if len(placed.steps) > 1 and not planned.can_pull:
        raise PlacementError(
            f"{planned.name} cannot pull, but its plan has {len(placed.steps)} steps",
            remedy="Only a SEQ or AND of different event types can; give others one step.",
        )
    program = compile_operator(context)
    filters = {event: filter_of(program, event) for event in planned.events}
    return _OperatorAtSite(planned, placed, context, fresh_operator(context), filters)


def _table(context: Context, batch: Batch) -> pa.Table:
    """Complex events as the embedded engine gives them."""
    columns = {name: batch.columns[name] for name in context.operator.schema.names}
    extent = {name: batch.columns[name] for name in EXTENT if context.located}
    return pa.table(columns | {"_time": as_timestamps(batch.times)} | extent)
