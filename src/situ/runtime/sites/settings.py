"""Sizes and times by which a site works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes in bytes, times in seconds.

    `credit`: what may be sent of a log before a reader has journalled it. `step`: what waits makes a step although the
    disk is busy. `snapshot`: the state is written when so much was journalled since (or as much as the state is
    large). `quota`: a source is held when so much of its log is kept for readers. `waiting`: a log that is ahead of
    time gets no credit when so much of it waits. `repeat`: what was not answered is said again. `ask`: who waits for
    time asks after so long. `acknowledge`: what is journalled is acknowledged after so long, unless the acknowledgement
    rides on a request or a question before.
    """

    credit: int = 16 << 20
    step: int = 1 << 20
    snapshot: int = 64 << 20
    quota: int = 2 << 30
    waiting: int = 512 << 20
    repeat: float = 1.0
    ask: float = 0.02
    acknowledge: float = 2.0

    @property
    def patience(self) -> float:
        """A reader that is silent for so long about what it was sent is asked whether it came."""
        return self.acknowledge + self.repeat
