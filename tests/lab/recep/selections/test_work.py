"""Consumers share selections: what is decided when, what it takes, and what pays."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lab.recep.selections.by_words import ByWords
from lab.recep.selections.cases import (
    AROUND,
    SETTINGS,
    S,
    crowd,
    run,
    tables_of,
    text_of_graph,
)
from mobility.test_moving import DEPENDENT, RULES, STREAMS, text_of
from situ.core.errors import SituError
from situ.core.functions import Functions
from situ.lab.recep.selections import ByCount, ByTime, Cells, Nearest, ReuseSettings, Thresholds, reuse

# ---- what it took


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("rule", RULES)
def test_no_more_is_processed_than_was_asked(rule: str, settings: str) -> None:
    reused = run(text_of(rule, AROUND), 2, SETTINGS[settings], Thresholds(0.5, 0.5))
    for counts in reused.counts.values():
        assert counts.asked == counts.processed + counts.covered + counts.stopped
        assert counts.processed <= counts.asked
        assert counts.copies <= counts.copies_plain
    if rule in DEPENDENT:
        assert not reused.counts["Near"].covered
        assert "depend" in reused.chosen["Near"]


def test_lower_thresholds_share_more_and_batches_judge_less() -> None:
    text = text_of("chain", "around Car square 80 m update every 10 s")

    def counted(settings: ReuseSettings, threshold: float) -> tuple[int, float]:
        counts = run(text, 1, settings, Thresholds(threshold, threshold)).counts.values()
        covered = sum(one.covered for one in counts)
        return sum(one.processed for one in counts), sum(one.estimations for one in counts) / max(covered, 1)

    single, batches = ReuseSettings("mqc", ByCount(1)), ReuseSettings("mqc", ByTime(10 * S))
    processed = [counted(single, threshold)[0] for threshold in (0.5, 0.8, 1.0)]
    assert processed[0] < processed[1] < processed[2] < counted(ReuseSettings("none"), 1.0)[0]
    assert counted(batches, 0.5)[1] < counted(single, 0.5)[1] / 10


@pytest.mark.parametrize("batch", [ByCount(1), ByTime(3 * S)])
@pytest.mark.parametrize("nearest", [None, Nearest(30.0, 2)])
def test_what_was_processed_before_an_interest_began_is_not_processed_again(batch: Any, nearest: Any) -> None:
    text, earlier = text_of("chain", "around Car square 60 m update basic lifetime 8 s"), 0
    settings = ReuseSettings("mqc", batch, over="every", neighbours=nearest)
    for seed in range(3):
        on, off = (
            run(text, seed, replace(settings, look_back=look_back), Thresholds(0.6, 0.6), seconds=12)
            for look_back in (True, False)
        )
        assert on.counts["Pair"].processed < off.counts["Pair"].processed
        for reused in (on, off):
            for _, _, _, precision, recall, _ in ByWords(reused).delivered("Near", 8 * S):
                assert min(precision, recall) >= 0.6
        for work in on.work.values():
            by, phase_us = work.covered.by, work.decided.decided_us[work.decided.batch]
            assert np.array_equal(by[by], by)
            before = phase_us[by] < phase_us
            assert np.all(work.selected.end_us[by][before] < phase_us[before])  # it was complete
            earlier += int(before.sum())
        assert all(np.all(w.decided.decided_us[w.decided.batch[w.covered.by]] == w.decided.decided_us[w.decided.batch])
                   for w in off.work.values())  # fmt: skip
    assert earlier


def test_what_is_still_open_is_not_taken_for_the_past() -> None:
    """With prediction, others may have been decided on and not be over."""
    text = text_of("chain", "around Car square 60 m update every 3 s lifetime 4 s")
    earlier = 0
    for seed, batch in enumerate((ByCount(1), ByTime(4 * S), ByCount(3))):
        settings = ReuseSettings("mqc", batch, predictor="optimistic")
        for work in run(text, seed, settings, Thresholds(0.3, 0.3)).work.values():
            by, phase_us = work.covered.by, work.decided.decided_us[work.decided.batch]
            before = phase_us[by] < phase_us
            last_us = {
                b: work.selected.end_us[work.decided.batch == b].max() for b in np.unique(work.decided.batch[by])
            }
            for k in np.flatnonzero(before).tolist():
                assert last_us[work.decided.batch[by[k]]] < phase_us[k]
            earlier += int(before.sum())
    assert earlier


@pytest.mark.parametrize("batch", [ByCount(1), ByCount(3), ByTime(5 * S), None])
def test_nothing_is_decided_on_before_all_that_it_reads_is_known(batch: Any) -> None:
    reused = run(text_of("chain", AROUND), 1, ReuseSettings("mqc", batch), Thresholds(0.5, 0.5), seconds=12)
    pair, near = reused.work["Pair"], reused.work["Near"]
    starts = reused.read.interests.start_us
    for work in (pair, near):
        phase_us = work.decided.decided_us[work.decided.batch]
        assert np.all(phase_us % S == 0)
        assert np.all(phase_us > np.maximum(work.selected.end_us, starts[work.selected.owner]))
        if isinstance(batch, ByTime):  # those of one time wait together, until it is over
            live = starts[work.decided.owner] < (work.decided.part + 1) * batch.us
            together = {
                (int(p), int(us)) for p, us in zip(work.decided.part[live], work.decided.decided_us[live], strict=True)
            }
            assert len(together) == len({part for part, _ in together})
            assert all(us >= (part + 1) * batch.us for part, us in together)
    for k, owner in enumerate(near.selected.owner.tolist()):
        now_us = near.decided.decided_us[near.decided.batch[k]]
        for b in np.flatnonzero((pair.decided.owner == owner) & (pair.decided.begin_us <= near.selected.end_us[k])):
            assert pair.decided.decided_us[b] < now_us


def test_only_neighbours_process_for_each_other() -> None:
    """Consumers who stand still, 10 m apart: each is processed for by at most as many others as it may be."""
    events = crowd(4, cars=8)
    events["Car"] = [row for row in events["Car"] if row["ts"]] + [{"id": k, "v": 1, "ts": 0} for k in range(8)]
    for row in events["Car"]:
        row["x"], row["y"] = 10.0 * row["id"], 0.0
    text, tables = text_of("chain", "around Car square 90 m"), tables_of(events)
    for nearest, helped in ((Nearest(5.0, 3), 0), (Nearest(25.0, 1), 1), (Nearest(25.0, 2), 2)):
        reused = reuse(text, "Near", tables, ReuseSettings("mqc", ByCount(1), neighbours=nearest), Thresholds(0.3, 0.3))
        by_whom: dict[int, set[int]] = {person: set() for person in range(8)}
        for work in reused.work.values():
            asked, processed = work.selected.owner, work.selected.owner[work.covered.by]
            for one, other in zip(
                reused.read.person[asked].tolist(), reused.read.person[processed].tolist(), strict=True
            ):
                by_whom[one] |= {other} - {one}
        assert max(map(len, by_whom.values())) == helped
        assert all(abs(one - other) * 10.0 <= 2 * nearest.distance_m for one in by_whom for other in by_whom[one])


def test_one_copy_is_sent_to_each_manager() -> None:
    reused = run(text_of("chain", AROUND), 1, ReuseSettings("mqc", ByCount(1), most=2), Thresholds(0.3, 0.3))
    sent, work = reused.work["Pair"].streamed, reused.work["Pair"]
    events, phase_us = Counter(sent.arrived.event.tolist()), work.decided.decided_us[work.decided.batch]
    rows = list(zip(sent.arrived.event.tolist(), sent.asked.tolist(), strict=True))
    to = {(event, int(work.covered.group[k]), int(phase_us[k])) for event, k in rows}
    assert reused.counts["Pair"].copies_plain == events.total()
    assert reused.counts["Pair"].copies == len(to)
    assert len(set(zip(sent.arrived.event.tolist(), sent.arrived.owner.tolist(), strict=True))) == len(sent.arrived)
    assert len(events) < len(to) < events.total()  # one more copy for those who ask later
    assert reused.counts["Near"].copies == reused.counts["Near"].copies_plain == reused.delivered.num_rows


@pytest.mark.parametrize("predictor", ["pessimistic", "optimistic", "current selection", "event pattern"])
def test_stopping_changes_nothing_that_is_delivered(predictor: Any) -> None:
    text, stopped = text_of("chain", "around Car square 60 m update every 8 s"), 0
    for seed in range(3):
        settings = ReuseSettings("mqc", ByTime(4 * S), predictor=predictor)
        thresholds = Thresholds(0.5, 0.5)
        on, off = (run(text, seed, replace(settings, stop=stop), thresholds) for stop in (True, False))
        assert on.delivered.equals(off.delivered)
        assert on.counts["Pair"].processed + on.counts["Pair"].stopped == off.counts["Pair"].processed
        assert not off.counts["Pair"].stopped
        assert not on.counts["Near"].stopped
        stopped += on.counts["Pair"].stopped
    assert stopped


@pytest.mark.parametrize("seed", range(3))
def test_an_optimist_shares_more_than_a_pessimist(seed: int) -> None:
    text = text_of("sequence", "around Car square 60 m update every 12 s")

    def processed(predictor: Any) -> int:
        settings = ReuseSettings("mqc", ByTime(4 * S), predictor=predictor)
        return run(text, seed, settings, Thresholds(0.6, 0.6)).counts["Near"].processed

    assert processed("optimistic") <= processed("event pattern") <= processed("pessimistic")
    assert processed("optimistic") < processed("pessimistic")


@pytest.mark.parametrize("estimator", ["spatial", "per neighbour", Cells(5.0, 2 * S), Cells(1e5, 100 * S)])
@pytest.mark.parametrize("predictor", [None, "event pattern"])
def test_estimators(estimator: Any, predictor: Any) -> None:
    if estimator == "per neighbour" and predictor is not None:
        with pytest.raises(SituError, match="cannot be compared"):
            ReuseSettings("mqc", estimator=estimator, predictor=predictor)
        return
    settings = ReuseSettings("mqc", ByTime(4 * S), estimator=estimator, predictor=predictor)
    reused = run(text_of("chain", "around Car square 60 m update every 8 s"), 1, settings, Thresholds(0.5, 0.5))
    assert all(counts.covered for counts in reused.counts.values())
    assert reused.delivered.num_rows


def test_small_cells_judge_as_atomic_events_do() -> None:
    text = text_of("sequence", AROUND)
    for seed in range(3):
        exact, cells = (
            run(text, seed, ReuseSettings("mqc", ByCount(1), estimator=estimator), Thresholds(0.5, 0.5))
            for estimator in ("exact", Cells(1e-3, 1))
        )
        assert exact.counts == cells.counts
        assert exact.delivered.equals(cells.delivered)


# ---- self-configuration


class Ticks:
    """A clock that goes on by as much whenever it is looked at."""

    def __init__(self, step_s: float) -> None:
        self.now_s, self.step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def test_settings_are_chosen_for_every_operator_and_explained() -> None:
    text = text_of_graph("counts", "around Car square 60 m update every 10 s")
    tables = tables_of(crowd(1))
    reused = reuse(text, "Near", tables, ReuseSettings(auto=True), Thresholds(0.5, 0.5))
    assert set(reused.chosen) == {"Many", "Near"} == set(reused.work)
    for name, words in reused.chosen.items():
        assert words.startswith(("reuse on: mqc", "reuse on: mnh", "reuse off; "))
        assert ("on:" in words) == (reused.work[name].settings.heuristic != "none")


class Work:
    """A user's function that takes time, and nothing else does: a clock that goes on when it is called."""

    def __init__(self) -> None:
        self.now_s, self.functions = 0.0, Functions()
        self.functions.register(self.is_dear, returns="bool", name="IsDear")

    def is_dear(self, one: int, other: int) -> bool:
        self.now_s += 1.0
        return one < other

    def clock(self) -> float:
        return self.now_s


@pytest.mark.parametrize("over", ["average", "every"])
def test_dear_operators_share(over: Any) -> None:
    """What is chosen keeps the thresholds, whatever it is."""
    body = "detect Car as a then Lamp(IsDear(a.v, v)) as b within 4 s assign v = b.v"
    text = f"{STREAMS}subscribe Near for Car(id)\n  {body}\n  around Car square 60 m update every 10 s\n"
    work, tables = Work(), tables_of(crowd(2))
    settings = ReuseSettings(over=over, auto=True)
    reused = reuse(text, "Near", tables, settings, Thresholds(0.6, 0.6), work.functions, work.clock)
    assert reused.chosen["Near"].startswith("reuse on: ")
    assert reused.counts["Near"].processed < reused.counts["Near"].asked / 2
    quality = [row[3:5] for row in ByWords(reused).delivered("Near", 0)]
    assert np.min(quality if over == "every" else np.mean(quality, axis=0)) >= 0.6


def test_where_time_says_that_nothing_is_saved_reuse_is_off() -> None:
    """By this clock all takes the same time, so processing a selection costs nothing."""
    text = text_of("chain", AROUND)
    reused = reuse(text, "Near", tables_of(crowd(1)), ReuseSettings(auto=True), Thresholds(0.5, 0.5), clock=Ticks(1.0))
    assert all(words.startswith("reuse off; does not pay") for words in reused.chosen.values())
    assert all(counts.processed == counts.asked for counts in reused.counts.values())
    nothing = reuse(text, "Near", tables_of({"Car": [], "Lamp": []}), ReuseSettings(auto=True), clock=Ticks(1.0))
    assert nothing.chosen["Near"] == "reuse off; nothing was sampled"
