"""Push-pull by words: enumerates all combinations of events. Shares no code with situ.runtime.sites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

#: An event: its input, its time in microseconds, when it arrived in ns.
Event = tuple[int, int, int]


@dataclass(frozen=True)
class Question:
    """A SEQ (`ordered`) or AND over inputs 0, 1, ...; `ranks` order events of equal time."""

    ordered: bool
    window: int
    ranks: tuple[int, ...]

    def fits(self, events: Iterable[Event]) -> bool:
        """Whether events of different inputs can all be in one match."""
        found = sorted(events)
        times = [time for _, time, _ in found]
        if max(times) - min(times) > self.window:
            return False
        keys = [(time, self.ranks[number]) for number, time, _ in found]
        return not self.ordered or all(one < other for one, other in pairwise(keys))

    def combinations(self, earlier: Sequence[Sequence[Event]]) -> list[tuple[Event, ...]]:
        return [events for events in product(*earlier) if self.fits(events)]

    def opened(
        self, earlier: Sequence[Sequence[Event]], pulled: int, times: Iterable[int]
    ) -> list[tuple[int, set[int]]]:
        """For each combination: when all of it has arrived, and the times at which an event could join."""
        times = list(times)
        return [
            (max(arrived for _, _, arrived in events), {t for t in times if self.fits([*events, (pulled, t, 0)])})
            for events in self.combinations(earlier)
        ]


def asked(needs: Sequence[tuple[int, set[int]]], lead: int) -> tuple[int, int]:
    """Requests that begin and extensions, for (ns, times in us) that become known: a protocol step by step."""
    told: set[int] = set()  # sources were asked for these
    wanted: set[int] = set()  # and will be asked for these, before the request that is under way ends
    starts = extensions = 0
    for now in sorted({known for known, _ in needs}):
        new = set().union(*(times for known, times in needs if known == now))
        ends_at = (max(told) + 1) * 1000 if told else None
        if wanted and ends_at is not None and now > ends_at - lead:
            told, wanted = told | wanted, set()
            extensions += 1
            ends_at = (max(told) + 1) * 1000
        missing = new - told - wanted
        if not missing:
            continue
        if ends_at is None or now >= ends_at or min(missing) <= max(told | wanted):
            starts += 1
            told, wanted = told | wanted | missing, set()
        elif now > ends_at - lead:
            extensions += 1
            told |= missing
        else:
            wanted |= missing
    return starts, extensions + bool(wanted)


def growths(needs: Sequence[tuple[int, set[int]]]) -> int:
    """How often more is needed than before."""
    told: set[int] = set()
    count = 0
    for now in sorted({known for known, _ in needs}):
        new = set().union(*(times for known, times in needs if known == now))
        count += bool(new - told)
        told |= new
    return count
