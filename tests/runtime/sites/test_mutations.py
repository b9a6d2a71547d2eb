"""Storms find out when the core of a site is wrong."""

from __future__ import annotations

import pytest

from runtime.sites.mutations import MUTATIONS, is_caught, run_storm_for

#: Storms that caught a mutation once, where few do: they are tried first. Every change of the core shifts them, so that
#: others may have to be tried, too.
TRIED_FIRST = {
    "credit_on_processing": (33,),
    "version_cut_one_microsecond_off": (23, 30),
    "pull_window_one_microsecond_short": (28, 37),
    "asked_before_commit": (102, 220, 297),
    "answered_twice": (69, 102),
    "waiting_events_doubled": (88,),
    "waiting_events_left_behind": (88,),
    "state_one_microsecond_off": (272,),
    "state_left_behind": (17,),
    "finished_too_early": (3,),
    "found_by_both_instances": (14,),
    "cut_against_the_table": (45,),
    "step_not_followed": (1,),
    "step_followed_twice": (3,),
}
#: The rarest is caught by one storm in some hundred: that none of so many does is hardly chance.
STORMS = 400


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_mutation_is_caught(mutation: str) -> None:
    assert any(is_caught(mutation, seed) for seed in (*TRIED_FIRST.get(mutation, ()), *range(STORMS)))


@pytest.mark.parametrize(("mutation", "seed"), [(name, seeds[0]) for name, seeds in TRIED_FIRST.items()])
def test_the_same_storm_passes_where_nothing_is_wrong(mutation: str, seed: int) -> None:
    run_storm_for(mutation, seed)


@pytest.mark.storm
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_how_many_storms_catch_a_mutation(mutation: str) -> None:
    caught = [seed for seed in range(200) if is_caught(mutation, seed)]
    print(f"{mutation}: {len(caught)} of 200 storms")
    assert caught
