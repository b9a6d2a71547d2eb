"""Simulated sites of which some run on Spark, by its stages without Spark: batches of any size, redone, half done, with
versions in between, find what the embedded engine finds."""

from __future__ import annotations

from runtime.sites.storm import random_storm, run_storm, with_spark
from seed_blocks import blocks

SEEDS = 20


@blocks(0, 1, 250)
def test_storms_with_spark(block: int) -> None:
    failed = known = 0
    for seed in range(block * SEEDS, (block + 1) * SEEDS):
        world = run_storm(with_spark(random_storm(seed)))
        failed, known = failed + world.batches_failed, known + world.batches_known
    assert failed, "no batch of these seeds was done again"


def test_batches_that_the_site_has_and_spark_has_not() -> None:
    """Killed between the site's commit and Spark's, a batch comes again, and is known."""
    worlds = [run_storm(with_spark(random_storm(seed))) for seed in (60, 64, 85)]
    assert sum(world.batches_known for world in worlds)
