"""One path of a partial match as rows, for conditions that Python evaluates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from situ.kernel.arrays import I64
from situ.kernel.columns.evaluate import Rows
from situ.kernel.matching.matcher import Matches
from situ.kernel.state.store import MatchRows, Store


class HostRows(MatchRows):
    """One path for a host condition. The event under test is the last one, and no aggregate sees it."""

    def __init__(
        self,
        matches: Matches,
        store: Store,
        variables: tuple[str, ...],
        event_types: Mapping[str, str],
        attributes: Callable[[str], tuple[str, ...]],
        mine: int,
    ) -> None:
        super().__init__(matches, store, variables, event_types, attributes)
        self._single[variables[mine]] = matches.path_event[-1:]

    def repeated(self, alias: str) -> tuple[I64, Rows]:
        matches = self._matches
        shorter = replace(
            matches,
            offsets=matches.offsets - np.array([0, 1]),
            path_event=matches.path_event[:-1],
            path_variable=matches.path_variable[:-1],
        )
        return MatchRows(shorter, self._store, self._variables, self._types, self._attributes).repeated(alias)


def one_match(events: list[int], variables: list[int]) -> Matches:
    """A match of these events, each of which a variable has taken."""
    one = np.zeros(1, np.int64)
    offsets = np.array([0, len(events)])
    return Matches(one, one, one, one, one, np.zeros(1, np.uint8), offsets, np.array(events), np.array(variables))
