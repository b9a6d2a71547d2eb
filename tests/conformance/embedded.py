"""The embedded engine: on whole tables, and on rows that come in pieces."""

from __future__ import annotations

import random
from collections import defaultdict

import pyarrow as pa

from cases.case_file import Found
from conformance.question import Question, pieces
from runtime.comparison import check_low_watermarks
from situ.runtime.embedded import Engine, Output


class Whole:
    """Bounded input, as tables: sorted by the engine, never late."""

    def accepts(self, question: Question) -> bool:
        return not question.arriving

    def run(self, question: Question, rng: random.Random) -> Found:
        engine = Engine(question.graph, show_definitions=True)
        return outputs_to_found(list(engine.run(dict(question.events))))


class InPieces:
    """Unbounded input: rows in some order of arrival, cut anywhere or, with a chance of 1, after every row. With
    `restarts`, another engine goes on after every piece."""

    def __init__(self, cut_chance: float | None = None, restarts: bool = False) -> None:
        self._cut_chance = cut_chance
        self._restarts = restarts

    def accepts(self, question: Question) -> bool:
        return not question.ends_only

    def run(self, question: Question, rng: random.Random) -> Found:
        engine = Engine(question.graph, show_definitions=True)
        outputs = []
        for piece in pieces(question, rng, self._cut_chance):
            outputs += [engine.feed(table, stream) for stream, table in piece.items()]
            if self._restarts:
                engine = _restarted(engine)
        outputs.append(engine.close())
        check_low_watermarks(outputs)
        if not question.arriving:
            assert not any(rows for output in outputs for rows in map(len, output.late.values()))
        return outputs_to_found(outputs)


def _restarted(engine: Engine) -> Engine:
    """Another engine that goes on from the first one's snapshot."""
    new = Engine(engine.graph, show_definitions=True)
    new.restore(engine.snapshot())
    return new


def outputs_to_found(outputs: list[Output]) -> Found:
    """What several outputs say together."""
    parts: dict[str, dict[str, list[pa.Table]]] = defaultdict(lambda: defaultdict(list))
    for output in outputs:
        for kind in ("complex_events", "timed_out", "late", "rejected"):
            for name, table in getattr(output, kind).items():
                parts[kind][name].append(table)
    return Found(**{kind: {n: pa.concat_tables(t) for n, t in of_kind.items()} for kind, of_kind in parts.items()})
