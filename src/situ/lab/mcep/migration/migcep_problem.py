"""What a mechanism that plans migrations is given: where everything will be, step by step (MCEP, section 5.5).

The problem of the other mechanisms (problem.py) has no time: events come from where they come from. Here consumers and
range queries move, so that operators move after them, and their state with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.network.network import Network
from situ.placement.problem import PlacementError


@dataclass(frozen=True, slots=True)
class Transfer:
    """A migration under way when the first step begins: where to, and after how many steps the operator is there."""

    target: int
    steps_left: int


@dataclass(frozen=True)
class MovableOperator:
    """An operator, the broker at which it runs when the first step begins, and what it puts out from then on.

    `state_bytes` is its immutable state, which has to be where it runs: a street map, a database of faces. Other state
    is none: between two interests an operator has nothing to remember.
    """

    name: str
    reads: tuple[str, ...]  # range queries and operators
    state_bytes: float
    host: int
    bytes_per_s: F64  # (steps,): its outgoing stream, whoever reads it
    transfer: Transfer | None = None


@dataclass(frozen=True)
class MigrationProblem:
    """One question to a mechanism that plans migrations. Operators are in an order in which inputs come first; what no
    other operator reads goes to the consumer.

    A range query is where its events come from: it spans the leaves of its region. Brokers are sites of the network.
    """

    network: Network
    start_us: int
    step_us: int
    range_queries: Mapping[str, F64]  # (steps, brokers): bytes per second from each broker
    operators: tuple[MovableOperator, ...]
    consumer: I64  # (steps,): the broker that the consumer is connected to
    transfer_bytes_per_s: float  # what a migration gets of a link

    def __post_init__(self) -> None:
        if self.step_us < 1 or not 0 < self.transfer_bytes_per_s < np.inf:
            raise PlacementError("steps and bandwidth must be above 0", remedy="Give step_us and transfer_bytes_per_s.")
        if not len(self.consumer):
            raise PlacementError("there are no time steps", remedy="Say where the consumer is, for one step at least.")
        self._check_brokers("the consumer", self.consumer)
        for name, stream in self.range_queries.items():
            self._check_rates(f"range query {name!r}", stream, (self.steps, len(self.network.sites)))
        stream_names = set(self.range_queries)
        for operator in self.operators:
            self._check_operator(operator, stream_names)
            stream_names.add(operator.name)

    @property
    def steps(self) -> int:
        return len(self.consumer)

    @property
    def end_us(self) -> int:
        return self.start_us + self.steps * self.step_us

    @property
    def step_s(self) -> float:
        return self.step_us / 1e6

    @cached_property
    def latency_s(self) -> F64:
        """(brokers, brokers). A stream of so many bytes per second, times this, is its bandwidth-delay product: the sum
        over all links on its way."""
        return self.network.ways_among().latency_ns / 1e9

    @cached_property
    def gathering(self) -> dict[str, F64]:
        """(steps, brokers): the bandwidth-delay product of a range query whose events go to a broker."""
        return {name: stream @ self.latency_s for name, stream in self.range_queries.items()}

    @cached_property
    def number(self) -> dict[str, int]:
        """Operators by name."""
        return {operator.name: number for number, operator in enumerate(self.operators)}

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """For each operator, the operators that read it; where there are none, the consumer does."""
        return tuple(
            tuple(number for number, reader in enumerate(self.operators) if operator.name in reader.reads)
            for operator in self.operators
        )

    @cached_property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """For each operator, the operators that it reads."""
        return tuple(
            tuple(self.number[name] for name in operator.reads if name in self.number) for operator in self.operators
        )

    def transfer_steps(self, operator: MovableOperator) -> int:
        """How many steps it takes to transfer an operator's state, from one broker to any other."""
        return int(np.ceil(operator.state_bytes / self.transfer_bytes_per_s / self.step_s))

    def _check_operator(self, operator: MovableOperator, stream_names: set[str]) -> None:
        place = f"operator {operator.name!r}"
        if operator.name in stream_names:
            raise PlacementError("the name is used twice", place=place, remedy="Give each a name of its own.")
        if len(set(operator.reads)) < len(operator.reads):
            raise PlacementError("reads the same twice", place=place, remedy="Name each input once.")
        for name in operator.reads:
            if name not in stream_names:
                raise PlacementError(
                    f"reads {name!r}, which is not there",
                    place=place,
                    remedy="Inputs come before those that read them.",
                )
        if not 0 <= operator.state_bytes < np.inf:
            raise PlacementError(f"its state is {operator.state_bytes} bytes", place=place, remedy="Give 0 or more.")
        hosts = [operator.host] + ([operator.transfer.target] if operator.transfer else [])
        self._check_brokers(place, np.array(hosts))
        self._check_rates(place, operator.bytes_per_s, (self.steps,))

    def _check_brokers(self, place: str, brokers: I64) -> None:
        if brokers.min() < 0 or brokers.max() >= len(self.network.sites):
            raise PlacementError("is at no broker", place=place, remedy="Brokers are numbers of sites of the network.")

    def _check_rates(self, place: str, rates: F64, shape: tuple[int, ...]) -> None:
        if rates.shape != shape:
            raise PlacementError(f"has rates of {rates.shape}", place=place, remedy=f"It takes {shape}.")
        if not (np.isfinite(rates).all() and (rates >= 0).all()):
            raise PlacementError("a rate is not finite, or negative", place=place, remedy="Give bytes per second.")
