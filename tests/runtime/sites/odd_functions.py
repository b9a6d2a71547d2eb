"""Functions for the tests of sites: one that gives the same for the same, and one that does not."""

from __future__ import annotations

from itertools import count

import situ

_calls = count()


@situ.function(returns="int")
def doubled(value: int) -> int:
    return 2 * value


@situ.function(returns="int")
def times_called(value: int) -> int:
    return next(_calls)
