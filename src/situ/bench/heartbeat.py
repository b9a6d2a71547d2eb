"""Devices that fall silent: the embedded engine, fed second by second, with a row of every device in each call.

`python -m situ.bench.heartbeat`, part of `make bench`.
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
from situ.kernel.state.snapshot import unpack
from situ.runtime.embedded import Engine

DEVICES = 100_000
WARM_UP_S, MEASURED_S = 5, 20
#: One device in so many misses each beat, and so is silent at times.
ONE_IN = 200
SEED = 1
QUERY = """
stream Beat(device int, ts int) time ts in s
subscribe Silent
  detect   Beat as b then no Beat for 2 s
  assign   device = b.device, last = b.ts
  group by device
"""


def beats() -> list[pa.Table]:
    """The rows of every second, in any order."""
    random = np.random.default_rng(SEED)
    tables = []
    for second in range(WARM_UP_S + MEASURED_S):
        devices = random.permutation(DEVICES)[: DEVICES - DEVICES // ONE_IN]
        tables.append(pa.table({"device": devices, "ts": np.full(len(devices), second)}))
    return tables


def state_bytes(engine: Engine) -> int:
    """The size of the state's tables. Compressed, as a snapshot has them, they grow a little for a while although they
    have no more rows: the devices' counts of events, which are equal at first, come apart with every beat missed."""
    return sum(table.nbytes for table in unpack(engine.snapshot()).values())


def heartbeat(say: Say) -> Iterator[BenchFigure]:
    """Events per second, and how much the state has grown since it was warm."""
    say(f"heartbeat: {DEVICES:,} devices, second by second")
    engine, tables = Engine(QUERY), beats()
    seconds, rows, silent, warm = 0.0, 0, 0, 0
    for second, table in enumerate(tables):
        begun = time.perf_counter()
        output = engine.feed(table)
        if second >= WARM_UP_S:
            seconds += time.perf_counter() - begun
            rows += table.num_rows
            silent += output.complex_events["Silent"].num_rows
        if second == WARM_UP_S:
            warm = state_bytes(engine)
    per_s, growth = rows / seconds, state_bytes(engine) / warm
    measured = {"events_per_s": per_s, "silent": silent, "state_growth": growth}
    detail = f"{silent:,} silences found; fed {DEVICES:,} rows a call"
    name = f"embedded: heartbeat of {DEVICES:,} devices"
    yield BenchFigure(name, round(per_s / 1e6, 2), "million events/s", detail, measured, Bar("at least", 3))
    yield BenchFigure(f"{name}, state", round(growth, 3), "x that of a warm start", "bytes of its tables", measured,
                      Bar("at most", 1.01))  # fmt: skip


SECTIONS = {"heartbeat": heartbeat}

if __name__ == "__main__":
    sys.exit(show(__doc__, SECTIONS))
