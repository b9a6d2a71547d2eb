"""What a checkpoint holds, with bits turned over: StateError, or what was written; nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from runtime.spark.changing_rules import RISE, begin, begun, manifest
from runtime.spark.streaming_without_spark import StreamingQuery
from runtime.test_damaged_snapshot import RULES, STREAMS, cars, flipped, sealed, with_other_value
from situ.core.errors import StateError
from situ.io.mqtt.spool import Message, Session, Spool
from situ.kernel.state import snapshot
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.service.rules import RuleStore

T = TypeVar("T")
MESSAGES = [Message("city/1", f'{{"n": {number}}}'.encode()) for number in range(12)]


def outcomes_of(path: Path, read: Callable[[], T], times: int = 200) -> list[T | None]:
    """What is read from a file of which one bit is another one, time after time; None where it is refused."""
    whole, chance = path.read_bytes(), random.Random(11)
    outcomes: list[T | None] = []
    for _ in range(times):
        path.write_bytes(flipped(whole, chance))
        try:
            outcomes.append(read())
        except StateError:
            outcomes.append(None)
    path.write_bytes(whole)
    return outcomes


def test_a_flipped_bit_of_the_manifest(tmp_path: Path) -> None:
    known = manifest()
    checkpoint = begun(tmp_path, known)
    outcomes = outcomes_of(tmp_path / "query.json", checkpoint.manifest)
    assert outcomes.count(None) > 150
    assert all(outcome in (None, known) for outcome in outcomes)  # blanks may be others


def test_a_flipped_bit_of_the_rules(tmp_path: Path) -> None:
    rules = begin(RISE).rules
    store = RuleStore(tmp_path)
    store.commit(rules)
    outcomes = outcomes_of(tmp_path / "0.json", store.last)
    assert outcomes.count(None) > 150
    assert all(outcome in (None, rules) for outcome in outcomes)


def test_a_flipped_bit_of_a_session(tmp_path: Path) -> None:
    spool, session = Spool(tmp_path), Session("situ-1", "city/#")
    spool.keep(session)
    outcomes = outcomes_of(tmp_path / "session.json", spool.session)
    assert outcomes.count(None) > 150
    assert all(outcome in (None, session) for outcome in outcomes)


def reopened(directory: Path) -> list[Message]:
    spool = Spool(directory, segment_bytes=100)
    try:
        return [message for block in spool.blocks(0, spool.next, 1 << 20) for message in block.messages()]
    finally:
        spool.close()


@pytest.mark.parametrize("segment", [0, 1], ids=["closed", "last"])
def test_a_flipped_bit_of_a_spool(tmp_path: Path, segment: int) -> None:
    """The last line of all may have been cut off by a crash, and is forgotten then; nothing before it is."""
    spool = Spool(tmp_path, segment_bytes=100)
    for part in (MESSAGES[:6], MESSAGES[6:]):
        spool.append(part)
    spool.close()
    files = sorted(tmp_path.glob("*.jsonl"))
    outcomes = outcomes_of(files[segment], lambda: reopened(tmp_path))
    assert reopened(tmp_path) == MESSAGES
    assert outcomes.count(None) > 100
    allowed: tuple[list[Message] | None, ...] = (None, MESSAGES[:-1]) if segment else (None,)
    assert all(outcome in allowed for outcome in outcomes)


def test_a_spool_without_checksums_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.jsonl").write_bytes(b'["city/1", "{}"]\n')
    with pytest.raises(StateError, match="older situ"):
        Spool(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["skipping", "counts", "chain", "moving", "sharing"])
def test_a_flipped_bit_of_the_state_of_a_shard(rule: str) -> None:
    """Under its own checksum it is refused; under a right one it is refused, or the query runs."""
    graph, chance = resolve(parse(STREAMS + RULES[rule])), random.Random(12)
    query = StreamingQuery(graph, random.Random(1), shards=2)
    query.micro_batch({"Car": cars(0, 20)})
    place = max(query.states, key=lambda at: len(query.states[at]))
    whole, refused = query.states[place], 0
    for number in range(24):
        again = query.restarted(graph)
        damages = (
            lambda: flipped(whole, chance),
            lambda: sealed(flipped(whole, chance, snapshot._HEADER.size)),
            lambda: with_other_value(whole, chance),
        )
        again.states[place] = damages[number % 3]()
        try:
            again.micro_batch({"Car": cars(20, 26)})
        except StateError:
            refused += 1
        else:
            assert number % 3 != 0, "a flipped bit was not noticed"
    assert refused >= 8
