"""The embedded engine answers Siddhi's own pattern and sequence cases as Siddhi does: whole, and event by event.

A case is said directly if it is one subscription, and answered alike if its rows and their number are those of the
file. `REASONS` lists every other case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from conformance.siddhi import App, SiddhiCase, Unsayable, load, read_app, to_situ
from situ.runtime.embedded import Engine, Output

# Some of the texts warn.
pytestmark = pytest.mark.filterwarnings("ignore::situ.core.errors.SituWarning")

START = datetime(1970, 1, 1, tzinfo=UTC)
ARROW = {"string": pa.string(), "float": pa.float64(), "int": pa.int64(), "long": pa.int64()}

NEITHER = "The file has neither rows nor a number for this case."
DISAGREE = "The rows that the file lists and the number that it gives disagree, so no answer has both."
END = "The file's end is later than the moment at which Siddhi's test counts: it includes a sleep after the shutdown."
TIMES = "Siddhi's test gives its events times of their own (playback), and the file's times are others."
GROUPS = "In Siddhi the next group of `every (...)` begins when the last is complete; situ's groups overlap."
BEFORE = "`every (not X and e)` comes first: no `not` of situ's comes before the first step of each match."
RESTART = "In Siddhi the event on one side of an `or` under `every` begins the silence on its other side anew."
SIDES = "Siddhi's sequence tells `every (silence or ...)` once for each next event, situ each side, or the first only."
BREAKS = "In Siddhi the event that breaks an absence starts nothing; in situ it starts a match of its own."
KEYS = "One match for each key is `once` with `group by`, which unbounded input refuses; a pause lets others start."
REPEATED = "`every` is around an `and` of two silences, and situ repeats no `and`."
OVER = "Siddhi's sequence is over with the event that breaks a silence at its beginning; situ's silence begins anew."

REASONS: dict[str, str] = {
    "EveryPattern testQuery10": NEITHER,
    "Sequence testTimeBatchAndSequence": NEITHER,
    "AbsentPattern testQueryAbsent42": DISAGREE,
    "EveryAbsentPattern testQueryAbsent12": DISAGREE,
    "EveryAbsentPattern testQueryAbsent6": DISAGREE,
    "LogicalAbsentPattern testQueryAbsent46": DISAGREE,
    "AbsentSequence testQueryAbsent4": DISAGREE,
    "AbsentSequence testQueryAbsent6": DISAGREE,
    "EveryAbsentSequence testQueryAbsent4_1": DISAGREE,
    "LogicalAbsentSequence testQueryAbsent15": DISAGREE,
    "LogicalAbsentSequence testQueryAbsent31": DISAGREE,
    "AbsentPattern testQueryAbsent41": END,
    "AbsentPattern testQueryAbsent43": KEYS,
    "EveryAbsentPattern testQueryAbsent1": END,
    "EveryAbsentPattern testQueryAbsent7": END,
    "EveryAbsentPattern testQueryAbsent13": END,
    "EveryAbsentPattern testQueryAbsent14": END,
    "EveryAbsentPattern testQueryAbsent22": END,
    "LogicalAbsentSequence testQueryAbsent66": END,
    "AbsentWithEveryPattern testQuery7": TIMES,
    "AbsentWithEveryPattern testQuery8": BREAKS,
    "EveryAbsentPattern testQueryAbsent3": TIMES,
    "ComplexPattern testQuery2": GROUPS,
    "EveryPattern testQuery5": GROUPS,
    "LogicalPattern testQuery19": GROUPS,
    "EveryAbsentPattern testQueryAbsent43": BEFORE,
    "EveryAbsentPattern testQueryAbsent44": BEFORE,
    "EveryAbsentPattern testQueryAbsent49": BEFORE,
    "EveryAbsentSequence testQueryAbsent18": BEFORE,
    "EveryAbsentSequence testQueryAbsent19": BEFORE,
    "EveryAbsentSequence testQueryAbsent20": BEFORE,
    "LogicalAbsentPattern testQueryAbsent52": RESTART,
    "LogicalAbsentPattern testQueryAbsent58": RESTART,
    "LogicalAbsentSequence testQueryAbsent52": RESTART,
    "LogicalAbsentSequence testQueryAbsent58": RESTART,
    "LogicalAbsentSequence testQueryAbsent47": SIDES,
    "LogicalAbsentSequence testQueryAbsent48": SIDES,
    "LogicalAbsentSequence testQueryAbsent53": SIDES,
    "LogicalAbsentSequence testQueryAbsent59": SIDES,
    "LogicalAbsentPattern testQueryAbsent49": REPEATED,
    "LogicalAbsentPattern testQueryAbsent50": REPEATED,
    "AbsentSequence testQueryAbsent18": OVER,
    "EveryAbsentSequence testQueryAbsent11": OVER,
}

CASES = load()
DIRECT = [case for case in CASES if case.name not in REASONS]


def tables_of(case: SiddhiCase, app: App) -> dict[str, pa.Table]:
    """The events of each stream; `n` is the place in the list of all."""
    rows: dict[str, list[dict[str, Any]]] = {stream: [] for stream in app.streams}
    for n, event in enumerate(case.events):
        names = [name for name, _ in app.streams[event["stream"]]]
        rows[event["stream"]].append(dict(zip(names, event["data"], strict=True)) | {"n": n, "t": event["t_ms"]})
    return {stream: pa.Table.from_pylist(rows[stream], schema_of(app, stream)) for stream in app.streams}


def schema_of(app: App, stream: str) -> pa.Schema:
    return pa.schema(
        [*((name, ARROW[type_]) for name, type_ in app.streams[stream]), ("n", pa.int64()), ("t", pa.int64())]
    )


def whole(case: SiddhiCase) -> bool:
    app = read_app(case.app)
    engine = Engine(to_situ(app), start=START)
    return answers_as_siddhi(case, app, engine.run(tables_of(case, app)))


def event_by_event(case: SiddhiCase) -> bool:
    app = read_app(case.app)
    engine = Engine(to_situ(app), start=START)
    tables, places = tables_of(case, app), Counter[str]()
    outputs = []
    for event in case.events:
        stream = event["stream"]
        outputs.append(engine.feed(tables[stream].slice(places[stream], 1), stream))
        places[stream] += 1
    return answers_as_siddhi(case, app, [*outputs, engine.close()])


def answers_as_siddhi(case: SiddhiCase, app: App, outputs: Iterable[Output]) -> bool:
    """Results after the end do not count: Siddhi's test was over."""
    results = [row for output in outputs for row in output.complex_events["M"].to_pylist()]
    in_time = [row for row in results if (row["_time"] - START).total_seconds() * 1000 <= case.end_ms]
    rows = Counter(tuple(row[name] for name, _ in app.select if name != "*") for row in in_time)
    if case.expected is not None and rows != Counter(map(tuple, case.expected)):
        return False
    return len(in_time) == case.expected_count


@pytest.mark.parametrize("case", DIRECT, ids=lambda case: case.name)
def test_whole(case: SiddhiCase) -> None:
    assert whole(case)


@pytest.mark.parametrize("case", DIRECT, ids=lambda case: case.name)
def test_event_by_event(case: SiddhiCase) -> None:
    assert event_by_event(case)


@pytest.mark.parametrize("name", REASONS)
def test_reason_is_needed(name: str) -> None:
    (case,) = [case for case in CASES if case.name == name]
    try:
        answers = (whole(case), event_by_event(case))
    except Unsayable:
        return
    assert answers == (False, False)


def test_number_of_direct_cases() -> None:
    assert (len(CASES), len(DIRECT)) == (383, 340)
