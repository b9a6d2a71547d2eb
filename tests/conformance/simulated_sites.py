"""Sites that are apart, in a simulated world: sources, operators and results at places by chance."""

from __future__ import annotations

import random

import pyarrow as pa

from cases.case_file import Found
from conformance.question import Question, arrivals, pieces
from situ.io.rows.conform import Conformed, conform
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.deployment import Deployment
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.simulation.world import Faults, World

SITES = ("north", "east", "south")
FAULTS = Faults(loss=0.05, repeat=0.05, kills=2, until_s=0.5)


class Sites:
    """The rows of each stream come in one or two sources, in an order in which none is late; where they may be late, in
    one source and in the order that the question says."""

    def accepts(self, question: Question) -> bool:
        return not any(o.subscription and o.subscription.around for o in question.graph.subscriptions)

    def run(self, question: Question, rng: random.Random) -> Found:
        sources = self._sources(question, rng)
        plan = DeployedPlan(
            1,
            question.text,
            {
                s.name: tuple(sorted({site for site, name, _ in sources if name == s.name}))
                for s in question.graph.streams
            },
            {operator.name: OperatorPlace(rng.choice(SITES)) for operator in question.graph.operators},
            (rng.choice(SITES),),
            bounded=True,
            silent_since_us=question.graph.start_us,
        )
        world = World(plan.sites, sources, rng.randrange(10**9), FAULTS)
        world.deploy(Deployment(plan, plan.sites, "only"))
        world.run()
        return found_of(world.results())

    def _sources(self, question: Question, rng: random.Random) -> dict[tuple[str, str, str], list[Conformed]]:
        streams = {stream.name: stream for stream in question.graph.streams}
        places = {name: rng.sample(SITES, 1 if question.arriving else rng.choice([1, 2])) for name in streams}
        sources: dict[tuple[str, str, str], list[Conformed]] = {
            (site, name, "file"): [] for name, sites in places.items() for site in sites
        }
        if question.arriving:
            parts = [(name, table) for piece in pieces(question, rng) for name, table in piece.items()]
        else:
            parts = [(name, question.events[name].slice(row, 1)) for name, row in arrivals(question, rng)]
        for name, table in parts:
            rows = conform(table, streams[name], place=f"rows of {name}")
            sources[rng.choice(places[name]), name, "file"].append(rows)
        return sources


def found_of(results: dict[LogName, pa.Table]) -> Found:
    """What sinks have, by kind and type."""
    kinds: dict[str, dict[str, pa.Table]] = {kind: {} for kind in ("events", "timed out", "late", "rejected")}
    for log, table in results.items():
        before = kinds[log.kind].get(log.type)
        kinds[log.kind][log.type] = table if before is None else pa.concat_tables([before, table])
    return Found(kinds["events"], kinds["timed out"], kinds["late"], kinds["rejected"])
