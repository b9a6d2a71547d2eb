"""RECEP's experiments, again (section 5): its Figures 8a to 8i, our curves beside its claims.

8a to 8g are its mobility setup, on the Ingolstadt trace; 8h and 8i are its basic setup, without mobility.
"""

from __future__ import annotations

from situ.lab.paper import Paper

RECEP = Paper(
    "RECEP",
    {
        **dict.fromkeys(("8a", "8b", "8c", "8d"), "situ.lab.recep.experiments.mobility"),
        **dict.fromkeys(("8e", "8f", "8g"), "situ.lab.recep.experiments.neighbours"),
        **dict.fromkeys(("8h", "8i"), "situ.lab.recep.experiments.throughput"),
    },
    "8a to 8g: on the Ingolstadt trace (the paper: some 500 vehicles in 8 km2 of a German town). 8h and 8i: made up, "
    "as in the paper.",
)
