"""The figures of EdgeCEP's search, on few cases."""

from __future__ import annotations

from situ.bench.edgecep import full, limited, radius, random_tasks


def test_figures_of_a_few_cases() -> None:
    told: list[str] = []
    (equal,) = full(told.append, range(1, 4))
    above, missed = limited(told.append, range(1, 4))
    near = list(radius(told.append, range(1, 3)))
    assert 0 <= equal.value <= 100
    assert above.value >= 0
    assert missed.value == 0
    assert [figure.value >= 1 - 1e-6 for figure in near] == [True] * 3
    assert len(told) == 5


def test_limits_change_nothing_else() -> None:
    free, narrow = (random_tasks(5, limited=limited).problem for limited in (False, True))
    assert free.operators == narrow.operators
    assert [(link.a, link.b, link.latency_ms) for link in free.network.links] == [
        (link.a, link.b, link.latency_ms) for link in narrow.network.links
    ]
    assert free.root == narrow.root
