"""The operators that a plan of sites puts at one site, as stages of Spark: those alone, of the whole graph.

What other sites make, streams and complex events alike, comes from outside. Programs are compiled in the whole graph,
so they are those that the embedded host would run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from situ.runtime.sites.batches import Offsets, watermarks_of
from situ.runtime.sites.compiled_plan import CompiledPlan, compiled_plan
from situ.runtime.sites.messages import LogName
from situ.runtime.spark.plan.plan import Read, SparkPlan, Stage
from situ.runtime.spark.plan.routes import routes_of


@dataclass(frozen=True)
class SitePlan:
    """Stages of the operators at a site; `inputs` are the logs that they read."""

    compiled: CompiledPlan
    stages: SparkPlan
    inputs: tuple[LogName, ...]

    @property
    def outside(self) -> tuple[str, ...]:
        """The event types that come from outside."""
        return tuple(sorted({log.type for log in self.inputs}))

    def watermarks(self, offsets: Offsets) -> dict[str, int]:
        """By type from outside, how far time has come at some offsets."""
        return watermarks_of(offsets, self.inputs)


@lru_cache(maxsize=8)
def site_plan(plan: str, site: str) -> SitePlan:
    """The stages of a plan, given as JSON, at a site. Made once in a process, and in each the same."""
    compiled = compiled_plan(plan)
    graph, places = compiled.graph, compiled.plan.operators
    routes = routes_of(graph, frozenset(name for name, place in places.items() if place.site == site))
    numbers = sorted({route.stage for route in routes})
    stages = tuple(Stage(number, tuple(r for r in routes if r.stage == number)) for number in numbers)
    reads = tuple(Read(stream, (), (), (), frozenset(), ()) for stream in graph.streams)
    inputs = tuple(compiled.logs.inputs_at(site, places))
    return SitePlan(compiled, SparkPlan(graph, graph, reads, stages), inputs)
