"""Wrong ways to judge spans, each of which the worked case and the comparison with the definition must see.

Without the JIT: `python -m mobility.quality_mutations` prints for each of them how many worked cases see it;
`python -m mobility.quality_mutations NAME` ends with 0 if the random cases see that one, and with 3 if not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from mobility.quality_by_words import Shared
from mobility.sharing_cases import SAYING_SCHEMA, SharingCase, cases_of
from mobility.test_quality import RULES, run_whole, same
from mobility.test_quality_worked_case import CASES, is_as_by_hand
from situ.core.time import END
from situ.reuse import regions

#: So many blocks of cases are tried.
BLOCKS = 8
_first_failure: Callable[..., tuple[int, int, int]] = regions._first_failure
_is_good: Callable[..., bool] = regions._is_good


def one_event_late(*args: Any) -> tuple[int, int, int]:
    """The last moment of a span is not looked at."""
    *others, spans, sums = args
    return _first_failure(*others, spans._replace(length_us=max(spans.length_us - 1, 0)), sums)


def by_area(in_region: int, in_interest: int, in_both: int, precision: float, recall: float, sums: Any) -> bool:
    """Events do not count: that two areas have enough in common is judged elsewhere."""
    return _is_good(1, 1, 1, precision, recall, sums)


def silence_is_not_judged(
    in_region: int, in_interest: int, in_both: int, precision: float, recall: float, sums: Any
) -> bool:
    """Where a region has nothing, nothing was found, so nothing is said to be missing."""
    return in_region == 0 or _is_good(in_region, in_interest, in_both, precision, recall, sums)


def goes_on_too_late(*args: Any) -> tuple[int, int, int]:
    """What fails is not processed again: the interest goes on from the end of its span."""
    closes_us, _, events = _first_failure(*args)
    return closes_us, closes_us, events


def forgets_what_was_delivered(*args: Any) -> tuple[int, int, int]:
    """What was judged and delivered before is delivered again."""
    closes_us, begin_us, events = _first_failure(*args)
    return closes_us, begin_us - 2_000_000 if closes_us != END else begin_us, events


MUTATIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "one event late": ("_first_failure", one_event_late),
    "area instead of events": ("_is_good", by_area),
    "silence is not judged": ("_is_good", silence_is_not_judged),
    "goes on too late": ("_first_failure", goes_on_too_late),
    "forgets what was delivered": ("_first_failure", forgets_what_was_delivered),
    "nothing": ("_is_good", _is_good),
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    function, mutant = MUTATIONS[name]
    original = getattr(regions, function)
    setattr(regions, function, mutant)
    try:
        yield
    finally:
        setattr(regions, function, original)


def caught_by_hand(name: str) -> int:
    """How many worked cases see a mutation."""
    with mutated(name):
        return sum(_differs(partial(is_as_by_hand, case)) for case in CASES.values())


def is_caught(name: str) -> bool:
    """Whether random cases see a mutation."""
    for block in range(BLOCKS):
        for case in cases_of(np.random.default_rng([block, 77]), [*RULES]):
            expected, _ = case.truth()
            with mutated(name):
                if _differs(partial(_is_as_by_words, case, expected)):
                    return True
    return False


def _is_as_by_words(case: SharingCase, expected: list[Shared]) -> bool:
    return same(run_whole(case.text, case.events, SAYING_SCHEMA)[0], expected)


def _differs(is_same: Callable[[], bool]) -> bool:
    try:
        return not is_same()
    except (AssertionError, IndexError, ValueError):
        return True


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(json.dumps({name: caught_by_hand(name) for name in MUTATIONS}))
    else:
        sys.exit(0 if is_caught(sys.argv[1]) else 3)
