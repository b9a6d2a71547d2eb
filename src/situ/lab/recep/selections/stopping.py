"""Recursive stop, for all operators of a run (RECEP, section 4.3.1).

What is decided does not depend on what stops, so what is delivered does not, either. Only selections that are decided
on while they are open can stop: with prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from situ.core.time import END
from situ.lab.quality.precision_recall import Mask
from situ.lab.recep.coverings.stop import OperatorSelections, free, stops, unneeded_us
from situ.lab.recep.selections.covering import Covered
from situ.lab.recep.selections.deciding import Decided
from situ.lab.recep.selections.selected import Selected
from situ.lab.recep.selections.settings import ReuseSettings


@dataclass(frozen=True, slots=True)
class OperatorDecision:
    """What was decided for one type of operator."""

    selected: Selected
    decided: Decided
    covered: Covered
    settings: ReuseSettings


def stopped(decisions: Mapping[str, OperatorDecision], readers: Mapping[str, Sequence[str]]) -> dict[str, Mask]:
    """Which selections stop. Types come inputs first; `readers` names those that read each, none if it is delivered."""
    is_stopped, reading = dict[str, Mask](), dict[str, OperatorSelections]()
    for name in reversed(list(decisions)):
        selections, by = decisions[name].selected, decisions[name].covered.by
        decided_us = decisions[name].decided.decided_us[decisions[name].decided.batch]
        phase_us = decisions[name].settings.phase_us
        if readers[name] and selections.steps is not None:
            times = (selections.owner, selections.begin_us, selections.end_us)
            unneeded = np.maximum.reduce([unneeded_us(*times, reading[reader]) for reader in readers[name]])
            processed_us = np.maximum(decided_us, (selections.end_us // phase_us + 1) * phase_us)
            is_stopped[name], since = stops(by, unneeded, processed_us)
        else:
            is_stopped[name], since = np.zeros(len(by), np.bool_), np.full(len(by), END)
        reading[name] = OperatorSelections(
            selections.owner, selections.begin_us, selections.end_us, free(by, decided_us, is_stopped[name], since)
        )
    return is_stopped
