"""Consumers of the benchmark: those who move say where they are every second, the others once."""

import numpy as np

from situ.bench.switching import MEASURED_S, WARM_UP_S, Crowd


def test_those_who_move_and_those_who_do_not_begin_alike() -> None:
    moving, still = Crowd(20, True).updates(), Crowd(20, False).updates()
    assert len(moving) == len(still) == WARM_UP_S + MEASURED_S
    assert moving[0].slice(0, 2).equals(still[0].slice(0, 2))
    assert sum(table.num_rows - 1 for table in still) == 20
    assert [table.num_rows - 1 for table in moving[:12]] == [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 20, 20]


def test_a_second_has_a_row_without_a_place_and_consumers_go_round() -> None:
    first, second = Crowd(20, True).updates()[30:32]
    assert first["vehicle"][-1].as_py() == "nobody"
    assert np.isnan(first["x"][-1].as_py())
    steps = np.hypot(*(second[name].to_numpy()[:-1] - first[name].to_numpy()[:-1] for name in ("x", "y")))
    assert np.allclose(steps, 10.0, rtol=0.01)
