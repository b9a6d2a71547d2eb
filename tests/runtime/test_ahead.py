"""Rows that lie ahead of the wall clock, in the embedded engine: rejected where the stream says so."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from situ.graph.query import Stream
from situ.io.rows.ahead import DEFAULT_AHEAD_US, reasons_ahead, with_default_ahead
from situ.runtime.embedded.engine import Engine

#: Noon of the first of March 2026, in seconds; ten years later; and what is a day.
NOON, LATER, DAY = 1_772_366_400, 2_087_985_600, 86_400

QUERY = """
stream Beat(device int, s int) time s in s{ahead}

subscribe Silence
  detect   Beat as last then not Beat within 60 s
  assign   device = last.device
  group by device
"""


def engine(ahead: str) -> Engine:
    return Engine(QUERY.format(ahead=ahead), wall_time=lambda: float(NOON))


def beats(*seconds: int) -> pa.Table:
    return pa.table({"device": [1] * len(seconds), "s": list(seconds)})


def test_a_row_ten_years_ahead_is_rejected_and_moves_no_time() -> None:
    """Before, it made the row after it late and let the open absence fire."""
    running = engine("  ahead 1 d")
    first = running.feed(beats(NOON, LATER, NOON + 10))
    assert first.late == {}
    assert first.complex_events["Silence"].num_rows == 0
    [rejected] = first.rejected["Beat"].to_pylist()
    assert rejected == {
        "_reason": "s: 2036-03-01 12:00:00 is more than 1 day ahead of the wall clock",
        "_row": f'{{"device": 1, "s": {LATER}}}',
        "_place": "rows of Beat",
    }
    assert first.events == 2
    assert running.feed(beats(NOON + 20)).late == {}


def test_as_far_ahead_as_the_stream_says_is_not_too_far() -> None:
    reached = engine("  ahead 1 d").feed(beats(NOON + DAY, NOON + DAY + 1))
    assert [row["_row"] for row in reached.rejected["Beat"].to_pylist()] == [f'{{"device": 1, "s": {NOON + DAY + 1}}}']


def test_one_row_alone_and_pieces_are_judged_alike() -> None:
    whole, pieces = engine("  ahead 5 s"), engine("  ahead 5 s")
    seconds = [NOON, NOON + 6, NOON + 5, NOON + 7]
    rejected = [pieces.feed(beats(second)).rejected for second in seconds]
    assert [bool(tables) for tables in rejected] == [False, True, False, True]
    joined = pa.concat_tables([tables["Beat"] for tables in rejected if tables])
    assert whole.feed(beats(*seconds)).rejected["Beat"].equals(joined)


def test_without_the_clause_and_in_bounded_input_nothing_is_ahead() -> None:
    assert engine("").feed(beats(NOON, LATER)).rejected == {}
    [output] = engine("  ahead 1 d").run({"Beat": beats(NOON, LATER)})
    assert (output.rejected, output.events) == ({}, 2)


def test_sources_that_are_read_as_they_come_have_a_default() -> None:
    stream = Stream("Beat", (), time="s", time_unit="s")
    times = np.array([NOON, NOON + DAY, NOON + DAY + 1]) * 1_000_000
    assert reasons_ahead(times, stream, NOON * 1_000_000) == {}
    judged = with_default_ahead(stream)
    assert judged.ahead_us == DEFAULT_AHEAD_US
    assert [*reasons_ahead(times, judged, NOON * 1_000_000)] == [2]
    assert with_default_ahead(judged) is judged
