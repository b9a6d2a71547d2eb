"""Snapshots are what they were: a change of their format is noticed, and those of another version are refused."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from conformance.golden import (
    DIRECTORY,
    PARTS,
    QUERIES,
    SHARD,
    STREAMED,
    directory_of,
    engine_of,
    feed,
    shown,
    snapshots,
    streamed,
)
from runtime.comparison import tables
from runtime.spark.streaming_without_spark import StreamingQuery
from situ.core.errors import StateError
from situ.kernel.state import snapshot

CHANGED = """
The format of snapshots has changed. If so meant: raise VERSION in situ/kernel/state/snapshot.py, and write them:
    cd tests && ../.venv/bin/python -m conformance.golden
"""
HERE = directory_of(snapshot.VERSION)
OLDER = sorted(path for path in DIRECTORY.glob("version-*/*") if path.parent != HERE)


@pytest.fixture(scope="module")
def written() -> dict[str, bytes]:
    return snapshots()


@pytest.mark.parametrize("name", [*(f"{n}.snapshot" for n in QUERIES), *(f"{n}.shard" for n in STREAMED)])
def test_what_is_written_is_what_was_written(written: dict[str, bytes], name: str) -> None:
    assert (HERE / name).exists(), CHANGED
    kept = snapshot.unpack((HERE / name).read_bytes())
    assert shown(snapshot.unpack(written[name])) == shown(kept), CHANGED


@pytest.mark.parametrize("name", QUERIES)
def test_an_engine_goes_on_from_the_bytes(name: str) -> None:
    fresh, restored = engine_of(name), engine_of(name)
    feed(fresh, PARTS[0])
    restored.restore((HERE / f"{name}.snapshot").read_bytes())
    found = feed(fresh, PARTS[1])
    assert feed(restored, PARTS[1]) == found
    assert any(rows for _, rows in found)


@pytest.mark.parametrize("name", STREAMED)
def test_a_streaming_query_goes_on_from_the_bytes(name: str) -> None:
    query = streamed(name)
    states = {SHARD: (HERE / f"{name}.shard").read_bytes()}
    restored = StreamingQuery(query.graph, random.Random(2), shards=1, states=states)
    results = [one.found([one.micro_batch(tables(query.graph, PARTS[1]))]) for one in (query, restored)]
    assert results[0] == results[1]
    assert any(results[0].values())


@pytest.mark.parametrize("path", OLDER, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_another_version_is_refused_by_its_number(path: Path) -> None:
    (number,) = re.findall(r"\d+", path.parent.name)
    refused = rf"version {number}( or older)?, this situ reads version {snapshot.VERSION}\."
    with pytest.raises(StateError, match=refused):
        snapshot.unpack(path.read_bytes())
