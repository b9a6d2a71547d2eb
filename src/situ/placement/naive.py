"""`naive`: all events are pushed to the root, where all operators run. Other mechanisms are measured against it."""

from __future__ import annotations

from dataclasses import replace

from situ.placement.finish import best_of
from situ.placement.plan import Plan
from situ.placement.problem import Problem


def naive(problem: Problem) -> Plan:
    return replace(best_of("naive", problem, ()), packets=0)
