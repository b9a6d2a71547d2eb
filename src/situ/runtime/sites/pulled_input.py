"""What a site asks for of a type that it pulls: the union of what its operators need, numbered request by request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from situ.core.time import END
from situ.runtime.sites.logs import PullState
from situ.runtime.sites.messages import MOST_RANGES
from situ.runtime.sites.ranges import Ranges, coarser, from_time, merged, without
from situ.runtime.sites.selections import Filter


@dataclass
class PulledInput:
    """The requests for one type. `sets` are the ranges of each request that some origin may still answer, by its
    number; each request has all that was asked for before, so that it may be repeated, or overtake another one. Where
    it would have more ranges than a message may, some that are near to each other become one."""

    filters: tuple[Filter, ...]
    state: PullState = field(init=False)
    sets: dict[int, tuple[Ranges, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.state = PullState(ranges=((),) * len(self.filters))
        self.sets = {0: self.state.ranges}

    def answered(self, request: int) -> dict[Filter, Ranges]:
        """The ranges of a request that all origins have answered, by filter."""
        for number in [number for number in self.sets if number < request]:
            del self.sets[number]
        return dict(zip(self.filters, self.sets[request], strict=True))

    def ask(self, needed: Mapping[Filter, list[Ranges]], forget_us: int) -> None:
        """Ask for what operators need now, and tell before which time nothing will be needed."""
        before = self.state
        ranges = tuple(
            self._few_enough(
                from_time(merged([*asked, *(pair for some in needed.get(filter_, ()) for pair in some)]), forget_us)
            )
            for filter_, asked in zip(self.filters, before.ranges, strict=True)
        )
        has_more = any(without(now, then) for now, then in zip(ranges, before.ranges, strict=True))
        ends = forget_us == END and before.forget_us < END
        self.state = PullState(before.number + (has_more or ends), max(forget_us, before.forget_us), ranges)
        if self.state.number > before.number:
            self.sets[self.state.number] = ranges

    def _few_enough(self, ranges: Ranges) -> Ranges:
        """Ranges that fit into a request, and some more, so that it is not each time others that become one."""
        most = MOST_RANGES // len(self.filters)
        return ranges if len(ranges) <= most else coarser(ranges, max(1, most // 2))

    def to_json(self) -> str:
        return json.dumps([self.state.to_json(), {str(number): ranges for number, ranges in self.sets.items()}])

    def restore(self, text: str) -> None:
        """Go on from what `to_json` said."""
        state, sets = json.loads(text)
        self.state = PullState.of_json(state)
        self.sets = {
            int(number): tuple(merged((first, last) for first, last in one) for one in ranges)
            for number, ranges in sets.items()
        }
