"""Rules that change, for the tests of what that means."""

from __future__ import annotations

from pathlib import Path

from situ.runtime.spark.follow.checkpoint import Checkpoint, Manifest
from situ.runtime.spark.follow.planned_rules import PlannedRules, first_rules, next_rules
from situ.service.rules import Change, Rules, RuleStore, Texts, query_of

STREAM = "stream Reading(sensor int, room int, value double, ts timestamp) time ts watermark 5 s\n"
RISE = """
subscribe Rise
  detect   Reading(value > 0) as a then Reading(value > a.value + 5) as b within 10 s
  assign   sensor = a.sensor, by = b.value - a.value
  group by sensor
"""
HIGH = "subscribe High detect Reading(value > 8) as a assign sensor = a.sensor\n"
WARM = "define Warm(sensor, room) detect Reading(value > 20) as a assign sensor = a.sensor, room = a.room\n"
TWICE = """
subscribe Twice
  detect   Warm as a then Warm as b within 10 s
  assign   room = a.room
  group by room
"""
REGROUP = """
define Risen(sensor, by)
  detect   Reading(value > 0) as a then Reading(value > a.value + 5) as b within 10 s
  assign   sensor = a.sensor, by = b.value - a.value
  group by sensor
subscribe Risings
  aggr every 1 min
  detect   Risen
  assign   n = count(Risen)
"""
FALL = RISE.replace("Rise", "Fall").replace("> a.value + 5", "< a.value - 5")


def begin(main: str, **control: str) -> PlannedRules:
    return first_rules(Texts("q.situ", STREAM + main, {f"{name}.situ": text for name, text in control.items()}), "now")


def after(before: PlannedRules, main: str, levels: int = 1, **control: str) -> PlannedRules | None:
    texts = Texts("q.situ", STREAM + main, {f"{name}.situ": text for name, text in control.items()})
    return next_rules(before, texts, levels, "later")


def change(before: PlannedRules, main: str, levels: int = 1, **control: str) -> Change:
    found = after(before, main, levels, **control)
    assert found is not None
    return found.rules.change


def manifest(text: str = STREAM + RISE, shards: int = 2, levels: int = 1, **addresses: str) -> Manifest:
    streams = query_of(Texts("q.situ", text)).streams
    return Manifest.new(streams, addresses or {"Reading": "in"}, shards, 2, levels)


def begun(directory: Path, known: Manifest, *rules: Rules) -> Checkpoint:
    """A checkpoint after its first micro-batch."""
    checkpoint = Checkpoint(directory)
    directory.mkdir(parents=True, exist_ok=True)
    checkpoint.write(known)
    for one in rules:
        RuleStore(checkpoint.rules).commit(one)
    for log in ("offsets", "commits"):
        (directory / "spark" / log).mkdir(parents=True)
        (directory / "spark" / log / "0").touch()
    return checkpoint
