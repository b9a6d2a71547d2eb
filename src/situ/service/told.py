"""What happens to a query that runs on, as it is told to whoever shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from situ.core.errors import SituError
from situ.service.figures import MicroBatch
from situ.service.rules import Change


@dataclass(frozen=True, slots=True)
class Began:
    """The query runs, with the rules of a number, from a micro-batch on."""

    query: str
    rules: int
    batch: int
    shards: int
    levels: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Progressed:
    """A micro-batch has ended."""

    batch: MicroBatch


@dataclass(frozen=True, slots=True)
class RulesChanged:
    """New rules hold from a micro-batch on, for events after `watermark` (seconds since the epoch; None: not known).
    `pause_s` is how long nothing was read; None: the rules changed while the query did not run."""

    number: int
    change: Change
    batch: int
    watermark: float | None
    pause_s: float | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RulesRefused:
    """What somebody wrote into the control directory does not hold."""

    error: SituError


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that a person should know, and that does not end the query."""

    warning: str


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Time passes: said after every look at the query, a few times in a second."""


Told: TypeAlias = Began | Progressed | RulesChanged | RulesRefused | Warned | TimePassed
