"""EdgeCEP's experiments, again (section V): its Figure 5 and its Tables II and III, our figures beside its claims."""

from __future__ import annotations

from situ.lab.paper import Paper

_SETTING = (
    "The paper's Figure 4, with all scenarios, is lost: these are comparable ones, with parameters that were written "
    "down before the first run (`situ.lab.edgecep.scenarios`). So totals are not the paper's, and ratios are compared: "
    "one that the paper states is held to from both sides, within a quarter of it."
)

EDGECEP = Paper(
    "EdgeCEP",
    {
        **dict.fromkeys(("5a", "5b", "5c"), "situ.lab.edgecep.experiments.radius"),
        **dict.fromkeys(("IIa", "IIb", "loss"), "situ.lab.edgecep.experiments.nursing_home"),
        "III": "situ.lab.edgecep.experiments.laboratory",
    },
    f"{_SETTING} Table III is counted at simulated brokers.",
)
