"""Which rows some route takes, where conditions are too many for Catalyst: the content filterer beside the packer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from situ.core.functions import default
from situ.core.types import to_arrow
from situ.filter.filterer import Filterer, Hits
from situ.kernel.arrays import I64
from situ.kernel.batch import Batch, Calls
from situ.runtime.spark.plan.plan import Read


@dataclass(frozen=True)
class RowIndex:
    """The tests of a stream that Catalyst could say, all of them in an index. None of them calls a user's function."""

    read: Read

    @cached_property
    def _filterer(self) -> Filterer:
        return Filterer({attribute.name: attribute.type for attribute in self.read.stream.attributes})

    @cached_property
    def _contents(self) -> I64:
        """By test, the number of its content; -1 where Catalyst could say nothing, so that all rows are taken."""
        numbers = iter(self._filterer.add(test.pushed for test in self.read.tests if test.pushed))
        return np.array([next(numbers) if test.pushed else -1 for test in self.read.tests], np.int64)

    def hits(self, times: I64, rows: pa.RecordBatch) -> Hits:
        """What the index says of rows."""
        typed = {attribute.name: to_arrow(attribute.type) for attribute in self.read.stream.attributes}
        columns = {name: rows.column(name) for name in self.read.columns}
        for name, column in columns.items():
            if not pa.types.is_integer(column.type):  # integers are of any width
                columns[name] = column.cast(typed[name])
        assert len(self._contents)  # they are in the index from here on
        return self._filterer.hits(Batch(times, columns), Calls(functions=default, errors=Counter()))

    def taken(self, hits: Hits, tests: frozenset[int], rows: int) -> npt.NDArray[np.bool_]:
        """Which of so many rows fulfil one of the tests."""
        is_asked = np.zeros(self._filterer.size, np.bool_)
        is_asked[self._contents[sorted(tests)]] = True
        mask = np.zeros(rows, np.bool_)
        mask[hits.rows[np.repeat(is_asked[hits.contents], np.diff(hits.offsets))]] = True
        return mask
