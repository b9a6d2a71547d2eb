"""An operator that an experiment drives by itself."""

from __future__ import annotations

from collections import Counter

from situ.core.memory import MemoryBudget
from situ.kernel.compile import compile_operator, start_operator
from situ.kernel.operator import Chosen, Context, RunningOperator


def fresh_operator(context: Context, chosen: Chosen | None = None) -> RunningOperator:
    """The operator at work, with no state yet; `chosen`: it processes only these selections."""
    return start_operator(compile_operator(context), Counter(), MemoryBudget.of_process(), chosen=chosen)
