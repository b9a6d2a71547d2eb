"""All figures of `make bench`: beside FlinkCEP, how situ grows with events, keys and queries, and the planner's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

from situ.bench.measure import Engine
from situ.bench.startup import startup_seconds
from situ.bench.workload import Pattern, Workload, cache_directory, stream_on_disk
from situ.core.errors import SituError

EVENTS = (1_000_000, 2_000_000, 4_000_000, 8_000_000)
KEYS = (10, 1_000, 100_000)

ENGINES: tuple[Engine, ...] = ("embedded", "spark", "spark-streaming")

#: Workload, and how many times FlinkCEP's events per second each engine must reach (None: for information).
BESIDE_FLINKCEP: tuple[tuple[Workload, dict[Engine, int | None]], ...] = (
    (Workload(Pattern.NEXT), {"embedded": 150, "spark": 90, "spark-streaming": 14}),
    (Workload(Pattern.NEXT, types=3), {"embedded": 100, "spark": 40, "spark-streaming": 11}),
    (Workload(Pattern.NEXT, types=3, keys=1_000_000), {"spark-streaming": 8}),
    (Workload(Pattern.RISING), {"embedded": 120, "spark": 90, "spark-streaming": 13}),
    (Workload(Pattern.EACH), {"embedded": 150, "spark": 150}),
    (Workload(Pattern.NEXT, grouped=False), {"embedded": None, "spark": 16}),
)


#: Detection latency over time.
LATENCY_PICTURE = Path("out/latency.png")


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure has to reach."""

    sense: Literal["at least", "at most"]
    value: float

    def holds(self, figure: float) -> bool:
        """
        >>> Bar("at least", 150).holds(149.9), Bar("at most", 15).holds(15.0)
        (False, True)
        """
        return figure >= self.value if self.sense == "at least" else figure <= self.value


@dataclass(frozen=True, slots=True)
class BenchFigure:
    """One line of the table, for a reader in `detail` and for a program in `measured`.

    Without a bar, a figure is for information.
    """

    name: str
    value: float
    unit: str
    detail: str
    measured: dict[str, Any]
    bar: Bar | None = None

    @property
    def verdict(self) -> Literal["pass", "miss", ""]:
        if self.bar is None:
            return ""
        return "pass" if self.bar.holds(self.value) else "miss"


Say = Callable[[str], None]


def figures(say: Say, only: Collection[str] = ()) -> Iterator[BenchFigure]:
    """Every figure, or those of some parts, as soon as it is there."""
    for name, part in PARTS.items():
        if not only or name in only:
            yield from part(say)


def _flinkcep(say: Say) -> Iterator[BenchFigure]:
    for workload, bars in BESIDE_FLINKCEP:
        yield from _beside_flinkcep(workload, bars, say)


def _beside_flinkcep(workload: Workload, bars: dict[Engine, int | None], say: Say) -> Iterator[BenchFigure]:
    """The engines beside one run of FlinkCEP."""
    name = f"{workload.pattern.value}, {workload.types} types" + ("" if workload.grouped else ", no group key")
    name += f", {workload.keys:,} keys" if workload.keys != Workload().keys else ""
    peer: dict[str, Any] = {}
    for engine, bar in bars.items():
        say(f"{name}: {engine}")
        run = _situ_bench(engine, workload, *([] if peer else ["--peer", "flinkcep"]))
        peer = run.get("peer", peer)
        ratio = round(run["events_per_s"] / peer["events_per_s"], 1)
        detail = (
            f"{_millions(run['events_per_s'])} events/s (cold {_millions(run['cold_events_per_s'])}), "
            f"FlinkCEP {_millions(peer['events_per_s'])}"
        )
        yield BenchFigure(f"{engine}: {name}", ratio, "x FlinkCEP", detail, run, Bar("at least", bar) if bar else None)


def _growth(say: Say) -> Iterator[BenchFigure]:
    by_events = [(f"{events:,} events", Workload(events=events)) for events in EVENTS]
    by_keys = [(f"{keys:,} keys", Workload(keys=keys)) for keys in KEYS]
    for engine, (name, workload) in product(ENGINES, by_events + by_keys):
        say(f"{name}: {engine}")
        run = _situ_bench(engine, workload)
        detail = f"{_millions(run['events_per_s'])} events/s"
        yield BenchFigure(f"{engine}: next, {name}", run["seconds"], "s", detail, run)


def _latency(say: Say) -> Iterator[BenchFigure]:
    """Measures the latency of a streaming query, from the event to the sink, and draws it."""
    from situ.bench.latency import draw, measure_latency
    from situ.bench.measure import STREAMING_CONF
    from situ.runtime.spark.session.session import borrowed_session

    say("detection latency: spark-streaming")
    with borrowed_session(conf=STREAMING_CONF) as spark:
        latencies = measure_latency(spark)
    LATENCY_PICTURE.parent.mkdir(exist_ok=True)
    draw(latencies, LATENCY_PICTURE)
    measured = latencies.to_json()
    detail = f"{measured['complex_events']:,} complex events; picture: {LATENCY_PICTURE}"
    for percent, limit in ((50, 1.0), (99, 3.0)):
        name = f"spark-streaming: latency at {latencies.events_per_s:,} events/s, {percent}%"
        value = measured[f"p{percent}_s"]
        yield BenchFigure(name, value, "s", detail, measured, Bar("at most", limit))


def _startup(say: Say) -> Iterator[BenchFigure]:
    say("start-up")
    situ, bare = startup_seconds(stream_on_disk(Workload(events=1_000), cache_directory()))
    detail = f"situ run {situ:.2f} s, Python with pyarrow and a cached Numba call {bare:.2f} s"
    measured = {"seconds": situ, "seconds_of_bare_python": bare}
    yield BenchFigure("start of a new query", round(situ - bare, 2), "s more", detail, measured, Bar("at most", 1))


def _placement(say: Say) -> Iterator[BenchFigure]:
    """The planner's; `python -m situ.bench.placement` and `python -m situ.bench.edgecep` have these alone."""
    from situ.bench import edgecep
    from situ.bench.placement import placement_figures
    from situ.bench.sections import figures_of

    yield from placement_figures(lambda description, done, of: None if done else say(description))
    yield from figures_of(edgecep.SECTIONS, say)


def _moving(say: Say) -> Iterator[BenchFigure]:
    """Measures moving subscriptions; `python -m situ.bench.mobility` and `python -m situ.bench.reuse` have these
    alone."""
    from situ.bench import mobility, reuse
    from situ.bench.sections import figures_of

    yield from figures_of(mobility.SECTIONS, say)
    yield from figures_of(reuse.SECTIONS, say)


def _sites(say: Say) -> Iterator[BenchFigure]:
    from situ.bench.brokers import at_rest
    from situ.bench.site_soak import soak
    from situ.bench.sites import latency, restart, throughput

    for section in (throughput, latency, restart, at_rest, soak):
        yield from section(say)


def _transitions(say: Say) -> Iterator[BenchFigure]:
    """Measures operators that move; `python -m situ.bench.transitions` has these alone."""
    from situ.bench import transitions
    from situ.bench.sections import figures_of

    yield from figures_of(transitions.SECTIONS, say)


def _spark_sites(say: Say) -> Iterator[BenchFigure]:
    """Measures a site on Spark; `python -m situ.bench.spark_sites` has these alone."""
    from situ.bench import spark_sites
    from situ.bench.sections import figures_of

    yield from figures_of(spark_sites.SECTIONS, say)


def _heartbeat(say: Say) -> Iterator[BenchFigure]:
    from situ.bench.heartbeat import heartbeat

    yield from heartbeat(say)


def _rules(say: Say) -> Iterator[BenchFigure]:
    """Measures many rules; `python -m situ.bench.rules` has these alone."""
    from situ.bench import rules
    from situ.bench.sections import figures_of

    yield from figures_of(rules.SECTIONS, say)


def _speed(say: Say) -> Iterator[BenchFigure]:
    """Measures Spark beside its SQL, and fixed costs; `python -m situ.bench.spark_speed` and `python -m
    situ.bench.embedded_speed` have these alone."""
    from situ.bench import embedded_speed, spark_speed
    from situ.bench.sections import figures_of

    yield from figures_of(spark_speed.SECTIONS, say)
    yield from figures_of(embedded_speed.SECTIONS, say)


def _simulated_sites(say: Say) -> Iterator[BenchFigure]:
    from situ.bench.site_simulation import simulation_figures

    yield from simulation_figures(say)


def _pulling(say: Say) -> Iterator[BenchFigure]:
    """Measures plans that pull; `python -m situ.bench.pulling` and `python -m situ.bench.live_sites` have these."""
    from situ.bench import live_sites, pulling
    from situ.bench.sections import figures_of

    yield from figures_of(pulling.SECTIONS, say)
    yield from figures_of(live_sites.SECTIONS, say)


def _situ_bench(engine: Engine, workload: Workload, *options: str) -> dict[str, Any]:
    """`situ bench` in a process of its own, so that its first run is a cold one."""
    command = [sys.executable, "-m", "situ.cli.app", "bench", "--json", "--engine", engine, *options]
    command += ["--workload", workload.pattern.value, *([] if workload.grouped else ["--no-group"])]
    for name in ("types", "keys", "events", "window_ms"):
        command += [f"--{name.replace('_', '-')}", str(getattr(workload, name))]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        answer: dict[str, Any] = json.loads(process.stdout)
    except ValueError as error:
        raise SituError(f"'{' '.join(command)}' gave no figures", remedy="Its last message is above.") from error
    if "error" in answer:
        raise SituError(answer["error"]["cause"], remedy=answer["error"]["remedy"])
    return answer


def _millions(per_s: float) -> str:
    """
    >>> _millions(12_340_000)
    '12.34 million'
    """
    return f"{per_s / 1e6:.2f} million"


#: What `make bench` measures, in this order; `python -m situ.bench --only` takes some of them.
PARTS: Mapping[str, Callable[[Say], Iterator[BenchFigure]]] = {
    "flinkcep": _flinkcep,
    "speed": _speed,
    "growth": _growth,
    "latency": _latency,
    "startup": _startup,
    "placement": _placement,
    "moving": _moving,
    "heartbeat": _heartbeat,
    "rules": _rules,
    "sites": _sites,
    "transitions": _transitions,
    "spark-sites": _spark_sites,
    "simulation": _simulated_sites,
    "pulling": _pulling,
}
