"""Storms find out when the core of a site is wrong."""

from __future__ import annotations

import pytest

from runtime.sites.mutations import MUTATIONS, is_caught

#: For each mutation, two storms that catch it.
CAUGHT = {
    "acknowledge_before_commit": (3, 7),
    "promise_before_commit": (3, 6),
    "position_not_stored": (2, 3),
    "batch_taken_twice": (1, 2),
    "credit_on_processing": (15, 37),
    "version_cut_one_microsecond_off": (23, 30),
    "pull_window_one_microsecond_short": (28, 37),
    "decided_before_all_have_answered": (0, 31),
    "range_forgotten_too_early": (4, 11),
    "asked_before_commit": (103, 120),
    "answered_twice": (69, 102),
    "found_twice": (4, 11),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_mutation_is_caught(mutation: str) -> None:
    assert all(is_caught(mutation, seed) for seed in CAUGHT[mutation])


@pytest.mark.storm
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_how_many_storms_catch_a_mutation(mutation: str) -> None:
    caught = [seed for seed in range(200) if is_caught(mutation, seed)]
    print(f"{mutation}: {len(caught)} of 200 storms")
    assert caught
