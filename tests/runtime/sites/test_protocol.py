"""Pull windows and requests, against combinations that are enumerated one by one."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.sites.combinations import Event, Question, asked, growths
from situ.core.time import END
from situ.runtime.sites.protocol import (
    NO_REQUESTS,
    Pulled,
    Requests,
    Windows,
    joined,
    known_ns,
    pull_windows,
    requests,
    union,
)

S = 1_000_000


def windows_of(question: Question, earlier: dict[int, list[Event]], pulled: int) -> Windows:
    operator = Pulled(question.ordered, question.window, question.ranks)
    times = [np.array([time for _, time, _ in events], np.int64) for events in earlier.values()]
    arrived = [np.array([at for _, _, at in events], np.int64) for events in earlier.values()]
    return pull_windows(operator, list(earlier), times, arrived, pulled)


def seconds(*times: float) -> list[int]:
    return [round(time * S) for time in times]


def at_once(number: int, *times: float) -> list[Event]:
    """Events that arrive when they occur."""
    return [(number, time, time * 1000) for time in seconds(*times)]


class TestExamplesOfThePaper:
    """PaNORAMA, section 6, figures 7 and 8."""

    def test_and_with_e3_then_e1_then_e2(self) -> None:
        question = Question(False, round(2.5 * S), (0, 1, 2))
        for_e1 = windows_of(question, {2: at_once(2, 10)}, 0)
        assert (for_e1.first_us.tolist(), for_e1.last_us.tolist()) == (seconds(7.5), seconds(12.5))
        for_e2 = windows_of(question, {2: at_once(2, 10), 0: at_once(0, 11)}, 1)
        # t_e1 - W <= t_e2 <= t_e3 + W
        assert (for_e2.first_us.tolist(), for_e2.last_us.tolist()) == (seconds(8.5), seconds(12.5))
        assert for_e2.known_ns.tolist() == [11 * S * 1000]

    def test_seq_with_e7_then_e8_then_e6(self) -> None:
        question = Question(True, 3 * S, (0, 1, 2))
        for_e8 = windows_of(question, {1: at_once(1, 10)}, 2)
        assert (for_e8.first_us.tolist(), for_e8.last_us.tolist()) == (seconds(10), seconds(13))
        for_e6 = windows_of(question, {1: at_once(1, 10), 2: at_once(2, 12)}, 0)
        assert (for_e6.first_us.tolist(), for_e6.last_us.tolist()) == (seconds(9), seconds(10))

    def test_an_e8_after_the_window_opens_nothing(self) -> None:
        question = Question(True, 3 * S, (0, 1, 2))
        assert len(windows_of(question, {1: at_once(1, 10), 2: at_once(2, 13.000001)}, 0)) == 0


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [((0, 1, 2), (10, 12)), ((1, 0, 2), (11, 12)), ((0, 2, 1), (10, 11)), ((2, 1, 0), (11, 11))],
)
def test_of_events_of_equal_time_the_order_of_types_decides(ranks: tuple[int, ...], expected: tuple[int, int]) -> None:
    """SEQ(0, 1, 2), where 1 is pulled between 0 at 10 and 2 at 12."""
    windows = windows_of(Question(True, 5, ranks), {0: [(0, 10, 10_000)], 2: [(2, 12, 12_000)]}, 1)
    assert (windows.first_us.tolist(), windows.last_us.tolist()) == ([expected[0]], [expected[1]])


def random_case(seed: int) -> tuple[Question, dict[int, list[Event]], int]:
    """Two to five inputs, of which some are earlier and one is pulled; events with many ties, delayed at random."""
    rng = np.random.default_rng(seed)
    inputs = int(rng.integers(2, 6))
    question = Question(bool(rng.integers(2)), int(rng.integers(1, 12)), tuple(rng.permutation(inputs).tolist()))
    chosen = rng.permutation(inputs)[: rng.integers(2, inputs + 1)].tolist()
    delay = int(rng.choice([0, 3_000, 20_000]))
    most = 6 if inputs < 5 else 4
    earlier = {}
    for number in chosen[1:]:
        times = np.sort(rng.integers(0, 30, rng.integers(0, most + 1))).tolist()
        earlier[number] = [(number, time, time * 1000 + int(rng.integers(0, delay + 1))) for time in times]
    return question, earlier, chosen[0]


@pytest.mark.parametrize("seed", range(300))
def test_windows_are_those_of_all_combinations(seed: int) -> None:
    question, earlier, pulled = random_case(seed)
    times = range(-15, 46)
    opened = question.opened(list(earlier.values()), pulled, times)
    expected = [min((known for known, within in opened if time in within), default=END) for time in times]
    windows = windows_of(question, earlier, pulled)
    assert known_ns(windows, np.array(times)).tolist() == expected
    covered = {time for first, last in zip(*union(windows), strict=True) for time in range(first, last + 1)}
    assert covered == {time for time, known in zip(times, expected, strict=True) if known != END}


@pytest.mark.parametrize("seed", range(300))
def test_requests_are_those_of_a_protocol_step_by_step(seed: int) -> None:
    question, earlier, pulled = random_case(seed)
    lead = int(np.random.default_rng(seed).integers(0, 8_000))
    needs = [(k, within) for k, within in question.opened(list(earlier.values()), pulled, range(-15, 46)) if within]
    found = requests(windows_of(question, earlier, pulled), lead)
    assert (found.starts, found.extensions) == asked(needs, lead)
    assert found.growths == growths(needs)


def test_windows_of_several_operators_are_asked_for_together() -> None:
    some = Windows(np.array([0]), np.array([20]), np.array([0]))
    others = Windows(np.array([5]), np.array([30]), np.array([5_000]))
    assert requests(joined([some, others]), lead_ns=0) == Requests(starts=1, extensions=1, episodes=1, growths=2)


def test_what_is_known_at_one_time_is_one_request() -> None:
    windows = Windows(np.array([0, 40]), np.array([20, 50]), np.array([60_000, 60_000]))
    assert requests(windows, lead_ns=0) == Requests(starts=1, extensions=0, episodes=2, growths=1)


def test_without_windows_nothing_is_asked_for() -> None:
    empty = windows_of(Question(True, 5, (0, 1)), {0: []}, 1)
    assert len(empty) == 0
    assert requests(empty, lead_ns=0) == NO_REQUESTS
    assert known_ns(empty, np.array([1, 2])).tolist() == [END, END]
    assert [part.tolist() for part in union(empty)] == [[], []]


def test_many_windows_find_room() -> None:
    """Combinations that arrive the earlier the later they occur: each of them opens a window of its own."""
    first = [(0, 0, 0)]
    later = [(1, time, 100_000 - 500 * time) for time in range(60)]
    windows = windows_of(Question(False, 60, (0, 1, 2)), {0: first, 1: later}, 2)
    assert len(windows) == 60
