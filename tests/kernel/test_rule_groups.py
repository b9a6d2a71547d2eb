"""Groups of rules that run as one have the numbers that `GroupIndex` would give them, and the same keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from situ.kernel.state.groups import GroupIndex
from situ.kernel.state.rule_groups import RuleGroupIndex

TYPES = [pa.int64(), pa.int64(), pa.string(), pa.string(), pa.int64()]


@pytest.mark.parametrize("seed", range(6))
def test_groups_are_numbered_and_released_as_by_the_index_of_all_keys(seed: int) -> None:
    random = np.random.default_rng(seed)
    mine, plain = RuleGroupIndex(constants=2), GroupIndex()
    generation = dict.fromkeys(range(40), 0)
    for _ in range(12):
        length = int(random.integers(0, 300))
        rule = np.sort(random.integers(0, 40, length)) if random.random() < 0.7 else random.integers(0, 40, length)
        columns = [
            pa.array(rule),
            pa.array([7 * r + generation[r] for r in rule.tolist()], pa.int64()),
            pa.array([f"rule {r}" for r in rule.tolist()], pa.string()),
            pa.array([("a", "b", None, "long " * 9)[n] for n in random.integers(0, 4, length)], pa.string()),
            pa.array(random.integers(0, 9, length)),
        ]
        assert mine.numbers(columns, length).tolist() == plain.numbers(columns, length).tolist()
        assert len(mine) == len(plain)
        assert mine.used.tolist() == plain.used.tolist()
        numbers = np.flatnonzero(mine.used)
        assert mine.keys(numbers, TYPES) == plain.keys(numbers, TYPES)
        if random.random() < 0.5:
            gone = set(random.integers(0, 40, 10).tolist())
            of_rule = mine.keys(np.arange(len(mine)), TYPES)[0].to_pylist() if mine.used.all() else None
            idle = random.random(len(mine)) < 0.4
            if of_rule is not None:  # rules that are gone, and whose numbers others get, with other constants
                idle |= np.array([rule in gone for rule in of_rule], np.bool_)
                generation |= {rule: generation[rule] + 1 for rule in gone}
            mine.release(idle & mine.used)
            plain.release(idle & plain.used)
