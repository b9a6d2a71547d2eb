"""How selection managers work, and what consumers ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from situ.core.errors import SituError
from situ.lab.recep.coverings.choose import Nearest
from situ.lab.recep.coverings.cover import Heuristic
from situ.lab.recep.estimators.batches import Over
from situ.lab.recep.estimators.grid import Cells

#: By atomic events; by the areas of interests; by shared incoming events; by a grid of these cells.
Estimator = Literal["exact", "spatial", "per neighbour"] | Cells
#: None: a batch is decided on when it is complete. Otherwise in the first phase after it has begun, by what will come.
Predictor = Literal["pessimistic", "optimistic", "current selection", "event pattern"]


@dataclass(frozen=True, slots=True)
class ByTime:
    """The selections of an operator that begin within so much time are a batch."""

    us: int

    def __str__(self) -> str:
        return f"batches of {self.us / 1e6:g} s"


@dataclass(frozen=True, slots=True)
class ByCount:
    """A batch is a number of subsequent selections of an operator."""

    selections: int

    def __str__(self) -> str:
        return "single selections" if self.selections == 1 else f"batches of {self.selections}"


@dataclass(frozen=True, slots=True)
class ReuseSettings:
    """How selections are shared.

    `batch` None: all selections of an operator, for as long as the interest lasts. `neighbours` None: all of the group;
    otherwise they are chosen anew every `renew_us`. `most`: how many operators a selection manager takes.
    `look_back`: what an interest reads of the time before it began may be covered by what was processed then. `auto`:
    what pays is chosen for every type of operator, from a sample; heuristic, batch and estimator are ignored then.

    >>> print(ReuseSettings("mqc", ByTime(10_000_000)))
    mqc, batches of 10 s, neighbours: all of the group, judged by: exact, average
    """

    heuristic: Heuristic = "mqc"
    batch: ByTime | ByCount | None = ByTime(10_000_000)
    over: Over = "average"
    neighbours: Nearest | None = None
    estimator: Estimator = "exact"
    predictor: Predictor | None = None
    phase_us: int = 1_000_000
    most: int = 1_000
    stop: bool = True
    renew_us: int = 2_000_000
    look_back: bool = True
    auto: bool = False

    def __post_init__(self) -> None:
        length = self.batch.us if isinstance(self.batch, ByTime) else 1
        count = self.batch.selections if isinstance(self.batch, ByCount) else 1
        if min(self.phase_us, self.most, self.renew_us, length, count) < 1:
            raise SituError(
                f"no selections can be shared in phases of {self.phase_us} us, {self.batch or 'one batch'}, among "
                f"{self.most} operators, with neighbours for {self.renew_us} us",
                remedy="Give one or more of each.",
            )
        if self.predictor is not None and self.estimator == "per neighbour":
            raise SituError(
                "incoming events that are still to come cannot be compared", remedy="Predict by atomic events or cells."
            )

    def __str__(self) -> str:
        batch = "all in one batch" if self.batch is None else str(self.batch)
        judged = f"cells of {self.estimator.side_m:g} m" if isinstance(self.estimator, Cells) else self.estimator
        predicted = "" if self.predictor is None else f", predicted: {self.predictor}"
        near = self.neighbours or "all of the group"
        return f"{self.heuristic}, {batch}, neighbours: {near}, judged by: {judged}, {self.over}{predicted}"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How good is good enough.

    >>> Thresholds(precision=1.5)
    Traceback (most recent call last):
        ...
    situ.core.errors.SituError: a consumer asks for a precision of 1.5, which cannot be.
      Ask for a share from 0 to 1.
    """

    precision: float = 0.0
    recall: float = 0.0
    disparity: float = 0.0

    def __post_init__(self) -> None:
        for name in ("precision", "recall", "disparity"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                raise SituError(
                    f"a consumer asks for a {name} of {value}, which cannot be", remedy="Ask for a share from 0 to 1."
                )


#: Of all consumers, or of each by name; those who are not named get what they ask for, exactly.
Asked = Thresholds | Mapping[Any, Thresholds]

EXACTLY = Thresholds(1.0, 1.0)
