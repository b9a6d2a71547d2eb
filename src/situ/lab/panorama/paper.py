"""PaNORAMA's experiments, again (section 7): its Figures 9, 10 and 11, our curves beside its claims."""

from __future__ import annotations

from situ.lab.paper import Paper

FIGURES = ("9a", "9b", "9c", "10a", "10b", "10c", "10d", "10e", "10f", "11a", "11b", "11c", "11d")

PANORAMA = Paper(
    "PaNORAMA",
    dict.fromkeys(FIGURES, "situ.lab.panorama.experiments.placement"),
    "On networks of 500 antennas unless sites are what is varied, 10 cases for each value (60 in Figure 10f); and on "
    "five real topologies, 20 cases together. Latency limit 3 times the naive plan's unless it is what is varied. "
    "Curves are means over cases. Costs are those of the model `coverage`, pull requests included. A mechanism that "
    "finds no plan within the limit uses the naive one (transmission factor 1).",
)
