"""What comes out, and in which order, does not depend on how many threads work."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from situ.runtime.embedded import Engine

QUERY = """
stream E(k int, v int, ts int) time ts in ms order ts
subscribe Up
  detect   E(v < 300) as a then E(v > a.v + 600) as b then each E(v > 900) as c within 40 ms
  assign   k = a.k, a = a.v, b = b.v, c = c.v
  group by k
subscribe Down
  detect   E(v > 700) as a then E(v < a.v - 600)+ as b within 30 ms
  assign   k = a.k, n = count(b), low = min(b.v)
  group by k
  after match skip past last
subscribe Load
  aggr every 50 ms
  detect   E
  assign   k = group.k, n = count(E), s = sum(E.v)
  group by k
"""


def found(threads: int, times: np.ndarray) -> dict[str, pa.Table]:
    rng = np.random.default_rng(7)
    size = len(times)
    table = pa.table({"k": rng.integers(0, 9, size), "v": rng.integers(0, 1000, size), "ts": times})
    outputs = list(Engine(QUERY, threads=threads).run({"E": table}))
    return {name: pa.concat_tables([o.complex_events[name] for o in outputs]) for name in ("Up", "Down", "Load")}


@pytest.mark.jit_only  # it takes many events before threads start
@pytest.mark.parametrize("step", [1, 3], ids=["distinct times", "ties"])
def test_threads_change_nothing(step: int) -> None:
    times = np.arange(120_000) // step
    alone = found(1, times)
    assert all(table.num_rows > 100 for table in alone.values())
    assert found(2, times) == alone
    assert found(8, times) == alone
