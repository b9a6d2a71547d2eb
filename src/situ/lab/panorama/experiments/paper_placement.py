"""PaNORAMA's Figures 9 to 11 once more, with plans and costs by the formulas that its Appendix A prints."""

from __future__ import annotations

from functools import partial

from situ.lab.figure import Experiment
from situ.lab.panorama.experiments.placement import SHOWN, figure

FIGURES: dict[str, Experiment] = {name: partial(figure, name, cost="paper") for name in SHOWN}
