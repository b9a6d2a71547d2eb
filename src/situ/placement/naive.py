"""`naive`: all events are pushed to the root, where all operators run. Other mechanisms are measured against it."""

from __future__ import annotations

from situ.placement.finish import best_of
from situ.placement.plan import Plan
from situ.placement.problem import Problem


def naive(problem: Problem) -> Plan:
    return best_of("naive", problem, ())
