"""What the embedded engine does beside raw speed: partial matches that never end, counts of matches, single events.

`python -m situ.bench.embedded_speed`, part of `make bench`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from situ.bench.sections import Say
from situ.bench.sections import main as show
from situ.bench.suite import Bar, BenchFigure
from situ.bench.workload import Workload, events, query_text
from situ.runtime.embedded import Engine

ROWS, KEYS, SEED = 1_000_000, 1_000, 1
#: One event in so many is a c.
RARE = 2_000
#: Events of ten keys, a second apart, whose matches are counted.
COUNTED = 200_000
#: Warm events that are fed alone.
ALONE = 2_000
STREAM = "stream E(id int, key int, type int, ts timestamp) time ts order id"


def rare_events() -> pa.Table:
    """As many a as b, and few c; a millisecond apart."""
    random = np.random.default_rng(SEED)
    drawn = random.random(ROWS)
    types = np.where(drawn < 1 / RARE, 2, np.where(drawn < 0.5, 0, 1))
    ids = np.arange(ROWS)
    times = pa.array(ids, pa.timestamp("ms")).cast(pa.timestamp("us", tz="UTC"))
    return pa.table({"id": ids, "key": random.integers(0, KEYS, ROWS), "type": types, "ts": times})


def _seconds(query: str, table: pa.Table) -> tuple[float, int]:
    """The fastest of three runs, and what was found."""
    taken = []
    for _ in range(3):
        begun = time.perf_counter()
        found = sum(t.num_rows for o in Engine(query).run({"E": table}) for t in o.complex_events.values())
        taken.append(time.perf_counter() - begun)
    return min(taken), found


def each_of_rare_ends(say: Say) -> Iterator[BenchFigure]:
    """`a then each b then each c` where c is rare, against `then`."""
    say("embedded: a then each b then each c, c rare")
    table, seconds, found = rare_events(), {}, {}
    for follows in ("then", "then each"):
        steps = f" {follows} ".join(f"E(type = {number}) as {alias}" for number, alias in enumerate("abc"))
        query = f"{STREAM} subscribe S detect {steps} within 100 s assign a = a.id, c = c.id group by key"
        seconds[follows], found[follows] = _seconds(query, table)
    ratio = seconds["then each"] / seconds["then"]
    detail = f"{seconds['then each']:.2f} s for {found['then each']:,} matches, `then` {seconds['then']:.2f} s"
    measured = {"seconds": seconds, "matches": found}
    name = f"embedded: then each, one event in {RARE:,} ends it"
    yield BenchFigure(name, round(ratio, 2), "x the time of `then`", detail, measured, Bar("at most", 3))


def counts_of_matches(say: Say) -> Iterator[BenchFigure]:
    """How many matches of `then each` there are, in windows that are ten times as long, and so are those of the
    pattern."""
    say("embedded: count(M) over windows")
    ids = np.arange(COUNTED)
    times = pa.array(ids, pa.timestamp("s")).cast(pa.timestamp("us", tz="UTC"))
    table, seconds = pa.table({"id": ids, "key": ids * 7 % 10, "type": ids * 13 // 10 % 2, "ts": times}), {}
    for window_s in (1_000, 10_000):
        query = (
            f"{STREAM} define M(key) detect E(type = 0) as a then each E(type = 1) as b within {window_s} s "
            f"assign key = a.key group by key subscribe S aggr every {window_s} s detect M assign n = count(M)"
        )
        seconds[window_s], _ = _seconds(query, table)
    ratio = seconds[10_000] / seconds[1_000]
    detail = f"{seconds[1_000]:.2f} s and {seconds[10_000]:.2f} s"
    name = "embedded: count(M), windows of 10,000 s against 1,000 s"
    yield BenchFigure(name, round(ratio, 2), "x", detail, {"seconds": seconds}, Bar("at most", 1.2))


def one_event_alone(say: Say) -> Iterator[BenchFigure]:
    """An event that is fed by itself."""
    say("embedded: one event alone")
    engine, rows = Engine(query_text(Workload(types=3)), threads=1), events(0, 2 * ALONE, types=3, keys=10)
    taken = []
    for number in range(rows.num_rows):
        begun = time.perf_counter()
        engine.feed(rows.slice(number, 1))
        taken.append(time.perf_counter() - begun)
    median_ms = float(np.median(taken[ALONE:])) * 1e3
    yield BenchFigure(
        "embedded: one event fed alone", round(median_ms, 3), "ms", "the median", {"ms": median_ms},
        Bar("at most", 0.15),
    )  # fmt: skip


SECTIONS = {"each": each_of_rare_ends, "count": counts_of_matches, "one-event": one_event_alone}

if __name__ == "__main__":
    sys.exit(show(__doc__, SECTIONS))
