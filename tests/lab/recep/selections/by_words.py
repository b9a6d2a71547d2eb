"""What `reuse` is to do, by words and brute force: the quality of what it delivers, from its provenance alone.

A selection's atomic events are those behind the events that it read. An event that another selection was processed for
stands for the atomic events of the selection that was asked, and stems from those of the one that was processed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from situ.lab.recep.selections import Reused

Atoms = frozenset[int]


@dataclass(frozen=True)
class Selection:
    """One selection: of which interest, what it would be made of without reuse, what it is made of, and the interests
    of all operators behind it."""

    interest: int
    actual: Atoms
    real: Atoms
    interests: Atoms


def share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


@dataclass(frozen=True)
class ByWords:
    """All selections of a run by type and number."""

    reused: Reused

    @cached_property
    def selections(self) -> dict[str, list[Selection]]:
        found: dict[str, list[Selection]] = {}
        for name, work in self.reused.work.items():
            events = [event for type_ in work.inputs.batches for event in self._events(type_, found)]
            rows, offsets = work.selected.rows.tolist(), work.selected.offsets.tolist()
            found[name] = [
                _selection(owner, [events[row] for row in rows[offsets[k] : offsets[k + 1]]])
                for k, owner in enumerate(work.selected.owner.tolist())
            ]
        return found

    def _events(self, type_: str, known: dict[str, list[Selection]]) -> Iterator[tuple[Atoms, Atoms, Atoms]]:
        """Of each event that arrived: what it stands for, what it stems from, and whose operators took part."""
        if type_ in self.reused.read.streams:
            for number in self.reused.read.streams[type_].event.tolist():
                yield frozenset({number}), frozenset({number}), frozenset()
            return
        streamed = self.reused.work[type_].streamed
        for asked, processed in zip(streamed.asked.tolist(), streamed.processed.tolist(), strict=True):
            one, other = known[type_][asked], known[type_][processed]
            yield one.actual, other.real, other.interests

    def quality(self, type_: str, asked: int, processed: int) -> tuple[float, float]:
        """Precision and recall, if one selection is processed on behalf of another."""
        wanted, read = self.selections[type_][asked].actual, self.selections[type_][processed].real
        return share(len(wanted & read), len(read)), share(len(wanted & read), len(wanted))

    def disparity(self, type_: str, processed: int) -> float:
        """The share of interests that hold an atomic event, over all that are behind a selection."""
        some, read = self.selections[type_][processed], self.reused.read
        held = 0
        for interest in some.interests:
            x, y = read.middle_x[interest], read.middle_y[interest]
            for atom in some.real:
                dx, dy = abs(read.x[atom] - x), abs(read.y[atom] - y)
                if read.shape.is_round:
                    held += dx * dx + dy * dy <= read.shape.half_x**2
                else:
                    held += dx <= read.shape.half_x and dy <= read.shape.half_y
        return share(held, len(some.real) * len(some.interests))

    def delivered(self, type_: str, lifetime_us: int) -> list[tuple[Any, ...]]:
        """(consumer, number of the interest, time, precision, recall, disparity) of all that is to be delivered."""
        sent, interests = self.reused.work[type_].streamed, self.reused.read.interests
        found = []
        for k, time in enumerate(sent.arrived.batch.times.tolist()):
            asked, processed = int(sent.asked[k]), int(sent.processed[k])
            mine = self.selections[type_][asked].interest
            if interests.start_us[mine] - lifetime_us <= time <= interests.end_us[mine]:
                whose = interests.consumer[mine].as_py(), int(interests.number[mine]), time
                found.append((*whose, *self.quality(type_, asked, processed), self.disparity(type_, processed)))
        return found

    def batches(self, type_: str) -> dict[int, list[tuple[float, float]]]:
        """Of each covered batch: the qualities of its selections."""
        work = self.reused.work[type_]
        found: dict[int, list[tuple[float, float]]] = {}
        for asked, processed in enumerate(work.covered.by.tolist()):
            if asked != processed:
                found.setdefault(int(work.decided.batch[asked]), []).append(self.quality(type_, asked, processed))
        return found


def _selection(owner: int, events: list[tuple[Atoms, Atoms, Atoms]]) -> Selection:
    actual, real, interests = (frozenset[int]().union(*part) for part in zip(*events, strict=True))
    return Selection(owner, actual, real, interests | {owner})
