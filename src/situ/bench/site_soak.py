"""Sites at work for a while: ten thousand events a second with ever-new keys. Does memory grow, or the journal?

    python -m situ.bench.sites --only soak [--minutes 10]

A producer pushes events to a source site, a root has the operator and writes results. Each key comes twice, and never
again. What the last quarter of the run has at most is compared with what the second one had, when everything has been
warm for a while.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from situ.bench.sections import Say
from situ.bench.sites import PAIRS, PUSHES_PER_S, RATE, ROOT, SOURCE, AtWork, at_work, producer_of, wait_until
from situ.bench.suite import Bar, BenchFigure

MINUTES = 10.0
#: A key comes again after so many events.
AGAIN = 20_000


@dataclass
class Samples:
    """Bytes of one kind, over time."""

    bytes: list[int] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """The most in the last quarter, as a part of the most in the second one."""
        quarter = len(self.bytes) // 4
        return max(self.bytes[-quarter:]) / max(self.bytes[quarter : 2 * quarter])


def soak(say: Say, minutes: float = MINUTES) -> Iterator[BenchFigure]:
    """Memory and journal of both sites, each second."""
    say(f"sites: {minutes:g} minutes at {RATE:,} events/s with ever-new keys")
    samples = {(site, what): Samples() for site in (SOURCE, ROOT) for what in ("memory", "journal")}
    with at_work(PAIRS, pushed=True) as running:
        pushed = push_steadily(running, minutes * 60, samples)
        wait_until(running.has_read, pushed)
    for what in ("memory", "journal"):
        of_sites = {site: samples[site, what] for site in (SOURCE, ROOT)}
        growth = max(of_site.growth for of_site in of_sites.values())
        most = ", ".join(f"{site} {max(each.bytes) / 1e6:.0f} MB" for site, each in of_sites.items())
        measured = {f"{site}_bytes": each.bytes for site, each in of_sites.items()}
        detail = f"{pushed:,} events in {minutes:g} minutes; at most {most}"
        unit = "x, last against second quarter"
        yield BenchFigure(f"sites: {what} at work", round(growth, 3), unit, detail, measured, Bar("at most", 1.1))


def push_steadily(running: AtWork, seconds: float, samples: dict[tuple[str, str], Samples]) -> int:
    """Pushes events at an even pace, and measures each second; how many they were."""
    producer, per_push, begun = producer_of(running), RATE // PUSHES_PER_S, time.time()
    for number in itertools.count():
        rows = np.arange(number * per_push, (number + 1) * per_push)
        keys = rows // (2 * AGAIN) * AGAIN + rows % AGAIN
        producer.send(pa.table({"id": rows, "key": keys, "ts": np.full(per_push, time.time_ns() // 1000)}))
        if number % PUSHES_PER_S == 0:
            for (site, what), of_site in samples.items():
                of_site.bytes.append(memory_of(running, site) if what == "memory" else journal_of(running, site))
        if (number + 1) / PUSHES_PER_S >= seconds:
            producer.flush()
            producer.close()
            return (number + 1) * per_push
        time.sleep(max(begun + (number + 1) / PUSHES_PER_S - time.time(), 0))
    raise AssertionError


def memory_of(running: AtWork, site: str) -> int:
    """The bytes of a site's process that are in memory."""
    process = running.sites.sites[site].process
    assert process is not None
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def journal_of(running: AtWork, site: str) -> int:
    """The bytes of a site's journal on disk."""
    directory = running.sites.sites[site].directory / "journal"
    return sum(file.stat().st_size for file in directory.iterdir())
