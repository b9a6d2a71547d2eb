"""Moving subscriptions for tests of switching: rules, with how far back their events lie, and random events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mobility.interests_by_words import Delivered, Row, deliveries
from mobility.test_moving import INTERESTS as INTERESTS
from mobility.test_moving import PAIR, RULES, STREAMS, random_events
from situ.graph.operators import OperatorGraph
from situ.lab.mcep.switching.switch import Switched, switch
from situ.lang.parse import parse
from situ.lang.resolve import resolve

COMBINED = "define Both(v) detect Car as a then each Lamp as b within 3 s assign v = b.v\n"
FAST = "define Fast(id, v) detect Car(v > 1) as a assign id = a.id, v = a.v\n"
MEAN = "define Mean(v) aggr every 1 s over 3 s detect Car assign v = count(Car)\n"

#: Those of mobility.test_moving, and some that read definitions: definitions, rule, seconds for Car, for Lamp.
ALL_RULES = {name: (PAIR if name == "chain" else "", *rule) for name, rule in RULES.items()} | {
    "each": ("", "detect Car as a then each Lamp(v > a.v) as b within 3 s assign v = b.v, w = a.v", 3, 3),
    "loop each": ("", "detect Car(v > 1){2} each as a within 3 s assign n = sum(a.v)", 3, 0),
    "until": ("", "detect Car+ greedy until Lamp(v > 2) as a then Lamp as b within 3 s assign n = count(a)", 3, 3),
    "immediately": ("", "detect Car as a then immediately Car(v > a.v) as b within 3 s assign v = b.v", 3, 0),
    "last": ("", "detect Car as a then last Lamp as b within 3 s assign v = b.v, w = a.v", 3, 3),
    "consuming": ("", "detect Car as a then each Lamp as b within 3 s assign v = b.v consuming a", 3, 3),
    "previous": ("", "detect Car as a then Car(v > a.v) as b within 2 s from previous assign v = b.v group by id",
                 4, 0),
    "cases": ("", "case 1: detect Car(v > 2) as a assign v = a.v "
                  "case 2: detect Lamp as b then Car as c within 2 s assign v = c.v", 2, 2),
    "local chain": (COMBINED, "detect Both as p then each Car(v > p.v) as q within 4 s assign v = q.v", 7, 7),
    "filters": (FAST, "detect Fast as p and Fast(v > p.v) as q within 4 s assign v = q.v, w = p.v", 4, 0),
    "of means": (MEAN, "detect Mean as p then Mean(v > p.v) as q within 4 s assign v = q.v", 7, 0),
    "means of chains": (PAIR, "aggr every 2 s over 6 s detect Pair and outer Car "
                              "assign n = count(Pair), m = count(Car)", 9, 9),
    "two paths": (FAST + PAIR, "detect Fast as p then each Pair as q within 4 s assign v = q.v, w = p.v", 7, 7),
}  # fmt: skip

#: Rules whose graphs preserve locality throughout.
LOCAL = ("each", "loop each", "local chain", "filters", "single", "or", "and", "join")


def graph_of(rule: str, interest: str) -> OperatorGraph:
    definitions, body, _, _ = ALL_RULES[rule]
    focal = interest.split()[1]
    return resolve(parse(f"{STREAMS}{definitions}subscribe Near for {focal}(id)\n  {body}\n  {interest}\n"))


def events_of(seed: int, rule: str = "", interest: str = "", seconds: int = 9) -> dict[str, list[Row]]:
    return random_events(np.random.default_rng([seed, len(rule), len(interest)]), seconds)


def tables_of(events: dict[str, list[Row]]) -> dict[str, pa.Table]:
    schema = pa.schema(
        [("id", pa.int64()), ("x", pa.float64()), ("y", pa.float64()), ("v", pa.int64()), ("ts", pa.int64())]
    )
    return {name: pa.Table.from_pylist(rows, schema) for name, rows in events.items()}


def expected_of(rule: str, graph: OperatorGraph, events: dict[str, list[Row]]) -> list[Delivered]:
    _, _, cars_s, lamps_s = ALL_RULES[rule]
    found = deliveries(graph, events, {"Car": cars_s, "Lamp": lamps_s})
    return sorted(found, key=lambda one: one[:3])


def rows_of(switched: Switched) -> list[Delivered]:
    rows: list[dict[str, Any]] = switched.delivered.to_pylist()
    return [
        (
            row.pop("consumer"),
            row.pop("interest"),
            row["_time"].timestamp(),
            tuple(sorted((name, value) for name, value in row.items() if not name.startswith("_"))),
        )
        for row in rows
    ]


def run(graph: OperatorGraph, events: dict[str, list[Row]], **options: Any) -> Switched:
    return switch(graph, "Near", tables_of(events), **options)
