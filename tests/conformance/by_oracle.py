"""The oracle: brute force, written from docs/language.md."""

from __future__ import annotations

import random

import pyarrow as pa

from cases.case_file import Found
from conformance.question import Question, times_us
from oracle import Match, detect
from situ.graph.operators import OperatorGraph
from situ.graph.query import Stream


class Oracle:
    """Finds matches by brute force in the events that have a time and are not late."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit

    def accepts(self, question: Question) -> bool:
        return True

    def run(self, question: Question, rng: random.Random) -> Found:
        """What the definition of the language says; `TooLarge` beyond the limit."""
        accepted = {}
        for stream in question.graph.streams:
            table = question.events[stream.name]
            times = times_us(stream, table)
            is_accepted = [time is not None for time in times]
            if question.arriving:
                is_accepted = [a and not late for a, late in zip(is_accepted, _late(stream, times), strict=True)]
            accepted[stream.name] = table.filter(pa.array(is_accepted, pa.bool_())).to_pylist()
        limits = {} if self._limit is None else {"limit": self._limit}
        result = detect(question.graph, accepted, **limits)
        return Found(
            {name: _to_table(question.graph, name, matches) for name, matches in result.matches.items()},
            {name: _to_table(question.graph, name, matches) for name, matches in result.timed_out.items()},
        )


def _late(stream: Stream, times: list[int | None]) -> list[bool]:
    """Which rows are before the largest time of their stream so far minus the watermark."""
    late, largest_us = [], None
    for time_us in times:
        late.append(time_us is not None and largest_us is not None and time_us < largest_us - stream.watermark_us)
        largest_us = max((time for time in (largest_us, time_us) if time is not None), default=None)
    return late


def _to_table(graph: OperatorGraph, name: str, matches: list[Match]) -> pa.Table:
    boxes = [match.event.box or (None, None, None, None) for match in matches]
    columns = {a: pa.array([match.attributes[a] for match in matches]) for a in graph.schemas[name].names}
    times = pa.array([match.time for match in matches], pa.timestamp("us", tz="UTC"))
    extent = zip(("_x_min", "_y_min", "_x_max", "_y_max"), zip(*boxes, strict=True) if boxes else [[]] * 4, strict=True)
    return pa.table(columns | {"_time": times} | {side: pa.array(values, pa.float64()) for side, values in extent})
