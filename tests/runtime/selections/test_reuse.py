"""Consumers share selections: what is delivered, how good it is, and what it took."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mobility.interests_by_words import Delivered, Row, deliveries
from mobility.test_moving import INTERESTS, RULES, SCHEMA, STREAMS, found_by_engine, random_events, text_of
from runtime.selections.by_words import ByWords
from situ.core.errors import InputError, QueryError, SituError
from situ.core.functions import Functions
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.reuse.cover import Heuristic
from situ.runtime.embedded import Engine
from situ.runtime.selections import ByCount, ByTime, Cells, Nearest, Reused, Settings, Thresholds, reuse

S = 1_000_000
#: Of each kind something; all deliver what the engine does if consumers ask for everything.
SETTINGS = {
    "none": Settings("none"),
    "single": Settings("mqc", ByCount(1)),
    "every": Settings("mqc", ByTime(2 * S), over="every", most=1),
    "batches": Settings("mnh", ByTime(4 * S)),
    "infinite": Settings("mqc", None, phase_us=3 * S),
    "neighbours": Settings("mnh", ByCount(3), neighbours=Nearest(50.0, 2), most=2),
}
#: Rules whose selections may be processed one without the other.
SHARED = ("sequence", "grouped", "and", "absence", "loop", "aggregation", "join", "single", "or", "chain")
#: Graphs of two and three levels, and how far back their events may lie.
GRAPHS = {
    "counts": (
        "define Many(v) detect Car(v > 0){2} as run within 5 s assign v = max(run.v)\n",
        "detect Many as a then Lamp as b then Many(v >= a.v) as c within 6 s assign v = c.v",
        11,
    ),
    "three levels": (
        "define Pair(v) detect Car as a then Lamp as b within 3 s assign v = a.v + b.v\n"
        "define Sum(v) aggr every 2 s over 4 s detect Pair assign v = sum(Pair.v)\n",
        "detect Sum as s then Car(v < s.v) as c within 3 s assign v = c.v",
        10,
    ),
    "dependent below": (
        "define Pair(v) detect Car as a then Lamp as b within 3 s assign v = b.v after match skip past last\n",
        "detect Pair as p then Pair as q within 5 s assign v = q.v",
        8,
    ),
    "dependent above": (
        "define Pair(v) detect Car as a then Lamp as b within 3 s assign v = b.v\n",
        "detect Pair as p then Pair as q within 5 s assign v = q.v after match skip past last",
        8,
    ),
}


def tables_of(events: dict[str, list[Row]]) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist(rows, SCHEMA) for name, rows in events.items()}


def text_of_graph(graph: str, interest: str) -> str:
    define, body, _ = GRAPHS[graph]
    return f"{STREAMS}{define}subscribe Near for {interest.split()[1]}(id)\n  {body}\n  {interest}\n"


def rows_of(delivered: pa.Table) -> list[Delivered]:
    """As the oracle has them."""
    own = ("consumer", "interest", "_time", "precision", "recall", "disparity")
    return [
        (
            row["consumer"],
            row["interest"],
            row["_time"].timestamp(),
            tuple(sorted((name, value) for name, value in row.items() if name not in own)),
        )
        for row in delivered.to_pylist()
    ]


def crowd(seed: int, seconds: int = 20, cars: int = 6) -> dict[str, list[Row]]:
    """Consumers near each other, so that there is something to share."""
    rng = np.random.default_rng(seed)
    events: dict[str, list[Row]] = {"Car": [], "Lamp": []}
    for stream, number in (("Car", cars), ("Lamp", 3)):
        places = rng.integers(0, 40, (number, 2)).astype(float)
        for ts in range(seconds):
            for id_ in range(number):
                places[id_] += rng.integers(-3, 4, 2)
                if rng.random() < 0.6:
                    x, y = map(float, places[id_])
                    events[stream].append({"id": id_, "x": x, "y": y, "v": int(rng.integers(0, 5)), "ts": ts})
    return events


AROUND = "around Car square 60 m update every 4 s lifetime 2 s"


def run(text: str, seed: int, settings: Settings, thresholds: Any, **how: int) -> Reused:
    return reuse(text, "Near", tables_of(crowd(seed, **how)), settings, thresholds)


# ---- exactly what was asked


@pytest.mark.parametrize("interest", INTERESTS[:3])
@pytest.mark.parametrize("rule", RULES)
def test_those_who_ask_for_everything_get_what_the_engine_finds(rule: str, interest: str) -> None:
    text = text_of(rule, interest)
    some = 0
    for seed, settings in enumerate(SETTINGS.values()):
        events = random_events(np.random.default_rng([seed, len(interest), len(rule)]))
        expected = Counter(found_by_engine(text, events))
        reused = reuse(text, "Near", tables_of(events), settings)
        assert Counter(rows_of(reused.delivered)) == expected
        some += expected.total()
    assert some


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_graphs_give_what_the_definition_says(graph: str, settings: str) -> None:
    text, back_s = text_of_graph(graph, AROUND), GRAPHS[graph][2]
    some = covered = 0
    for seed in range(3):
        events = crowd(seed, seconds=14)
        expected = Counter(deliveries(resolve(parse(text)), events, {"Car": back_s, "Lamp": back_s}))
        reused = reuse(text, "Near", tables_of(events), SETTINGS[settings])
        assert Counter(rows_of(reused.delivered)) == expected
        some += expected.total()
        covered += sum(counts.covered for counts in reused.counts.values())
    assert some
    assert covered == 0 if settings == "none" else covered > 0 or settings != "single"


@pytest.mark.parametrize("rule", RULES)
def test_without_reuse_everything_is_processed_and_quality_is_1(rule: str) -> None:
    reused = run(text_of(rule, AROUND), 1, Settings("none"), Thresholds())
    for counts in reused.counts.values():
        assert counts.processed == counts.asked
        assert not counts.covered
        assert not counts.estimations
    for name in ("precision", "recall", "disparity"):
        assert set(reused.delivered[name].to_pylist()) <= {1.0}


# ---- how good it is


@pytest.mark.parametrize("rule", [*SHARED, *GRAPHS])
def test_measured_quality_is_that_of_the_atomic_events_behind_it(rule: str) -> None:
    text = text_of(rule, AROUND) if rule in RULES else text_of_graph(rule, AROUND)
    for seed, settings in enumerate((Settings("mqc", ByCount(1)), Settings("mnh", ByTime(3 * S)))):
        reused = run(text, seed, settings, Thresholds(0.4, 0.5), seconds=12)
        found = [
            (row["consumer"], row["interest"], row["_time"].timestamp() * S, *(row[name] for name in QUALITY))
            for row in reused.delivered.to_pylist()
        ]
        expected = ByWords(reused).delivered("Near", 2 * S)
        assert len(found) == len(expected)
        for one, other in zip(sorted(found), sorted(expected), strict=True):
            assert one == pytest.approx(other)


QUALITY = ("precision", "recall", "disparity")


@pytest.mark.parametrize("heuristic", ["mqc", "mnh", "exact"])
@pytest.mark.parametrize("rule", [*SHARED, *GRAPHS])
def test_every_single_event_is_good_enough(rule: str, heuristic: Heuristic) -> None:
    text, covered = text_of(rule, AROUND) if rule in RULES else text_of_graph(rule, AROUND), 0
    batches: list[ByCount | ByTime] = [ByCount(1), ByCount(4), ByTime(3 * S)]
    for seed, batch in enumerate(batches):
        least = Thresholds(0.5 + 0.1 * seed, 0.8 - 0.1 * seed)
        reused = run(text, seed, Settings(heuristic, batch, "every"), least, seconds=12)
        for _, _, _, precision, recall, _ in ByWords(reused).delivered("Near", 2 * S):
            assert precision >= least.precision
            assert recall >= least.recall
        covered += sum(counts.covered for counts in reused.counts.values())
    assert covered


@pytest.mark.parametrize("rule", SHARED)
def test_batches_are_good_enough_on_average(rule: str) -> None:
    some = 0
    for seed, batch in enumerate((ByCount(3), ByTime(3 * S), None)):
        reused = run(text_of(rule, AROUND), seed, Settings("mqc", batch), Thresholds(0.6, 0.7), seconds=12)
        for name in reused.work:
            for qualities in ByWords(reused).batches(name).values():
                precision, recall = np.mean(qualities, axis=0)
                assert precision >= 0.6 - 1e-9
                assert recall >= 0.7 - 1e-9
                some += len(qualities)
    assert some


def test_thresholds_are_those_of_the_covered_consumer() -> None:
    """Consumer 0 asks for everything, the others for half; each keeps to its own."""
    asked = {0: Thresholds(1.0, 1.0)} | {k: Thresholds(0.4, 0.6) for k in range(1, 5)}  # of 5 nothing is said
    text = text_of("sequence", AROUND)
    reused = run(text, 3, Settings("mqc", ByCount(1)), asked)
    work, words = reused.work["Near"], ByWords(reused)
    covered = Counter[int]()
    for k, by in enumerate(work.covered.by.tolist()):
        consumer = reused.read.interests.consumer[int(work.selected.owner[k])].as_py()
        precision, recall = words.quality("Near", k, by)
        least = asked.get(consumer, Thresholds(1.0, 1.0))
        assert precision >= least.precision
        assert recall >= least.recall
        covered[consumer] += by != k and min(precision, recall) < 1
    assert covered[0] == covered[5] == 0
    assert covered.total()
    plain = Counter(found_by_engine(text, crowd(3)))
    for exactly in (0, 5):
        mine = Counter(row for row in rows_of(reused.delivered) if row[0] == exactly)
        assert mine == Counter({row: count for row, count in plain.items() if row[0] == exactly})


def test_disparity_is_kept() -> None:
    text = text_of_graph("counts", "around Car square 30 m update every 5 s")
    settings = Settings("mqc", ByCount(1))
    least = dict.fromkeys((0.0, 0.8, 1.0), 1.0)
    for seed in range(3):
        for threshold in least:
            reused = run(text, seed, settings, Thresholds(0.3, 0.3, threshold))
            work, words = reused.work["Near"], ByWords(reused)
            for k, by in enumerate(work.covered.by.tolist()):
                if k != by:
                    assert words.disparity("Near", by) >= threshold
                    least[threshold] = min(least[threshold], words.disparity("Near", by))
    assert least[0.0] < 0.8


def test_every_single_event_keeps_disparity_down_the_graph() -> None:
    """Equal events from other regions do not do where the regions behind a result are to agree."""
    text = text_of_graph("counts", "around Car square 30 m update every 5 s")
    for seed in range(3):
        reused = run(text, seed, Settings("mqc", ByCount(1), "every"), Thresholds(0.5, 0.5, 1.0))
        assert set(reused.delivered["disparity"].to_pylist()) == {1.0}
        assert all(min(row[3:5]) >= 0.5 for row in ByWords(reused).delivered("Near", 0))


# ---- what it took


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("rule", RULES)
def test_no_more_is_processed_than_was_asked(rule: str, settings: str) -> None:
    reused = run(text_of(rule, AROUND), 2, SETTINGS[settings], Thresholds(0.5, 0.5))
    for counts in reused.counts.values():
        assert counts.asked == counts.processed + counts.covered + counts.stopped
        assert counts.processed <= counts.asked
        assert counts.copies <= counts.copies_plain
    if rule == "skip":
        assert not reused.counts["Near"].covered
        assert "depend" in reused.chosen["Near"]


def test_lower_thresholds_share_more_and_batches_judge_less() -> None:
    text = text_of("chain", "around Car square 80 m update every 10 s")

    def counted(settings: Settings, threshold: float) -> tuple[int, float]:
        counts = run(text, 1, settings, Thresholds(threshold, threshold)).counts.values()
        covered = sum(one.covered for one in counts)
        return sum(one.processed for one in counts), sum(one.estimations for one in counts) / max(covered, 1)

    single, batches = Settings("mqc", ByCount(1)), Settings("mqc", ByTime(10 * S))
    processed = [counted(single, threshold)[0] for threshold in (0.5, 0.8, 1.0)]
    assert processed[0] < processed[1] < processed[2] < counted(Settings("none"), 1.0)[0]
    assert counted(batches, 0.5)[1] < counted(single, 0.5)[1] / 10


@pytest.mark.parametrize("batch", [ByCount(1), ByTime(3 * S)])
@pytest.mark.parametrize("nearest", [None, Nearest(30.0, 2)])
def test_what_was_processed_before_an_interest_began_is_not_processed_again(batch: Any, nearest: Any) -> None:
    text, earlier = text_of("chain", "around Car square 60 m update basic lifetime 8 s"), 0
    settings = Settings("mqc", batch, over="every", neighbours=nearest)
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
        settings = Settings("mqc", batch, predictor="optimistic")
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
    reused = run(text_of("chain", AROUND), 1, Settings("mqc", batch), Thresholds(0.5, 0.5), seconds=12)
    pair, near = reused.work["Pair"], reused.work["Near"]
    starts, ends = reused.read.interests.start_us, reused.read.interests.end_us
    for work in (pair, near):
        phase_us = work.decided.decided_us[work.decided.batch]
        assert np.all(phase_us % S == 0)
        assert np.all(phase_us > np.maximum(work.selected.end_us, starts[work.selected.owner]))
        if isinstance(batch, ByTime):
            over_us = (work.selected.begin_us // batch.us + 1) * batch.us - 1
            assert np.all(phase_us > np.minimum(over_us, ends[work.selected.owner]))
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
        reused = reuse(text, "Near", tables, Settings("mqc", ByCount(1), neighbours=nearest), Thresholds(0.3, 0.3))
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
    reused = run(text_of("chain", AROUND), 1, Settings("mqc", ByCount(1), most=2), Thresholds(0.3, 0.3))
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
        settings = Settings("mqc", ByTime(4 * S), predictor=predictor)
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
        settings = Settings("mqc", ByTime(4 * S), predictor=predictor)
        return run(text, seed, settings, Thresholds(0.6, 0.6)).counts["Near"].processed

    assert processed("optimistic") <= processed("event pattern") <= processed("pessimistic")
    assert processed("optimistic") < processed("pessimistic")


@pytest.mark.parametrize("estimator", ["spatial", "per neighbour", Cells(5.0, 2 * S), Cells(1e5, 100 * S)])
@pytest.mark.parametrize("predictor", [None, "event pattern"])
def test_estimators(estimator: Any, predictor: Any) -> None:
    if estimator == "per neighbour" and predictor is not None:
        with pytest.raises(SituError, match="cannot be compared"):
            Settings("mqc", estimator=estimator, predictor=predictor)
        return
    settings = Settings("mqc", ByTime(4 * S), estimator=estimator, predictor=predictor)
    reused = run(text_of("chain", "around Car square 60 m update every 8 s"), 1, settings, Thresholds(0.5, 0.5))
    assert all(counts.covered for counts in reused.counts.values())
    assert reused.delivered.num_rows


def test_small_cells_judge_as_atomic_events_do() -> None:
    text = text_of("sequence", AROUND)
    for seed in range(3):
        exact, cells = (
            run(text, seed, Settings("mqc", ByCount(1), estimator=estimator), Thresholds(0.5, 0.5))
            for estimator in ("exact", Cells(1e-3, 1))
        )
        assert exact.counts == cells.counts
        assert exact.delivered.equals(cells.delivered)


# ---- who comes and goes


@pytest.mark.parametrize("most", [1, 2, 3])
def test_consumers_join_leave_and_move_between_regions(most: int) -> None:
    """Managers are small, so that regions split and merge all the time: nothing is lost, and nothing doubled."""
    text = text_of("chain", "around Car square 50 m update basic lifetime 4 s")
    for seed in range(4):
        rng = np.random.default_rng([seed, most])
        events = crowd(seed, seconds=16, cars=8)
        first, last = rng.integers(0, 8, 8), rng.integers(8, 17, 8)
        far = rng.integers(0, 200, (8, 16, 2)) * (rng.random((8, 16, 1)) < 0.3)  # some are elsewhere at once
        events["Car"] = [row for row in events["Car"] if first[row["id"]] <= row["ts"] < last[row["id"]]]
        for row in events["Car"]:
            row["x"], row["y"] = np.array([row["x"], row["y"]]) + far[row["id"], row["ts"]]
        reused = reuse(text, "Near", tables_of(events), Settings("mqc", ByCount(1), most=most))
        assert Counter(rows_of(reused.delivered)) == Counter(found_by_engine(text, events))
        assert reused.managers["most"].to_numpy().max() <= most
        assert len(set(reused.managers["region"].to_pylist())) > 1


def test_one_consumer_has_nobody_to_share_with() -> None:
    reused = run(text_of("sequence", AROUND), 1, Settings("mqc"), Thresholds(0.1, 0.1), cars=1)
    counts = reused.counts["Near"]
    assert counts.asked == counts.processed + counts.covered
    assert all(by == k or reused.work["Near"].selected.owner[by] != reused.work["Near"].selected.owner[k]
               for k, by in enumerate(reused.work["Near"].covered.by.tolist()))  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_nobody_and_nothing(rule: str) -> None:
    text = text_of(rule, AROUND)
    nothing: dict[str, list[Row]] = {"Car": [], "Lamp": []}
    lamps = {"Car": [], "Lamp": [{"id": 1, "x": 0.0, "y": 0.0, "v": 1, "ts": 0}]}
    far = {"Car": [{"id": 1, "x": 9e3, "y": 0.0, "v": 0, "ts": 0}], "Lamp": lamps["Lamp"]}
    for events in (nothing, lamps, far):
        for settings in (Settings("mqc"), Settings("mqc", predictor="event pattern")):
            reused = reuse(text, "Near", tables_of(events), settings, Thresholds(0.5, 0.5))
            expected = sum(out.complex_events["Near"].num_rows for out in Engine(text).run(tables_of(events)))
            assert reused.delivered.num_rows == expected


def test_bad_input() -> None:
    text = text_of("sequence", AROUND)
    with pytest.raises(QueryError, match="no subscription 'Neer' moves"):
        reuse(text, "Neer", {}, Settings())
    with pytest.raises(InputError, match="no table for stream Lamp"):
        reuse(text, "Near", {"Car": tables_of(crowd(1))["Car"]}, Settings())
    with pytest.raises(SituError, match=r"recall of -0\.1"):
        Thresholds(0.5, -0.1)
    with pytest.raises(SituError, match="Give one or more"):
        Settings("mqc", ByCount(0))
    with pytest.raises(SituError, match="disparity"):
        run(text, 1, Settings("mqc", predictor="optimistic"), Thresholds(0.5, 0.5, 0.5))


def test_the_clause_of_the_subscription_says_how_good_is_good_enough() -> None:
    text = text_of("sequence", AROUND)
    clause = "  quality precision 0.4 recall 0.5\n"
    told = reuse(text + clause, "Near", tables_of(crowd(1)), Settings("mqc", ByCount(1)))
    given = run(text, 1, Settings("mqc", ByCount(1)), Thresholds(0.4, 0.5))
    assert told.counts == given.counts
    assert told.delivered.equals(given.delivered)


def test_the_same_again() -> None:
    one, two = (run(text_of("chain", AROUND), 1, Settings("mqc"), Thresholds(0.5, 0.5)) for _ in range(2))
    assert one.counts == two.counts
    assert one.delivered.equals(two.delivered)


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
    reused = reuse(text, "Near", tables, Settings(auto=True), Thresholds(0.5, 0.5))
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
    settings = Settings(over=over, auto=True)
    reused = reuse(text, "Near", tables, settings, Thresholds(0.6, 0.6), work.functions, work.clock)
    assert reused.chosen["Near"].startswith("reuse on: ")
    assert reused.counts["Near"].processed < reused.counts["Near"].asked / 2
    quality = [row[3:5] for row in ByWords(reused).delivered("Near", 0)]
    assert np.min(quality if over == "every" else np.mean(quality, axis=0)) >= 0.6


def test_where_time_says_that_nothing_is_saved_reuse_is_off() -> None:
    """By this clock all takes the same time, so processing a selection costs nothing."""
    text = text_of("chain", AROUND)
    reused = reuse(text, "Near", tables_of(crowd(1)), Settings(auto=True), Thresholds(0.5, 0.5), clock=Ticks(1.0))
    assert all(words.startswith("reuse off; does not pay") for words in reused.chosen.values())
    assert all(counts.processed == counts.asked for counts in reused.counts.values())
    nothing = reuse(text, "Near", tables_of({"Car": [], "Lamp": []}), Settings(auto=True), clock=Ticks(1.0))
    assert nothing.chosen["Near"] == "reuse off; nothing was sampled"
