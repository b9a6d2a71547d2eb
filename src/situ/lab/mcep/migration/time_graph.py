"""The time graph of one operator, and the shortest path through it (MCEP, section 5.5, Figure 5b).

A vertex is a broker at the beginning of a time step. An edge stays at the broker for a step, or migrates to another
one: the state is copied in the background, so that the edge spans as many steps as this takes, while the operator goes
on at the old broker. A path from the start to the end is a sequence of migrations; its length is the bandwidth-delay
product of streaming and migrating over time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import jit

#: A path is shorter than another if it is by more than rounding: nobody migrates for nothing.
SHORTER = 1 - 1e-12


@dataclass(frozen=True, slots=True)
class TimeGraph:
    """Costs in bytes x seconds (of latency) x seconds (of time).

    `start`: the cost to be at a broker when the first step begins; infinite where the operator cannot be then.
    """

    streaming: F64  # (steps, brokers): of a step at a broker
    migration: F64  # (brokers, brokers): of a migration from one to another
    duration: I64  # (brokers, brokers): steps that it takes, 1 at least
    start: F64  # (brokers,)


@dataclass(frozen=True, slots=True)
class Path:
    """The broker in which each edge of the path begins, and the step: the start, and every arrival after a migration.

    `initiated`: the step in which that migration began."""

    cost: float
    brokers: tuple[int, ...]
    initiated: tuple[int, ...]
    arrived: tuple[int, ...]


def shortest_path(graph: TimeGraph) -> Path:
    """All edges lead forward in time, so that one pass over the steps, backwards, finds the shortest paths from all
    vertices. Where paths are equally long, but for rounding, the operator stays, or goes to the broker of the
    lowest number.

    >>> streaming = np.array([[1.0, 9.0], [9.0, 1.0], [9.0, 1.0]])
    >>> shortest_path(TimeGraph(streaming, np.full((2, 2), 4.0), np.ones((2, 2), np.int64), np.array([0.0, np.inf])))
    Path(cost=7.0, brokers=(0, 1), initiated=(0, 0), arrived=(0, 1))
    """
    steps, brokers = graph.streaming.shape
    until = np.zeros((steps + 1, brokers))
    np.cumsum(graph.streaming, axis=0, out=until[1:])
    cost = np.zeros((steps + 1, brokers))
    goes_to = np.empty((steps, brokers), np.int64)
    _costs_to_the_end(until, graph.migration, graph.duration, cost, goes_to)
    total = graph.start + cost[0]
    broker, step = int(total.argmin()), 0
    stops = [(broker, 0, 0)]
    while step < steps:
        target = int(goes_to[step, broker])
        if target == broker:
            step += 1
        else:
            arrival = step + int(graph.duration[broker, target])
            stops.append((target, step, arrival))
            broker, step = target, arrival
    hosts, initiated, arrived = zip(*stops, strict=True)
    return Path(float(total.min()), hosts, initiated, arrived)


@jit
def _costs_to_the_end(until: F64, migration: F64, duration: I64, cost: F64, goes_to: I64) -> None:
    """Fills in, for each vertex, the length of the shortest path to the end, and where it goes first. `until` has the
    streaming costs of all steps before one, so that those of any interval are a difference. `cost` begins as zeros."""
    steps, brokers = goes_to.shape
    for back in range(1, steps + 1):
        step = steps - back
        for broker in range(brokers):
            best = until[step + 1, broker] - until[step, broker] + cost[step + 1, broker]
            goes_to[step, broker] = broker
            for target in range(brokers):
                arrival = step + duration[broker, target]
                if target == broker or arrival >= steps:
                    continue  # who arrives at the end, or later, is of no use there
                way = until[arrival, broker] - until[step, broker] + migration[broker, target] + cost[arrival, target]
                if way < best * SHORTER:
                    best = way
                    goes_to[step, broker] = target
            cost[step, broker] = best
