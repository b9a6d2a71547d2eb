"""Selection managers at work: the operators of all consumers of one moving subscription share selections (RECEP,
section 4). `reuse` runs them over tables; docs/reuse-selections.md says what happens.

    from situ.runtime.selections import ByTime, Settings, Thresholds, reuse
    reused = reuse(text, "Accident", {"Vehicle": table}, Settings("mqc", ByTime(10_000_000)), Thresholds(0.7, 0.7))
    reused.delivered     pa.Table: attributes, consumer, interest, _time, precision, recall, disparity (as measured)
    reused.counts        by type of operator: asked, processed, covered, stopped, estimations, copies, copies_plain
    reused.managers      pa.Table: type, region, most (instances at a time)
    reused.chosen        by type of operator, in words
"""

from situ.quality.grid import Cells
from situ.reuse.choose import Nearest
from situ.runtime.selections.run import Counts, Reused, reuse
from situ.runtime.selections.settings import ByCount, ByTime, Settings, Thresholds

__all__ = ["ByCount", "ByTime", "Cells", "Counts", "Nearest", "Reused", "Settings", "Thresholds", "reuse"]
