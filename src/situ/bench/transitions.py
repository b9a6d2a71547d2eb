"""Operators that move while events flow: how long results stop, how long a move takes, and what it sends.

`python -m situ.bench.transitions [--only pauses spans bytes queries]`, part of `make bench`. Pauses and spans are those
of four processes with journals on disk, 20 ms apart; bytes are counted, and queries moved, on simulated sites, too.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from situ.bench.sections import Say, Sections, main
from situ.bench.suite import Bar, BenchFigure
from situ.core.errors import SituError
from situ.kernel.arrays import F64
from situ.lab.tcep.scenario import AFTER, BEFORE, STREAMS, Moving, TransitionSetting
from situ.lab.tcep.simulated import run_transition
from situ.network.network import Link, Network, Site
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.process.deploying import Control
from situ.runtime.sites.process.local_sites import LocalSites, SiteArguments
from situ.runtime.sites.process.transitioning import deploy_version, reports_of, unfinished_operators
from situ.runtime.sites.transition import Order, StrategyWish, moves_between, placed_at, versions_of
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.producing import Producer
from situ.service.certificates import Credentials, make_producer_keys, producer_identity

SOURCE, OLD, NEW, ROOT, PRODUCER = "source", "old", "new", "root", "producer"
LATENCY_MS = 20.0
ROUND_TRIP_S = 2 * LATENCY_MS / 1000
NETWORK = Network(
    tuple(map(Site, (SOURCE, OLD, NEW, ROOT))),
    tuple(Link(a, b, LATENCY_MS) for a, b in ((SOURCE, OLD), (SOURCE, NEW), (OLD, ROOT), (NEW, ROOT), (OLD, NEW))),
)
#: Results per second; events that wait for another one, which are a state of some 8 MB; how many are pushed at once.
OUTPUTS_PER_S, HELD, AT_ONCE = 50, 60_000, 10_000
#: The window of what is cut in time; how long before a version begins sites hear of it; how long runs are watched
#: before and after that.
WINDOW_S, LEAD_S, WATCHED_S = 2, 1.5, 4.0
#: Runs of which the median counts: one late thread makes a pause.
RUNS = 3
_LOOK_S = 0.01


def query(within: str, count: int = 1) -> str:
    """An event of kind 0 waits for one of kind 1 with its key."""
    rules = "\n".join(
        f"subscribe Found{n} detect Event(kind = 0) as a then Event(kind = 1) as b within {within} assign key = a.key"
        f" group by key"
        for n in range(count)
    )
    return f"stream Event(kind int, key int, us int) time us in us order key\n{rules}"


# ---- real sites


class PacedProducer(threading.Thread):
    """Pushes the events that make results, one pair of a key at a time, until it is stopped."""

    def __init__(self, producer: Producer, held: int, ends: threading.Event) -> None:
        super().__init__(daemon=True)
        self._producer, self._held, self._ends = producer, held, ends
        now_us = time.time_ns() // 1000
        for begin in range(0, held, AT_ONCE):
            keys = np.arange(begin, min(begin + AT_ONCE, held))
            producer.send(pa.table({"kind": np.zeros(len(keys), int), "key": keys, "us": np.full(len(keys), now_us)}))
        producer.flush()

    def run(self) -> None:
        begun, number = time.time(), 0
        while not self._ends.is_set():
            now_us = time.time_ns() // 1000
            # Without held events each key is made first, and asked for ten ticks later.
            kinds, keys = ([1], [number]) if self._held else ([0, 1], [number + 10, number])
            self._producer.send(pa.table({"kind": kinds, "key": keys, "us": [now_us] * len(keys)}))
            number += 1
            time.sleep(max(begun + number / OUTPUTS_PER_S - time.time(), 0))


@dataclass
class QueryAtSites:
    """Four sites at which a query runs, at the old one of two."""

    control: Control
    plan: DeployedPlan
    out: Path

    def move(self, strategy: StrategyWish, order: Order = "concurrent", lead_s: float = LEAD_S) -> tuple[float, float]:
        """Moves all operators to the new site; when the last version began, and when all was done."""
        target = placed_at(self.plan, dict.fromkeys(self.plan.operators, NEW))
        for version in versions_of(target, self.plan, moves_between(target, self.plan, strategy), order):
            self.plan = deploy_version(self.control, None, version, self.plan, round(lead_s * 1e6))
            while unfinished_operators(reports_of(self.control), self.plan):
                time.sleep(_LOOK_S)
        return self.plan.starts_us / 1e6, time.time()

    def result_times_s(self) -> F64:
        """When each part of the results was on disk."""
        parts = self.out.glob("*/part-*")
        return np.sort([part.stat().st_ctime_ns / 1e9 for part in parts if pq.read_metadata(part).num_rows])


@contextmanager
def running_query(text: str, held: int) -> Iterator[QueryAtSites]:
    """The query at real sites, with events that flow."""
    names = [rule.split()[1] for rule in text.splitlines() if rule.startswith("subscribe")]
    plan = DeployedPlan(1, text, {"Event": (SOURCE,)}, dict.fromkeys(names, OperatorPlace(OLD)), (ROOT,))
    with tempfile.TemporaryDirectory(prefix="situ-bench-") as work:
        out = Path(work, "out")
        arguments = {name: SiteArguments() for name in NETWORK.names}
        arguments |= {
            SOURCE: SiteArguments({"Event": f"flight://{PRODUCER}"}),
            ROOT: SiteArguments(out=str(out)),
        }
        sites, ends = LocalSites(NETWORK, arguments, Path(work, "sites")), threading.Event()
        try:
            sites.start()
            control = Control(sites.control, sites.addresses)
            control.deploy(plan, NETWORK.names)
            keys = make_producer_keys([PRODUCER], sites.directory / "keys")[PRODUCER]
            identities = Identities.of(PRODUCER, NETWORK.names, Credentials.read(keys, producer_identity(PRODUCER)))
            producer = Producer(identities, SOURCE, sites.addresses[SOURCE], "Event")
            feeder = PacedProducer(producer, held, ends)
            feeder.start()
            time.sleep(2 * WATCHED_S)  # the kernel is loaded, and windows are full
            yield QueryAtSites(control, plan, out)
            ends.set()
            feeder.join()
            producer.close()
        finally:
            ends.set()
            sites.close()


@dataclass(frozen=True, slots=True)
class MeasuredMove:
    """The longest time without a result before and while operators moved, and how long after the version's beginning
    all was done, in seconds."""

    before_s: float
    during_s: float
    done_s: float


def measured_move(strategy: StrategyWish, text: str, held: int) -> MeasuredMove:
    """One move at real sites."""
    with running_query(text, held) as running:
        began_s = time.time()
        starts_s, done_s = running.move(strategy)
        time.sleep(max(starts_s + WATCHED_S - time.time(), 1.0))
        times = running.result_times_s()
    before = _longest_gap(times, began_s - WATCHED_S, began_s)
    return MeasuredMove(before, _longest_gap(times, began_s, done_s + 1.0), done_s - starts_s)


def _longest_gap(times: F64, since_s: float, until_s: float) -> float:
    within = times[(times >= since_s) & (times <= until_s)]
    if len(within) < 2:
        raise SituError("no results came", remedy="Try again on a machine that does less.")
    return float(np.diff(within).max())


def _median(moves: list[MeasuredMove]) -> MeasuredMove:
    """Of each figure the median."""
    columns = zip(*((m.before_s, m.during_s, m.done_s) for m in moves), strict=True)
    return MeasuredMove(*(float(np.median(column)) for column in columns))


def pauses(say: Say) -> Iterator[BenchFigure]:
    """How long results stop while a state of 8 MB moves."""
    text, found = query("1 h"), dict[str, MeasuredMove]()
    strategies: tuple[StrategyWish, ...] = ("mfgs", "naive")
    for strategy in strategies:
        say(f"transitions: a state of {HELD:,} held events moves by {strategy}")
        found[strategy] = _median([measured_move(strategy, text, HELD) for _ in range(RUNS)])
    mfgs, naive = found["mfgs"], found["naive"]
    more = (mfgs.during_s - mfgs.before_s) / ROUND_TRIP_S
    detail = f"{1000 * mfgs.during_s:.0f} ms, and {1000 * mfgs.before_s:.0f} ms before; a round trip is "
    detail += f"{1000 * ROUND_TRIP_S:.0f} ms; median of {RUNS} runs"
    measured = {"before_ms": 1000 * mfgs.before_s, "during_ms": 1000 * mfgs.during_s}
    yield BenchFigure("longest pause, mfgs", round(more, 2), "round trips more", detail, measured, Bar("at most", 3))
    ratio = naive.during_s / mfgs.during_s
    detail = f"naive {1000 * naive.during_s:.0f} ms, mfgs {1000 * mfgs.during_s:.0f} ms"
    measured = {"naive_ms": 1000 * naive.during_s, "mfgs_ms": 1000 * mfgs.during_s}
    yield BenchFigure("longest pause, naive", round(ratio, 1), "x mfgs's", detail, measured, Bar("at least", 5))


def spans(say: Say) -> Iterator[BenchFigure]:
    """What a move by `sms` does to results, and when the old instance is done."""
    say("transitions: an operator is cut in time")
    sms = _median([measured_move("sms", query(f"{WINDOW_S} s"), 0) for _ in range(RUNS)])
    detail = f"{1000 * sms.during_s:.0f} ms, and {1000 * sms.before_s:.0f} ms before; both ways are as long"
    measured = {"before_ms": 1000 * sms.before_s, "during_ms": 1000 * sms.during_s}
    more = 100 * (sms.during_s / sms.before_s - 1)
    yield BenchFigure("longest pause, sms", round(more, 1), "% more", detail, measured, Bar("at most", 5))
    beyond = (sms.done_s - WINDOW_S) / ROUND_TRIP_S
    detail = f"done {sms.done_s:.2f} s after the version began, with a window of {WINDOW_S} s"
    name = "completion of sms, beyond the window"
    measured = {"seconds": sms.done_s, "window_s": WINDOW_S}
    yield BenchFigure(name, round(beyond, 2), "round trips", detail, measured, Bar("at most", 4))


# ---- simulated sites

#: Seconds of windows, and of a hundred events how many begin a match.
WINDOWS_S, BEGINNING_SHARES = (1.0, 4.0, 16.0), (2, 30, 100)
SIMULATED = TransitionSetting(queries=100, rows_per_s=100.0, pieces_per_s=5.0, jitter_ms=5.0)


def held_share(window_s: float, share: int) -> Moving:
    """A rule that holds a share of its events for a window."""
    text = f"{STREAMS}\nsubscribe Held detect V1(section < {share}) as a then V1(count > 100) as b "
    text += f"within {round(window_s * 1000)} ms assign n = a.count group by highway"
    return Moving(text, {"Held": BEFORE[0]}, {"Held": AFTER[0]})


def moved_bytes(say: Say) -> Iterator[BenchFigure]:
    """What `auto` sends, against what each strategy would, over windows and states."""
    worst, cases = 0.0, dict[str, Mapping[str, int]]()
    strategies: tuple[StrategyWish, ...] = ("auto", "mfgs", "sms")
    for window_s in WINDOWS_S:
        for share in BEGINNING_SHARES:
            say(f"transitions: bytes, window {window_s:g} s, {share}% of events held")
            setting, moving = replace(SIMULATED, window_s=window_s), held_share(window_s, share)
            sent = {s: run_transition(setting, s, "concurrent", 1, moving).moved_bytes for s in strategies}
            cases[f"{window_s:g} s, {share}%"] = {str(s): count for s, count in sent.items()}
            worst = max(worst, sent["auto"] / min(sent["mfgs"], sent["sms"]))
    by = ["mfgs" if sent["mfgs"] < sent["sms"] else "sms" for sent in cases.values()]
    detail = f"{len(cases)} windows and states; mfgs sends less in {by.count('mfgs')}, sms in {by.count('sms')}"
    name = "bytes moved by auto, at worst"
    yield BenchFigure(name, round(worst, 3), "x the better strategy's", detail, dict(cases), Bar("at most", 1.1))


QUERIES = 50


def many_queries(say: Say) -> Iterator[BenchFigure]:
    """All queries at once, against one after another."""
    say(f"transitions: {QUERIES} queries, simulated")
    rules = "\n".join(
        f"subscribe Q{n} detect V1(section = {n}) as a then V1(section = {n}) as b within {1000 + n} ms "
        f"assign n = a.count group by highway"
        for n in range(QUERIES)
    )
    names = [f"Q{n}" for n in range(QUERIES)]
    moving = Moving(f"{STREAMS}\n{rules}", dict.fromkeys(names, BEFORE[0]), dict.fromkeys(names, AFTER[0]))
    orders: tuple[Order, ...] = ("sequential", "concurrent")
    simulated: dict[str, float] = {
        order: run_transition(SIMULATED, "mfgs", order, 1, moving).seconds for order in orders
    }
    say(f"transitions: {QUERIES} queries, real processes")
    real: dict[str, float] = {}
    for order in orders:
        with running_query(query(f"{WINDOW_S} s", QUERIES), 0) as running:
            began = time.time()
            real[order] = running.move("mfgs", order, SIMULATED.lead_s)[1] - began
    for how, seconds, bar in (("simulated", simulated, 10), ("real", real, 3)):
        ratio = seconds["sequential"] / seconds["concurrent"]
        detail = f"{seconds['sequential']:.1f} s and {seconds['concurrent']:.1f} s"
        name = f"{QUERIES} queries, sequential over concurrent, {how}"
        yield BenchFigure(name, round(ratio, 1), "x", detail, dict(seconds), Bar("at least", bar))


SECTIONS: Sections = {"pauses": pauses, "spans": spans, "bytes": moved_bytes, "queries": many_queries}

if __name__ == "__main__":
    sys.exit(main(__doc__, SECTIONS))
