"""`relaxation`: the springs of `sbon`, by messages between brokers instead of by one solver (Pietzuch et al., ICDE
2006; TCEP, section 2.2).

Every broker finds its coordinates in a space of latencies by round trips (Vivaldi). Then, round by round, the host of
each operator moves it to the mean of the places that it is joined with, weighted by rates, as it last heard of them,
and tells the hosts of the operators at the other ends of its springs. An operator that hardly moves any more runs at
the nearest site that has room. At rest the network usage, rate x latency^2 in this space, is the smallest.
"""

from __future__ import annotations

import numpy as np

from situ.kernel.arrays import F64
from situ.network.vivaldi import ROUNDS
from situ.placement.plan import Plan
from situ.placement.problem import Problem
from situ.placement.pushed_plan import Room, pushed_plan
from situ.placement.sbon import latency_space, sites_by_distance, springs

#: An operator is at rest when it moves by less than this part of the extent of the space.
AT_REST = 1e-4

#: Long chains of operators, hardly held at their ends, come to rest slowly.
MOST_ROUNDS = 1_000


def relaxation(problem: Problem) -> Plan:
    coordinates = latency_space(problem)
    places, packets = relaxed(*springs(problem), coordinates, problem.root)
    room = Room(problem)
    sites = [room.take(n, sites_by_distance(problem, coordinates, at).tolist()) for n, at in enumerate(places)]
    round_trips = 2 * ROUNDS * len(problem.network.sites)
    lookups = 2 * len(sites)  # each operator asks for the site nearest to its place
    return pushed_plan("relaxation", problem, sites, round_trips + packets + lookups)


def relaxed(held: F64, pulls: F64, coordinates: F64, root: int) -> tuple[F64, int]:
    """Where operators come to rest that begin at the root, and the packets that it takes: each site at the end of a
    spring tells its coordinates once, and an operator tells those that it is joined with of every move.

    `held` and `pulls` are the equations of `springs`: a row for each operator.
    """
    stiffness = np.diag(held)
    joined = np.diag(stiffness) - held
    fixed = pulls @ coordinates
    places = np.repeat(coordinates[[root]], len(held), axis=0)
    extent = float(np.ptp(coordinates, axis=0).max()) or 1.0
    packets = int(np.count_nonzero(pulls))
    listeners = np.count_nonzero(joined, axis=1)
    for _ in range(MOST_ROUNDS):
        moved = (joined @ places + fixed) / stiffness[:, None]
        moving = np.abs(moved - places).max(axis=1) > AT_REST * extent
        if not moving.any():
            break
        places = np.where(moving[:, None], moved, places)
        packets += int(listeners[moving].sum())
    return places, packets
