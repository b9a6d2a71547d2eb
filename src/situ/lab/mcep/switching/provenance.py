"""The atomic events behind all that is numbered, kept on request."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from situ.kernel.arrays import I64
from situ.lab.mcep.switching.buffer import origin_numbers


class Provenance:
    """Of one consumer's graph: which events each event was made of, and what selections held. Numbers below
    `arrivals` are atomic events."""

    def __init__(self, arrivals: int) -> None:
        self._arrivals = arrivals
        self._made_of: dict[int, tuple[int, ...]] = {}
        self.selections: list[tuple[str, int, tuple[int, ...]]] = []

    def made(self, numbers: I64, origins: pa.Array) -> None:
        """Events with these numbers were made of others."""
        behind, offsets = origin_numbers(origins)
        for number, origins_of_event in zip(numbers.tolist(), np.split(behind, offsets[1:-1]), strict=True):
            self._made_of[number] = self.atoms(origins_of_event)

    def selected(self, operator: str, interest: int, events: I64, offsets: I64) -> None:
        """An operator read these selections for an interest."""
        for selection in np.split(events, offsets[1:-1]) if len(offsets) > 1 else []:
            self.selections.append((operator, interest, self.atoms(selection)))

    def atoms(self, numbers: I64) -> tuple[int, ...]:
        """The numbers of the atomic events behind events, each once, by arrival."""
        atomic: set[int] = set()
        for number in numbers.tolist():
            atomic.update((number,) if number < self._arrivals else self._made_of[number])
        return tuple(sorted(atomic))
