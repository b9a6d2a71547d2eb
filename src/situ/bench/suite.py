"""All figures of `make bench`: beside FlinkCEP, and how situ's time grows with events, keys and queries."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from situ.bench.startup import startup_seconds
from situ.bench.workload import Pattern, Workload, many_queries_text, query_text, stream_on_disk
from situ.core.errors import SituError

PEER_EVENTS = 2_000_000
EVENTS = (1_000_000, 2_000_000, 4_000_000, 8_000_000)
KEYS = (10, 1_000, 100_000)

#: Workload, and how many times FlinkCEP's events per second it must reach.
BESIDE_FLINKCEP = (
    (Workload(Pattern.NEXT), 150),
    (Workload(Pattern.NEXT, types=3), 100),
    (Workload(Pattern.RISING), 120),
    (Workload(Pattern.EACH), 150),
)


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
class Figure:
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


def figures(cache: Path, say: Say) -> Iterator[Figure]:
    """Every figure, as soon as it is there."""
    for workload, bar in BESIDE_FLINKCEP:
        yield _beside_flinkcep(workload, bar, say)
    yield from _growth_with_events(say)
    yield from _growth_with_keys(say)
    yield _many_queries(cache, say)
    yield _startup(cache, say)


def _beside_flinkcep(workload: Workload, bar: int, say: Say) -> Figure:
    name = f"{workload.pattern.value}, {workload.types} types"
    say(name)
    run = _situ_bench(workload, "--peer", "flinkcep", "--peer-events", str(PEER_EVENTS))
    detail = (
        f"{_millions(run['events_per_s'])} events/s (cold {_millions(run['cold_events_per_s'])}), "
        f"FlinkCEP {_millions(run['peer']['events_per_s'])}"
    )
    return Figure(name, run["ratio"], "x FlinkCEP", detail, run, Bar("at least", bar))


def _growth_with_events(say: Say) -> Iterator[Figure]:
    for events in EVENTS:
        say(f"{events:,} events")
        run = _situ_bench(Workload(events=events))
        yield Figure(f"next, {events:,} events", run["seconds"], "s", f"{_millions(run['events_per_s'])} events/s", run)


def _growth_with_keys(say: Say) -> Iterator[Figure]:
    for keys in KEYS:
        say(f"{keys:,} keys")
        run = _situ_bench(Workload(keys=keys))
        yield Figure(f"next, {keys:,} keys", run["seconds"], "s", f"{_millions(run['events_per_s'])} events/s", run)


def _many_queries(cache: Path, say: Say) -> Figure:
    """All triples of neighbouring types as subscriptions of one file, against the one of `next`."""
    workload = Workload()
    say(f"{workload.types - 2} queries")
    stream_on_disk(workload, cache)
    # Both in this process, after one run that is not counted: kernels are compiled, files are in memory.
    one = _median_seconds(query_text(workload), workload, cache)
    many = _median_seconds(many_queries_text(workload), workload, cache)
    detail = f"{many:.2f} s for {workload.types - 2} queries, {one:.2f} s for one"
    measured = {"seconds": many, "seconds_of_one": one}
    return Figure(
        f"{workload.types - 2} queries", round(many / one, 1), "x one query", detail, measured, Bar("at most", 15)
    )


def _median_seconds(text: str, workload: Workload, cache: Path) -> float:
    from situ.bench.measure import WARM_RUNS, time_query

    directory = stream_on_disk(workload, cache)
    _, *warm = (time_query(text, directory).seconds for _ in range(1 + WARM_RUNS))
    return statistics.median(warm)


def _startup(cache: Path, say: Say) -> Figure:
    say("start-up")
    situ, bare = startup_seconds(stream_on_disk(Workload(events=1_000), cache))
    detail = f"situ run {situ:.2f} s, Python with pyarrow and a cached Numba call {bare:.2f} s"
    measured = {"seconds": situ, "seconds_of_bare_python": bare}
    return Figure("start of a new query", round(situ - bare, 2), "s more", detail, measured, Bar("at most", 1))


def _situ_bench(workload: Workload, *options: str) -> dict[str, Any]:
    """`situ bench` in a process of its own, so that its first run is a cold one."""
    command = [sys.executable, "-m", "situ.cli.app", "bench", "--json", "--workload", workload.pattern.value, *options]
    for name in ("types", "keys", "events", "window_ms"):
        command += [f"--{name.replace('_', '-')}", str(getattr(workload, name))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
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
