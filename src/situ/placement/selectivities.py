"""Measured rates -> selectivities, as the cost models mean them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from situ.graph.operators import OperatorGraph
from situ.placement.coverage import Coverage
from situ.placement.from_graph import planned


def selectivities(graph: OperatorGraph, rates: Mapping[str, float], shares: Mapping[str, float]) -> dict[str, float]:
    """Output rate over what `coverage` expects of an operator that lets all combinations pass.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> graph = resolve(parse('''stream A(t timestamp) time t stream B(t timestamp) time t
    ... subscribe S detect A as a and B as b within 2 s assign t = a.t'''))
    >>> selectivities(graph, {"A": 1.0, "B": 3.0, "S": 6.0}, {})  # 2 x 2 s x 1 x 3 combinations per s
    {'S': 0.5}
    """
    found = {}
    for operator in graph.operators:
        plain = planned(operator, shares)
        expected = Coverage().output_rate(plain, np.array([rates[read.event] * read.share for read in plain.inputs]))
        if expected > 0:
            found[operator.name] = rates[operator.name] / expected
    return found
