"""Consumers share selections: what is delivered, and how good it is."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from lab.recep.selections.by_words import ByWords
from lab.recep.selections.cases import (
    AROUND,
    GRAPHS,
    QUALITY,
    SETTINGS,
    SHARED,
    S,
    crowd,
    rows_of,
    run,
    tables_of,
    text_of_graph,
)
from mobility.interests_by_words import Row, deliveries
from mobility.test_moving import INTERESTS, RULES, found_by_engine, random_events, text_of
from situ.core.errors import InputError, QueryError, SituError
from situ.lab.recep.coverings.cover import Heuristic
from situ.lab.recep.selections import ByCount, ByTime, ReuseSettings, Thresholds, reuse
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine

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
    reused = run(text_of(rule, AROUND), 1, ReuseSettings("none"), Thresholds())
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
    for seed, settings in enumerate((ReuseSettings("mqc", ByCount(1)), ReuseSettings("mnh", ByTime(3 * S)))):
        reused = run(text, seed, settings, Thresholds(0.4, 0.5), seconds=12)
        found = [
            (row["consumer"], row["interest"], row["_time"].timestamp() * S, *(row[name] for name in QUALITY))
            for row in reused.delivered.to_pylist()
        ]
        expected = ByWords(reused).delivered("Near", 2 * S)
        assert len(found) == len(expected)
        for one, other in zip(sorted(found), sorted(expected), strict=True):
            assert one == pytest.approx(other)


@pytest.mark.parametrize("heuristic", ["mqc", "mnh", "exact"])
@pytest.mark.parametrize("rule", [*SHARED, *GRAPHS])
def test_every_single_event_is_good_enough(rule: str, heuristic: Heuristic) -> None:
    text, covered = text_of(rule, AROUND) if rule in RULES else text_of_graph(rule, AROUND), 0
    batches: list[ByCount | ByTime] = [ByCount(1), ByCount(4), ByTime(3 * S)]
    for seed, batch in enumerate(batches):
        least = Thresholds(0.5 + 0.1 * seed, 0.8 - 0.1 * seed)
        reused = run(text, seed, ReuseSettings(heuristic, batch, "every"), least, seconds=12)
        for _, _, _, precision, recall, _ in ByWords(reused).delivered("Near", 2 * S):
            assert precision >= least.precision
            assert recall >= least.recall
        covered += sum(counts.covered for counts in reused.counts.values())
    assert covered


@pytest.mark.parametrize("rule", SHARED)
def test_batches_are_good_enough_on_average(rule: str) -> None:
    some = 0
    for seed, batch in enumerate((ByCount(3), ByTime(3 * S), None)):
        reused = run(text_of(rule, AROUND), seed, ReuseSettings("mqc", batch), Thresholds(0.6, 0.7), seconds=12)
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
    reused = run(text, 3, ReuseSettings("mqc", ByCount(1)), asked)
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
    settings = ReuseSettings("mqc", ByCount(1))
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
        reused = run(text, seed, ReuseSettings("mqc", ByCount(1), "every"), Thresholds(0.5, 0.5, 1.0))
        assert set(reused.delivered["disparity"].to_pylist()) == {1.0}
        assert all(min(row[3:5]) >= 0.5 for row in ByWords(reused).delivered("Near", 0))


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
        reused = reuse(text, "Near", tables_of(events), ReuseSettings("mqc", ByCount(1), most=most))
        assert Counter(rows_of(reused.delivered)) == Counter(found_by_engine(text, events))
        assert reused.managers["most"].to_numpy().max() <= most
        assert len(set(reused.managers["region"].to_pylist())) > 1


def test_one_consumer_has_nobody_to_share_with() -> None:
    reused = run(text_of("sequence", AROUND), 1, ReuseSettings("mqc"), Thresholds(0.1, 0.1), cars=1)
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
        for settings in (ReuseSettings("mqc"), ReuseSettings("mqc", predictor="event pattern")):
            reused = reuse(text, "Near", tables_of(events), settings, Thresholds(0.5, 0.5))
            expected = sum(out.complex_events["Near"].num_rows for out in Engine(text).run(tables_of(events)))
            assert reused.delivered.num_rows == expected


def test_bad_input() -> None:
    text = text_of("sequence", AROUND)
    with pytest.raises(QueryError, match="no subscription 'Neer' moves"):
        reuse(text, "Neer", {}, ReuseSettings())
    with pytest.raises(InputError, match="no table for stream Lamp"):
        reuse(text, "Near", {"Car": tables_of(crowd(1))["Car"]}, ReuseSettings())
    with pytest.raises(SituError, match=r"recall of -0\.1"):
        Thresholds(0.5, -0.1)
    with pytest.raises(SituError, match="Give one or more"):
        ReuseSettings("mqc", ByCount(0))
    with pytest.raises(SituError, match="disparity"):
        run(text, 1, ReuseSettings("mqc", predictor="optimistic"), Thresholds(0.5, 0.5, 0.5))


def test_the_clause_of_the_subscription_says_how_good_is_good_enough() -> None:
    text = text_of("sequence", AROUND)
    clause = "  quality precision 0.4 recall 0.5\n"
    told = reuse(text + clause, "Near", tables_of(crowd(1)), ReuseSettings("mqc", ByCount(1)))
    given = run(text, 1, ReuseSettings("mqc", ByCount(1)), Thresholds(0.4, 0.5))
    assert told.counts == given.counts
    assert told.delivered.equals(given.delivered)


def test_the_same_again() -> None:
    one, two = (run(text_of("chain", AROUND), 1, ReuseSettings("mqc"), Thresholds(0.5, 0.5)) for _ in range(2))
    assert one.counts == two.counts
    assert one.delivered.equals(two.delivered)
