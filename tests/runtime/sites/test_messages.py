"""Messages between sites come back as they were, and what is none is refused as such."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from situ.core.time import BEGINNING, END
from situ.runtime.sites.deployed_plan import (
    DeployedPlan,
    NamedFunction,
    OperatorPlace,
    PlanError,
    plan_of_json,
    plan_to_json,
)
from situ.runtime.sites.messages import (
    FINISHED,
    Abort,
    Done,
    Go,
    Hello,
    Incarnation,
    LogBatch,
    LogName,
    Message,
    MessageError,
    Position,
    Prepare,
    Prepared,
    Probe,
    PullRequest,
    Question,
    Refusal,
    StatusQuestion,
    StatusReport,
    message_of,
    message_to_parts,
)
from situ.runtime.sites.rows import checked_rows, write_rows

LOG = LogName("timed out", "Braking", "north / east", 3)
POSITION = Position(LOG, "b", 9, 3, -5, 1000)
MESSAGES: list[Message] = [
    Hello((Incarnation("a", {}),), 2, "d", BEGINNING, False, (POSITION, replace(POSITION, again=True))),
    PullRequest(LOG, 4, BEGINNING, (((-5, 7),),), POSITION),
    Question(LOG, END, 10, BEGINNING, POSITION),
    Hello((Incarnation("a", {}), Incarnation("b", {str(LOG): 7})), 2, "d", BEGINNING, True),
    LogBatch(LOG, "b", 3, 9, END, 0, b"rows"),
    LogBatch(replace(LOG, selection=3), "b", 3, 9, END, 7, b"rows"),
    PullRequest(LOG, 4, BEGINNING, (((-5, 7), (9, 9)), ())),
    LogBatch(LOG, "b", 9, 9, 12),
    Position(LOG, "b", FINISHED, FINISHED, END, 0),
    Position(LOG, "b", 9, 3, -5, 1000, again=True),
    Probe(LOG),
    Question(LOG, END, 10, BEGINNING),
    Refusal("no"),
    Prepare("{}", "word"),
    Prepared(3, False, "why", 17),
    Go(3, "d"),
    Abort(3, "d", "word"),
    Done(True),
    StatusQuestion(),
    StatusReport("{}"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    header, body = message_to_parts(message)
    assert message_of(json.loads(json.dumps(header)), body) == message


@pytest.mark.parametrize(
    ("ranges", "reason"),
    [
        ([[[5, 4]]], "not in order"),
        ([[[5, 6], [7, 8]]], "not apart"),
        ([[[0, 1]] * 2], "not in order"),
        ([[[0, END]]], "are none"),
        ([[[BEGINNING, 0]]], "are none"),
        ([[[0, "1"]]], "are none"),
        ([[n, n] for n in range(3)], "are none"),
        ([[[3 * n, 3 * n] for n in range(20_001)]], "more than 20,000"),
    ],
)
def test_ranges_that_are_none_are_refused(ranges: Any, reason: str) -> None:
    header, _ = message_to_parts(PullRequest(LOG, 1, 0, ()))
    with pytest.raises(MessageError, match=reason):
        message_of(header | {"ranges": ranges})


@pytest.mark.parametrize("position", [7, [], {"kind": "probe", "log": str(LOG)}, {"log": str(LOG)}])
def test_what_rides_on_a_message_is_a_position(position: Any) -> None:
    for message, field in ((MESSAGES[0], "positions"), (MESSAGES[1], "position"), (MESSAGES[2], "position")):
        header, _ = message_to_parts(message)
        with pytest.raises(MessageError):
            message_of(header | {field: [position] if field == "positions" else position})


def damaged(value: Any, rng: random.Random) -> Any:
    return rng.choice([None, -1, 2**70, 1.5, "", "x" * 100_000, [], {}, [value], True, {"kind": value}])


@pytest.mark.parametrize("seed", range(5))
def test_a_header_that_is_damaged_is_refused_or_is_another_message(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(300):
        header, body = message_to_parts(rng.choice(MESSAGES))
        name = rng.choice([*header])
        if rng.random() < 0.2:
            del header[name]
        elif rng.random() < 0.2:
            header[str(rng.random())] = 1
        else:
            header[name] = damaged(header[name], rng)
        try:
            again = message_of(header, rng.choice([body, body, b"more"]))
        except MessageError:
            continue
        assert message_of(*message_to_parts(again)) == again


SCHEMA = pa.schema([("name", pa.string()), ("_time", pa.timestamp("us", "UTC"))])
ROWS = pa.record_batch({"name": ["a", None, "c"], "_time": pa.array([1, 2, 3], SCHEMA.types[1])}, schema=SCHEMA)


def test_rows_that_are_cut_or_changed_are_refused_or_are_rows() -> None:
    data = write_rows(ROWS)
    assert checked_rows(data, SCHEMA, 3).equals(ROWS)
    rng = random.Random(7)
    for _ in range(500):
        at = rng.randrange(len(data))
        bad = data[:at] if rng.random() < 0.3 else data[:at] + rng.randbytes(1) + data[at + 1 :]
        try:
            rows = checked_rows(bad, SCHEMA, 3)
        except MessageError:
            continue
        assert rows.num_rows == 3
        rows.validate(full=True)


def test_rows_are_as_many_as_their_numbers_or_fewer_where_a_filter_left_some_out() -> None:
    data = write_rows(ROWS)
    with pytest.raises(MessageError, match="3 rows of 4 numbers"):
        checked_rows(data, SCHEMA, 4)
    with pytest.raises(MessageError, match="3 rows of 2 numbers"):
        checked_rows(data, SCHEMA, 2)


PLAN = DeployedPlan(
    2, "stream A(ts int) time ts", {"A": ("north", "south")}, {"D": OperatorPlace("hub", (("A",), ("B",)))}, ("root",),
    (NamedFunction("f", "int", "m:f"),), frozenset({"A"}), True, 17, -3,
)  # fmt: skip


def test_a_plan_comes_back_as_it_was() -> None:
    assert plan_of_json(plan_to_json(PLAN)) == PLAN
    assert PLAN.sites == ("hub", "north", "root", "south")
    assert PLAN.digest != PLAN.starting_at(18).digest


@pytest.mark.parametrize("field", json.loads(plan_to_json(PLAN)))
def test_a_plan_with_a_damaged_field_is_refused(field: str) -> None:
    for value in (["a", "a"], 1.5, "x", {"a": 1}, [[1]]):
        said = json.loads(plan_to_json(PLAN)) | {field: value}
        try:
            plan = plan_of_json(json.dumps(said))
        except PlanError:
            continue
        assert json.loads(plan_to_json(plan))[field] == value


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_rows_that_would_become_larger_than_they_came_are_refused(compression: str) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(ROWS)
    with pytest.raises(MessageError, match="rows are compressed"):
        checked_rows(sink.getvalue().to_pybytes(), ROWS.schema, 3)


def test_a_dictionary_is_no_row() -> None:
    rows = pa.record_batch({"a": pa.array(["x", "y"]).dictionary_encode()})
    with pytest.raises(MessageError, match="a dictionary is among the rows"):
        checked_rows(write_rows(rows), rows.schema, 2)
