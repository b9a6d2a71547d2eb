"""Quality that is computed from regions equals quality from the provenance of what the engine delivered."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from situ.lab.quality.atoms import atoms_of_origins
from situ.lab.quality.precision_recall import quality_of_masks, quality_of_sets
from situ.runtime.embedded import Engine
from situ.space.geometry import Shape

#: Every event around a consumer is a complex event, so what is delivered for an interest names all its atomic events.
TEXT = """
stream Car(id int, x double, y double, ts int) time ts in s at (x, y)
stream Lamp(id int, x double, y double, ts int) time ts in s at (x, y)
subscribe Near for Car(id)
  detect Car as a or Lamp as b assign x = coalesce(a.x, b.x)
  around Car {shape} lifetime 4 s update every 5 s
"""

_ORIGINS = pa.list_(pa.struct([("stream", pa.string()), ("row", pa.int64())]))


def random_table(rng: np.random.Generator, rows: int) -> pa.Table:
    ids = np.arange(rows) % 3
    x, y = rng.integers(0, 40, (2, rows)).astype(float)
    return pa.table({"id": ids, "x": x, "y": y, "ts": np.sort(rng.integers(0, 25, rows))})


def origins_by_interest(text: str, tables: dict[str, pa.Table], consumer: int) -> dict[int, list[dict[str, object]]]:
    found: dict[int, list[dict[str, object]]] = {}
    for output in Engine(text, provenance=True).run(tables):
        for row in output.complex_events["Near"].to_pylist() if "Near" in output.complex_events else []:
            if row["consumer"] == consumer:
                found.setdefault(row["interest"], []).extend(row["_origins"])
    return found


@pytest.mark.parametrize(("shape", "is_round"), [("square 20 m", False), ("circle 10 m", True)])
@pytest.mark.parametrize("seed", range(3))
def test_processed_for_one_interest_asked_by_another(shape: str, is_round: bool, seed: int) -> None:
    """How well each interest of a consumer would serve the region of the next, on the events of its own time."""
    rng = np.random.default_rng(seed)
    tables = {"Car": random_table(rng, 60), "Lamp": random_table(rng, 90)}
    delivered = origins_by_interest(TEXT.format(shape=shape), tables, 0)
    cars = tables["Car"].filter(pc.equal(tables["Car"]["id"], 0)).to_pylist()
    starts = interests(cars)
    every = [(name, row, r) for name in tables for row, r in enumerate(tables[name].to_pylist())]
    checked = 0
    for number, (now, following) in enumerate(pairwise(starts), start=1):
        lived = [(s, k, r) for s, k, r in every if now["ts"] - 4 <= r["ts"] <= following["ts"]]
        x, y = (np.array([row[axis] for _, _, row in lived]) for axis in "xy")
        held = Shape(10.0, 10.0, is_round).holds(x, y, *(np.array([now[a], following[a]]) for a in "xy"))
        by_regions = quality_of_masks(held[1:], held[:1])
        asked = [{"stream": s, "row": k} for (s, k, _), wanted in zip(lived, held[1], strict=True) if wanted]
        processed = [{"stream": o["stream"], "row": o["row"]} for o in delivered.get(number, [])]
        sets = atoms_of_origins(*(pa.array([atoms], _ORIGINS) for atoms in (asked, processed)))
        by_provenance = quality_of_sets(*sets)
        assert by_regions.precision[0, 0] == by_provenance.precision[0]
        assert by_regions.recall[0, 0] == by_provenance.recall[0]
        checked += len(asked) > 0 and len(processed) > 0
    assert checked > 1


def interests(updates: list[dict[str, float]]) -> list[dict[str, float]]:
    """Of `update every 5 s`: of several of a time the one with the largest x, then y."""
    at = {row["ts"]: row for row in sorted(updates, key=lambda row: (row["x"], row["y"]))}
    taken: list[dict[str, float]] = []
    for time in sorted(at):
        row = at[time]
        place = (row["x"], row["y"])
        if not taken or (time - taken[-1]["ts"] >= 5 and place != (taken[-1]["x"], taken[-1]["y"])):
            taken.append(row)
    return taken
