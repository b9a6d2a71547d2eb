"""Transmission factors as sites count them: plans run on simulated sites, event by event, and everything is counted
that crosses a link, over windows as in Figure 9c."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from situ.lab.claims import CheckedClaim
from situ.lab.figure import FULL, Experiment, Figure, Panel, Points, Say, Scale
from situ.lab.panorama.experiments.cases import CaseShape, random_case
from situ.lab.panorama.experiments.thinned_cases import thinned, thinned_text
from situ.lab.panorama.simulation.draw import draw
from situ.lab.panorama.simulation.on_sites import run_on_sites
from situ.network.generate import antennas
from situ.placement.coverage import Coverage
from situ.placement.mechanisms import mechanism
from situ.runtime.sites.relays import LinkCounts

MECHANISMS = ("naive", "cpp", "grin", "heuristic+")
SITES, SOURCES = 60, 3
#: Windows, cases for each, and the events of a case.
EFFORTS = {True: ((0.1, 1.0, 10.0), 4, 2_000), False: ((0.1, 1.0), 1, 200)}


def figure_counted(scale: Scale, seed: int, say: Say) -> Figure:
    windows, cases, events = EFFORTS[scale is FULL]
    rows = []
    for number, window_s in enumerate(windows):
        for case in range(seed, seed + cases):
            say(number * cases + case - seed, len(windows) * cases, f"windows of {window_s:g} s, on simulated sites")
            rows += _counted(window_s, case, events)
    everything, events_and_requests = (_factors(rows, kinds) for kinds in ("all", "cost"))
    factor = {name: everything[name][0][1] for name in MECHANISMS}
    cpp, grin = (factor[other] / factor["heuristic+"] for other in ("cpp", "grin"))
    worse = max(everything[name][0][1] / events_and_requests[name][0][1] for name in MECHANISMS)
    return Figure(
        "counted",
        "Messages that sites count",
        "window, s",
        "messages x hops over those of the naive plan",
        everything,
        "",
        (
            CheckedClaim(
                "pulling and placing together cost less than either alone",
                f"at the smallest window, with messages of all kinds, CPP's plans send {cpp:.1f} times and GRIN's "
                f"{grin:.1f} times as much as those of heuristic+",
                min(cpp, grin) > 1,
            ),
            CheckedClaim(
                "what the paper does not count changes little",
                f"with promises, questions and acknowledgements a factor is up to {worse:.2f} times that of events and "
                "requests alone",
                worse < 1.25,
            ),
        ),
        log_x=True,
        setting=f"antennas, {SITES} sites, all kinds of messages",
        beside=Panel("events and requests alone", "window, s", events_and_requests),
        cases=pa.Table.from_pylist(rows),
    )


FIGURES: dict[str, Experiment] = {"counted": figure_counted}


def _counted(window_s: float, seed: int, events: int) -> list[dict[str, float | str]]:
    rng = np.random.default_rng(seed)
    case = random_case(antennas(SITES, rng), rng, CaseShape(sources=SOURCES, windows_s=(window_s, window_s)))
    graph, problem = thinned(case, Coverage())
    seconds = events / sum(sources.rate_per_s for sources in problem.sources.values())
    occurred = draw(graph, problem.sources, seconds, rng)
    rows: list[dict[str, float | str]] = []
    for name in MECHANISMS:
        run = run_on_sites(thinned_text(case), problem, graph, mechanism(name)(problem).placed, occurred)
        rows.append({"window_s": window_s, "seed": seed, "mechanism": name, **_messages(run.counts)})
    return rows


def _messages(counts: LinkCounts) -> dict[str, float]:
    cost = counts.events + counts.requests
    return {"cost": cost, "all": cost + counts.questions + counts.promises + counts.acknowledgements}


def _factors(rows: Sequence[Mapping[str, float | str]], kinds: str) -> dict[str, Points]:
    """By mechanism, the mean over cases of what its plans send over what the naive plan does, at each window."""
    sent = {(row["window_s"], row["seed"], row["mechanism"]): float(row[kinds]) for row in rows}
    windows = sorted({float(row["window_s"]) for row in rows})
    seeds = sorted({row["seed"] for row in rows}, key=float)
    return {
        name: tuple(
            (window_s, float(np.mean([sent[window_s, seed, name] / sent[window_s, seed, "naive"] for seed in seeds])))
            for window_s in windows
        )
        for name in MECHANISMS
    }
