"""Sites as real processes over real sockets, with TLS: what they find is what one process finds, whoever is killed."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from runtime.sites.real_sites import expected, local_sites, results, run_to_end, write_events

pytestmark = pytest.mark.jit_only


@pytest.mark.slow
def test_a_site_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    files = write_events(tmp_path, rows=600, seed=1)
    with local_sites(tmp_path, files, {"south": ("after", 4)}) as sites:
        assert run_to_end(sites) == 1
    assert results(tmp_path / "out") == expected(files)


@pytest.mark.storm
@pytest.mark.parametrize("point", ["before", "after", "sent"])
@pytest.mark.parametrize("number", [1, 3, 6])
def test_kills_at_named_points(tmp_path: Path, point: str, number: int) -> None:
    files = write_events(tmp_path, rows=600, seed=number)
    points = {"north": (point, number), "south": (point, number + 1), "town": (point, number)}
    with local_sites(tmp_path, files, points) as sites:
        assert run_to_end(sites) >= 1
    assert results(tmp_path / "out") == expected(files)


@pytest.mark.storm
@pytest.mark.parametrize("seed", range(4))
def test_kills_at_random_moments(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    files = write_events(tmp_path, rows=20_000, seed=seed)
    left = {"kills": 5}
    with local_sites(tmp_path, files) as sites:

        def kill() -> None:
            if left["kills"] and rng.random() < 0.5:
                left["kills"] -= 1
                sites.kill(rng.choice(list(sites.sites)), signal.SIGKILL)

        run_to_end(sites, kill)
    assert results(tmp_path / "out") == expected(files)
