"""MCEP's experiments, again (section 6): its Figures 6a to 6i on the Ingolstadt trace, our curves beside its claims."""

from __future__ import annotations

from situ.lab.paper import Paper

MCEP = Paper(
    "MCEP",
    {
        **dict.fromkeys(("6a", "6b", "6c", "6d"), "situ.lab.mcep.experiments.switching"),
        **dict.fromkeys(("6e", "6f", "6g"), "situ.lab.mcep.experiments.prediction"),
        **dict.fromkeys(("6h", "6i"), "situ.lab.mcep.experiments.migration"),
    },
    "On the Ingolstadt trace: 1,413 vehicles over 1,200 s in 2.66 km x 2.67 km (the paper: 2,500 to 5,000 vehicles "
    "over 500 to 1,000 s in 7.7 km x 3.5 km).",
)
