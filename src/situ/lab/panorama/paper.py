"""PaNORAMA's experiments, again (section 7): its Figures 9, 10 and 11, our curves beside its claims."""

from __future__ import annotations

from situ.lab.paper import Paper

FIGURES = ("9a", "9b", "9c", "10a", "10b", "10c", "10d", "10e", "10f", "11a", "11b", "11c", "11d")

#: What the experiments run on.
_SETTING = (
    "On networks of 500 antennas unless sites are what is varied, 10 cases for each value (60 in Figure 10f); and on "
    "five real topologies, 20 cases together. Latency limit 3 times the naive plan's unless it is what is varied. "
    "Curves are means over cases. A mechanism that finds no plan within the limit uses the naive one (transmission "
    "factor 1). A figure that the paper states is held to from both sides, within a quarter of it. The paper's stock "
    "trades (davis.wpi.edu/dsrg/stockData) cannot be had any more: rates are drawn from three decades instead."
)

PANORAMA = Paper(
    "PaNORAMA",
    dict.fromkeys(FIGURES, "situ.lab.panorama.experiments.placement")
    | {"causes": "situ.lab.panorama.experiments.causes", "counted": "situ.lab.panorama.experiments.counted"},
    f"{_SETTING} Costs are those of the model `coverage`, pull requests included.",
)

#: The same by the paper's own formulas.
PAPER_COSTS = Paper(
    "PaNORAMA-by-its-own-costs",
    dict.fromkeys(FIGURES, "situ.lab.panorama.experiments.paper_placement"),
    f"{_SETTING} Costs are those of the paper's Appendix A, in which a pull request costs nothing.",
)
