"""Random subscriptions whose consumers share, leave, and say what they ask for; and what they get, by words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mobility.interests_by_words import Row
from mobility.quality_by_words import Judging, Shared, shared_deliveries
from mobility.test_moving import SCHEMA, STREAMS
from mobility.test_quality import ALL_RULES, DEFINED, INTERESTS, QUALITIES, crowded
from situ.lang.parse import parse
from situ.lang.resolve import resolve

#: `w` is a threshold, sometimes null or none at all.
SAYING = STREAMS.replace("v int", "v int, w double")
SAYING_SCHEMA = SCHEMA.append(pa.field("w", pa.float64()))
THRESHOLDS = (*QUALITIES, "precision w recall 0.5", "precision w recall w", "recall w")
LEAVING = ("", "leave when v = 4", "leave after 1 s", "leave when v = 4 leave after 2 s")
#: Rows up to here are compared: later ones only let time pass.
LAST_S = 900.0


@dataclass(frozen=True)
class SharingCase:
    """A subscription by its rule and its other clauses, and events."""

    rule: str
    clauses: str
    events: dict[str, list[Row]]

    def subscription(self, name: str = "Near") -> str:
        focal = self.clauses.split()[1]
        return f"subscribe {name} for {focal}(id)\n  {ALL_RULES[self.rule][0]}\n  {self.clauses}\n"

    @property
    def text(self) -> str:
        return SAYING + DEFINED.get(self.rule, "") + self.subscription()

    @property
    def text_of_stream(self) -> str:
        """The same for rows that come out of order."""
        return in_any_order(self.text)

    @property
    def tables(self) -> dict[str, pa.Table]:
        return {name: pa.Table.from_pylist(rows, SAYING_SCHEMA) for name, rows in self.events.items()}

    def truth(self) -> tuple[list[Shared], Judging]:
        """What everyone gets, and how that was decided, by words."""
        leaves = (lambda row: row["v"] == 4) if "leave when" in self.clauses else (lambda row: False)
        return shared_deliveries(resolve(parse(self.text)), self.events, ALL_RULES[self.rule][1], leaves)


def in_any_order(text: str) -> str:
    return text.replace("at (x, y)", "at (x, y) watermark 3 s")


def cases_of(rng: np.random.Generator, rules: list[str], seconds: int = 12) -> list[SharingCase]:
    """A case for each rule, all of them on the same events."""
    events = unruly(rng, seconds)
    return [
        SharingCase(
            rule, " ".join((_any(rng, INTERESTS), _any(rng, LEAVING), "quality", _any(rng, THRESHOLDS))), events
        )
        for rule in rules
    ]


def unruly(rng: np.random.Generator, seconds: int) -> dict[str, list[Row]]:
    """Traffic in which everything unusual happens: nobody is heard of for some seconds, somebody is far from all
    events, updates come twice, with other places, thresholds or wishes to leave, and so do events."""
    events = crowded(rng, seconds)
    silent = range(*np.sort(rng.integers(0, seconds, 2))) if rng.random() < 0.5 else range(0)
    for stream, rows in events.items():
        kept = [row for row in rows if row["ts"] not in silent or rng.random() < 0.1]
        far = [{"id": 9, "x": 5000.0 + ts, "y": 5000.0, "v": 0, "ts": ts} for ts in range(0, seconds, 4)]
        again = [row | {"v": int(rng.integers(5))} for row in kept if rng.random() < 0.05]
        moved = [row | {"x": row["x"] + 5.0} for row in kept if row["x"] is not None and rng.random() < 0.05]
        events[stream] = [*kept, *far, *again, *moved]
        for row in events[stream]:
            row["w"] = [0.3, 0.5, 0.8, 1.0, None, 1.7][int(rng.integers(6))]
    return events


def _any(rng: np.random.Generator, texts: tuple[str, ...]) -> str:
    return texts[int(rng.integers(len(texts)))]
