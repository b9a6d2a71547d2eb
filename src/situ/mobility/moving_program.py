"""A moving subscription, compiled: what it reads of which stream, what it asks of single events, and what a state of it
must fit. It holds no events."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from situ.core.functions import Functions
from situ.graph.operators import OperatorGraph
from situ.graph.query import Query, Stream
from situ.kernel.compile import RuleProgram, compile_operator
from situ.kernel.operator import Conditions, contexts_of, tie_attributes
from situ.kernel.state.snapshot import digest
from situ.mobility.moving_query import INTEREST, ORDER, MovingQuery


@dataclass(frozen=True)
class MovingProgram:
    """`programs` are those of its operators, in which an interest is a group key; `streams` those whose events it
    reads."""

    query: MovingQuery
    programs: Mapping[str, RuleProgram]
    streams: Mapping[str, Stream]

    @classmethod
    def of(cls, query: MovingQuery, functions: Functions, provenance: bool = False) -> MovingProgram:
        contexts = contexts_of(query.graph, functions, provenance)
        streams = {name: stream for name, stream in query.streams.items() if name in query.before_us}
        return cls(query, {name: compile_operator(context) for name, context in contexts.items()}, streams)

    def readers(self, stream: str) -> list[RuleProgram]:
        """The programs of the operators that read a stream."""
        return [program for program in self.programs.values() if stream in program.context.inputs]

    def columns_read(self, stream: str, judged: Collection[Conditions] = ()) -> frozenset[str]:
        """The columns of a stream's events that are needed, if some tests have been judged already."""
        if stream not in self.streams:
            return frozenset()
        columns = {*place_of(self.streams[stream])}
        if (unique := self.streams[stream].unique) is not None:
            columns.add(unique)
        for reader in self.readers(stream):
            columns |= reader.columns_read(judged)[stream]
        return frozenset(columns - {INTEREST, ORDER})

    def ties(self, stream: str) -> tuple[str, ...]:
        """The attributes that order a stream's events of equal time."""
        return tie_attributes(self.streams[stream])

    def updates_read(self) -> frozenset[str]:
        """The columns of the stream of consumers that say who is where, who leaves, and what they ask for."""
        read = {self.query.consumer[1], *place_of(self.query.focal), *filter(None, self.thresholds)}
        if self.leaving is not None:
            read |= self.leaving.columns_read()[self.query.focal.name]
        return frozenset(read)

    @property
    def thresholds(self) -> tuple[str | None, str | None]:
        """The attributes by which consumers say the precision and the recall that they ask for."""
        quality = self.query.subscription.quality
        asked = () if quality is None or not self.query.reuses else (quality.precision, quality.recall)
        precision, recall = (value if isinstance(value, str) else None for value in asked or (None, None))
        return precision, recall

    @cached_property
    def leaving(self) -> RuleProgram | None:
        """What `leave when` asks of location updates."""
        rule, focal = self.query.leaving, self.query.focal
        if rule is None:
            return None
        functions = self.programs[self.query.name].context.functions
        graph = OperatorGraph(Query((focal,)), (focal,), (rule,))
        return compile_operator(contexts_of(graph, functions, False)[rule.name])

    @property
    def leaves_if(self) -> Conditions | None:
        """The conditions on a location update with which a consumer leaves."""
        if self.leaving is None:
            return None
        (conditions,) = self.leaving.tests()[self.query.focal.name]
        return conditions

    def tests(self, stream: str) -> tuple[Conditions, ...]:
        """What rules ask of single events of a stream; one of them accepts every event that is needed."""
        asked = self.taken(stream)
        counts_positions = any(reader.counts_positions for reader in self.readers(stream))
        return ((), *(conditions for conditions in asked if conditions)) if counts_positions else asked

    def taken(self, stream: str) -> tuple[Conditions, ...]:
        """What steps ask of single events of a stream: an event that fulfils none of these may be needed, because it
        has a position, but no step takes it."""
        return tuple(dict.fromkeys(c for reader in self.readers(stream) for c in reader.tests()[stream]))

    @cached_property
    def digest(self) -> str:
        """A state fits the same rules, which read the same columns, around the same regions."""
        subscription = self.query.subscription
        operators = [program.digests() for program in self.programs.values()]
        asked = (subscription.around, subscription.lifetime_us, subscription.update, subscription.quality,
                 subscription.leave_when, subscription.leave_after_us)  # fmt: skip
        return digest(*asked, *operators, *(sorted(self.columns_read(name)) for name in self.streams))


def place_of(stream: Stream) -> tuple[str, str]:
    """The attributes that say where an event of the stream lies."""
    assert stream.location is not None, "resolved: every stream of a moving subscription has a location"
    return stream.location
