"""A site as pseudo-source (EdgeCEP, section III-C): it offers contents, what its filterer finds, and no raw streams.

What operators elsewhere ask of single events of a type is in one filterer at each site where such events are made: a
content that several of them ask for is looked for once, and contents of many readers are found by an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from situ.core.types import Type
from situ.filter.filterer import Filterer
from situ.kernel.batch import Batch, Calls
from situ.runtime.sites.selections import Filter, Selection


class Contents:
    """The contents of one event type that other sites are pushed; `types` are those of its attributes."""

    def __init__(self, types: Mapping[str, Type], selections: Iterable[Selection]) -> None:
        filters = dict.fromkeys(f for selection in selections for f in selection.pushed if f is not None)
        self.filterer = Filterer(types)
        self._numbers = {f: self.filterer.add(sorted(f, key=repr)) for f in filters}

    def passing(self, batch: Batch, calls: Calls) -> dict[Filter, npt.NDArray[np.bool_]]:
        """By filter, which events pass it."""
        hits = self.filterer.hits(batch, calls)
        passing: dict[Filter, npt.NDArray[np.bool_]] = {}
        for filter_, numbers in self._numbers.items():
            passing[filter_] = np.zeros(len(batch), np.bool_)
            for number in numbers:
                passing[filter_][hits.rows_of(number)] = True
        return passing
