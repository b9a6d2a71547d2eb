"""The cost models by name."""

from __future__ import annotations

from typing import Literal

from situ.placement.bursts import Bursts
from situ.placement.coverage import Coverage
from situ.placement.paper_costs import PaperCosts
from situ.placement.problem import CostModel

CostName = Literal["coverage", "bursts", "paper"]

COST_MODELS: dict[CostName, CostModel] = {"coverage": Coverage(), "bursts": Bursts(), "paper": PaperCosts()}
