"""What operators that run would move, by what sites report of them."""

from __future__ import annotations

from situ.graph.operators import OperatorGraph
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.learned_statistics import Reports, counted_types
from situ.runtime.sites.transition import BytesToMove, event_bytes


def bytes_to_move(graph: OperatorGraph, before: DeployedPlan, reports: Reports) -> dict[str, BytesToMove]:
    """What sites say of the operators that run: states, and about how many bytes they read."""
    running = {site: report for site, report in reports.items() if str(before.version) in report["versions"]}
    per_s: dict[str, float] = {}
    for counted in counted_types(running, None):
        per_s[counted.type] = per_s.get(counted.type, 0.0) + counted.per_s
    state_bytes: dict[str, float] = {}
    for report in running.values():
        state_bytes |= report["versions"][str(before.version)]["state_bytes"]
    sizes = {name: event_bytes(schema) for name, schema in graph.schemas.items()}
    return {
        operator.name: BytesToMove(
            state_bytes.get(operator.name, 0.0), sum(per_s.get(t, 0.0) * sizes[t] for t in operator.inputs)
        )
        for operator in graph.operators
    }
