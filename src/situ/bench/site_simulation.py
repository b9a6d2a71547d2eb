"""The simulation of sites: how long it takes to let a network of sites live through some events.

`python -m situ.bench.site_simulation`, part of `make bench`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from situ.bench.sections import Say, Sections, main
from situ.bench.suite import Bar, BenchFigure
from situ.core.errors import SituError
from situ.io.rows.conform import conform
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.deployment import Deployment
from situ.runtime.sites.simulation.world import Faults, World

QUERY = """
stream Reading(id int, key int, value double, ts int) time ts in ms order id
define High(key, value)
  detect   Reading(value > 0.9) as a then Reading(value > a.value) as b within 2 s
  assign   key = a.key, value = b.value
  group by key
define Low(key, value)
  detect   Reading(value < 0.05) as a
  assign   key = a.key, value = a.value
subscribe Swing
  detect   High as high then Low as low within 5 s
  assign   key = high.key, high = high.value, low = low.value
  group by key
"""
FAULTS = Faults(delay_s=(0.001, 0.01), loss=0.001, kills=5, until_s=2.0)
SEED = 1
ROWS_AT_ONCE = 50
_KEYS = 50


def readings(first: int, rows: int, rng: np.random.Generator) -> pa.Table:
    """What one source reads: a row every ten milliseconds."""
    return pa.table(
        {
            "id": np.arange(first, first + rows),
            "key": rng.integers(0, _KEYS, rows),
            "value": rng.random(rows),
            "ts": np.arange(rows) * 10,
        }
    )


def simulate(sites: int, events: int) -> tuple[float, int]:
    """The CPU seconds for a world of so many sites, four fifths of which are sources, and the complex events that it
    found; SituError if they are not those of one process."""
    names = [f"site {number:03d}" for number in range(sites)]
    sources = names[: sites * 4 // 5]
    low, high, swing, root = names[-4:]
    places = {"High": OperatorPlace(high), "Low": OperatorPlace(low), "Swing": OperatorPlace(swing)}
    plan = DeployedPlan(1, QUERY, {"Reading": tuple(sources)}, places, (root,), bounded=True)
    stream, rng, rows = resolve(parse(QUERY)).streams[0], np.random.default_rng(SEED), events // len(sources)
    tables = {name: readings(number * rows, rows, rng) for number, name in enumerate(sources)}
    pieces = {
        (name, "Reading", "readings"): [
            conform(table.slice(begin, ROWS_AT_ONCE), stream) for begin in range(0, rows, ROWS_AT_ONCE)
        ]
        for name, table in tables.items()
    }
    begun = time.process_time()
    world = World(names, pieces, SEED, FAULTS, pause_s=0.05)
    world.deploy(Deployment(plan, plan.sites, "bench"))
    world.run()
    seconds = time.process_time() - begun
    found = sum(table.num_rows for log, table in world.results().items() if log.type == "Swing")
    expected = sum(out.complex_events["Swing"].num_rows for out in Engine(QUERY).run(pa.concat_tables(tables.values())))
    if found != expected:
        raise SituError(f"{found} complex events at sites, {expected} in one process")
    return seconds, found


def simulation_figures(say: Say) -> Iterator[BenchFigure]:
    """Measures the simulation, after a small one that loads the kernel."""
    say("the simulation of 100 sites")
    simulate(5, 500)
    seconds, found = simulate(100, 100_000)
    detail = f"100 sites, 100,000 events, {found:,} complex events, lost messages and kills"
    yield BenchFigure("sites, simulated: CPU", round(seconds, 1), "s", detail, {}, Bar("at most", 60))


SECTIONS: Sections = {"simulation": simulation_figures}


if __name__ == "__main__":
    sys.exit(main(__doc__, SECTIONS))
