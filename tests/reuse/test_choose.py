"""What is chosen on made-up costs: off where reuse does not pay, on where it does."""

from __future__ import annotations

import numpy as np
import pytest

from reuse.test_batches import random_selections
from situ.quality.atoms import AtomSets
from situ.reuse.batches import Selections
from situ.reuse.choose import ESTIMATORS, Costs, Nearest, Setting, Trial, choose, sampled, settings, try_setting
from situ.reuse.neighbours import Interests


def costs(selection_s: float, estimation_s: float, ready_s: float = 0.0) -> Costs:
    return Costs(selection_s, selection_s / 30, dict.fromkeys(ESTIMATORS, estimation_s), ready_s)


def same_windows(operators: int, each: int) -> Selections:
    """All operators select the same."""
    events = np.lib.stride_tricks.sliding_window_view(np.arange(each + 9), 10)
    sets = AtomSets(np.tile(events, (operators, 1)).reshape(-1), np.arange(operators * each + 1) * 10)
    begin = np.tile(np.arange(each), operators)
    return Selections(np.repeat(np.arange(operators), each), begin, begin + 9, sets)


def trials(sample: Selections, operators: int, threshold: float = 0.5) -> list[Trial]:
    thresholds = np.full(operators, threshold)
    return [try_setting(setting, sample, thresholds, thresholds) for setting in settings(ESTIMATORS)]


def test_dear_operators_share() -> None:
    choice = choose(costs(1e-2, 1e-7), trials(same_windows(20, 50), 20))
    assert choice.setting is not None
    assert choice.shared_s < 0.1 * choice.alone_s
    assert str(choice).startswith("reuse on: m")
    assert "selections" in choice.reason


def test_cheap_operators_with_dear_estimations_do_not() -> None:
    choice = choose(costs(1e-8, 1e-5), trials(same_windows(20, 50), 20))
    assert choice.setting is None
    assert choice.reason.startswith("does not pay by 10%")
    assert str(choice).startswith("reuse off")


def test_cheap_operators_share_in_batches_where_single_selections_do_not_pay() -> None:
    tried = trials(same_windows(20, 50), 20)
    price = costs(1e-6, 1e-7)
    choice = choose(price, tried)
    assert choice.setting is not None
    assert choice.setting.batch != 1
    single_mqc = [trial for trial in tried if trial.setting.batch == 1 and trial.setting.heuristic == "mqc"]
    assert choose(price, single_mqc).setting is None


def test_off_where_making_ready_costs_more_than_processing() -> None:
    tried = trials(same_windows(20, 50), 20)
    assert choose(costs(1e-6, 0.0), tried).setting is not None
    assert choose(costs(1e-6, 0.0, ready_s=2e-6), tried).setting is None


def test_off_where_nothing_overlaps() -> None:
    count = 30
    times = np.arange(count)
    sets = AtomSets(times, np.arange(count + 1))
    choice = choose(costs(1e-2, 1e-7), trials(Selections(times % 5, times, times, sets), 5, 1.0))
    assert (choice.setting, choice.reason) == (None, "no setting covers any selection")


def test_off_where_there_is_no_sample() -> None:
    assert choose(costs(1.0, 1.0), []).reason == "nothing was sampled"


def test_what_misses_the_thresholds_is_not_chosen() -> None:
    good = Trial(Setting("mqc", 1, None, "average"), 100, 3000, 60, 1800, 50, True)
    poor = Trial(Setting("mqc", None, None, "average"), 100, 3000, 10, 300, 5, False)
    assert choose(costs(1e-3, 1e-6), [good, poor]).setting == good.setting
    assert choose(costs(1e-3, 1e-6), [poor]).reason == "none keeps the thresholds"


def test_the_cheaper_estimator_is_chosen() -> None:
    tried = trials(same_windows(10, 20), 10)
    price = Costs(1e-4, 0.0, {"whole batches": 1e-6, "average": 1e-9, "every selection": 1e-6})
    choice = choose(price, tried)
    assert choice.setting is not None
    assert choice.setting.estimator == "average"


@pytest.mark.parametrize("seed", range(3))
def test_trials_on_sliding_windows(seed: int) -> None:
    sample = random_selections(np.random.default_rng(seed), 8, 30, size=12)
    for trial in trials(sample, 8, 0.4):
        assert 0 < trial.processed <= trial.asked == len(sample)
        assert trial.processed_events == 12 * trial.processed
        if trial.setting.estimator == "every selection" or trial.setting.batch == 1:
            assert trial.kept


def test_neighbours_bound_the_pairs_judged() -> None:
    sample, thresholds = same_windows(12, 10), np.full(12, 0.5)
    interests = Interests.of(np.arange(12) * 10.0, np.zeros(12), 100.0, 100.0)
    everyone = try_setting(Setting("mqc", 5, None, "average"), sample, thresholds, thresholds, interests)
    few = try_setting(Setting("mqc", 5, Nearest(200.0, 2), "average"), sample, thresholds, thresholds, interests)
    assert few.estimations < everyone.estimations
    assert "the 2 nearest within 200 m" in str(few.setting)


@pytest.mark.parametrize("most", [0, 1, 40, 10_000])
def test_a_sample_has_the_latest_of_all_operators(most: int) -> None:
    selections = random_selections(np.random.default_rng(5), 6, 30)
    sample = sampled(selections, most)
    assert len(sample) == len(sample.sets) == min(most, len(selections))
    assert sorted(sample.begin_us.tolist()) == sorted(selections.begin_us.tolist())[len(selections) - len(sample) :]
    known = rows(selections)
    assert all(row in known for row in rows(sample))
    assert len(set(sample.owner.tolist())) == 6 or most < 40


def rows(selections: Selections) -> list[tuple[int, int, tuple[int, ...]]]:
    parts = np.split(selections.sets.atoms, selections.sets.offsets[1:-1]) if len(selections) else []
    atoms = [tuple(part.tolist()) for part in parts]
    return list(zip(selections.owner.tolist(), selections.end_us.tolist(), atoms, strict=True))
