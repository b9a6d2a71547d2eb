"""TCEP's experiments on transitions, again: its Figure 2 by the planner (section 2.2), and its Figures 10, 11 and 12 on
simulated sites (section 6.3)."""

from __future__ import annotations

from situ.lab.paper import Paper

TCEP = Paper(
    "TCEP",
    {
        "2": "situ.lab.tcep.experiments.mechanisms",
        **dict.fromkeys(("10", "11a", "11b", "12a", "12b"), "situ.lab.tcep.experiments.strategies"),
    },
    "On simulated sites, which run the code of real ones: two producers, eight brokers that run operators, one "
    "consumer, 20 ms +- 10 ms from each to each, 10 Mbit/s (the paper's Table 1; its containers' bandwidth is not "
    "told).",
)
