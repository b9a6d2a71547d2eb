"""Selection managers at work: the operators of all consumers of one moving subscription share selections (RECEP,
section 4). `reuse` runs them over tables; docs/lab/recep-selections.md says what happens.

    from situ.lab.recep.selections import ByTime, ReuseSettings, Thresholds, reuse
    reused = reuse(text, "Accident", {"Vehicle": table}, ReuseSettings("mqc", ByTime(10_000_000)), Thresholds(0.7, 0.7))
    reused.delivered     pa.Table: attributes, consumer, interest, _time, precision, recall, disparity (as measured)
    reused.counts        by type of operator: asked, processed, covered, stopped, estimations, copies, copies_plain
    reused.managers      pa.Table: type, region, most (instances at a time)
    reused.chosen        by type of operator, in words
"""

from situ.lab.recep.coverings.choose import Nearest
from situ.lab.recep.estimators.grid import Cells
from situ.lab.recep.selections.run import Reused, SelectionCounts, reuse
from situ.lab.recep.selections.settings import ByCount, ByTime, ReuseSettings, Thresholds

__all__ = ["ByCount", "ByTime", "Cells", "Nearest", "ReuseSettings", "Reused", "SelectionCounts", "Thresholds", "reuse"]
