"""Rules, graphs, crowds and settings for the tests of reuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mobility.interests_by_words import Delivered, Row
from mobility.test_moving import SCHEMA, STREAMS
from situ.lab.recep.selections import ByCount, ByTime, Nearest, Reused, ReuseSettings, reuse

S = 1_000_000
#: Of each kind something; all deliver what the engine does if consumers ask for everything.
SETTINGS = {
    "none": ReuseSettings("none"),
    "single": ReuseSettings("mqc", ByCount(1)),
    "every": ReuseSettings("mqc", ByTime(2 * S), over="every", most=1),
    "batches": ReuseSettings("mnh", ByTime(4 * S)),
    "infinite": ReuseSettings("mqc", None, phase_us=3 * S),
    "neighbours": ReuseSettings("mnh", ByCount(3), neighbours=Nearest(50.0, 2), most=2),
}
#: Rules whose selections may be processed one without the other.
SHARED = ("sequence", "grouped", "and", "absence", "loop", "aggregation", "join", "single", "or", "chain")
#: Graphs of two and three levels, and how far back their events may lie.
GRAPHS = {
    "counts": (
        "define Many(v) detect Car(v > 0){2} as run within 5 s assign v = max(run.v)\n",
        "detect Many as a then Lamp as b then Many(v >= a.v) as c within 6 s assign v = c.v",
        11,
    ),
    "three levels": (
        "define Pair(v) detect Car as a then Lamp as b within 3 s assign v = a.v + b.v\n"
        "define Sum(v) aggr every 2 s over 4 s detect Pair assign v = sum(Pair.v)\n",
        "detect Sum as s then Car(v < s.v) as c within 3 s assign v = c.v",
        10,
    ),
    "dependent below": (
        "define Pair(v) detect Car as a then Lamp as b within 3 s assign v = b.v after match skip past last\n",
        "detect Pair as p then Pair as q within 5 s assign v = q.v",
        8,
    ),
    "dependent above": (
        "define Pair(v) detect Car as a then Lamp as b within 3 s assign v = b.v\n",
        "detect Pair as p then Pair as q within 5 s assign v = q.v after match skip past last",
        8,
    ),
}


def tables_of(events: dict[str, list[Row]]) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist(rows, SCHEMA) for name, rows in events.items()}


def text_of_graph(graph: str, interest: str) -> str:
    define, body, _ = GRAPHS[graph]
    return f"{STREAMS}{define}subscribe Near for {interest.split()[1]}(id)\n  {body}\n  {interest}\n"


def rows_of(delivered: pa.Table) -> list[Delivered]:
    """As the oracle has them."""
    own = ("consumer", "interest", "_time", "precision", "recall", "disparity")
    return [
        (
            row["consumer"],
            row["interest"],
            row["_time"].timestamp(),
            tuple(sorted((name, value) for name, value in row.items() if name not in own)),
        )
        for row in delivered.to_pylist()
    ]


def crowd(seed: int, seconds: int = 20, cars: int = 6) -> dict[str, list[Row]]:
    """Consumers near each other, so that there is something to share."""
    rng = np.random.default_rng(seed)
    events: dict[str, list[Row]] = {"Car": [], "Lamp": []}
    for stream, number in (("Car", cars), ("Lamp", 3)):
        places = rng.integers(0, 40, (number, 2)).astype(float)
        for ts in range(seconds):
            for id_ in range(number):
                places[id_] += rng.integers(-3, 4, 2)
                if rng.random() < 0.6:
                    x, y = map(float, places[id_])
                    events[stream].append({"id": id_, "x": x, "y": y, "v": int(rng.integers(0, 5)), "ts": ts})
    return events


AROUND = "around Car square 60 m update every 4 s lifetime 2 s"


def run(text: str, seed: int, settings: ReuseSettings, thresholds: Any, **how: int) -> Reused:
    return reuse(text, "Near", tables_of(crowd(seed, **how)), settings, thresholds)


QUALITY = ("precision", "recall", "disparity")
