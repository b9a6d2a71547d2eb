"""The host of operators that a query outside of the site runs: it judges rows, chooses what others are sent and knows
how far inputs have come, as every host does, and leaves the operators to the query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from situ.kernel.state.checks import damage_is_told
from situ.kernel.state.snapshot import pack, unpack
from situ.runtime.sites.deployed_plan import PlanError
from situ.runtime.sites.embedded_host import EmbeddedHost, make_embedded_host
from situ.runtime.sites.host import MadeRows
from situ.runtime.sites.rows import times_us


@dataclass
class DrivenHost(EmbeddedHost):
    """A host whose steps only tell how far inputs have come."""

    driven: ClassVar[bool] = True

    counted: Counter[str] = field(default_factory=Counter)

    def step(
        self,
        inputs: Sequence[tuple[str, pa.RecordBatch]],
        watermarks: Mapping[str, int],
        answered: Mapping[str, int],
    ) -> list[MadeRows]:
        self._watermarks |= watermarks
        for type_, rows in inputs:
            if rows.num_rows:
                self._latest_us[type_] = max(self._latest_us[type_], int(times_us(rows).max()))
        return []

    def count(self, figures: Mapping[str, int]) -> None:
        self.counted.update(figures)

    def figures(self) -> dict[str, int]:
        return {"duplicates": 0} | dict(self.counted)

    def snapshot(self) -> bytes:
        return pack(self._times())

    def restore(self, snapshot: bytes) -> None:
        tables = unpack(snapshot)
        with damage_is_told():
            self._restore_times(tables)


def make_driven_host(plan: str, site: str) -> DrivenHost:
    """The host of a plan, given as JSON, at a site whose operators a query runs; SituError says why it cannot."""
    embedded = make_embedded_host(plan, site)
    for name, place in embedded.compiled.plan.operators.items():
        if place.site == site and len(place.steps) > 1:
            raise PlanError(
                f"{name} pulls inputs at {site}, which runs on Spark, and Spark is pushed all inputs",
                remedy=f"Leave out the steps of {name}, or place it at a site that is no Spark site.",
            )
        if place.carried_from and site in (place.site, place.carried_from):
            raise PlanError(
                f"{name} is to be carried on at {site}, which runs on Spark, and its state is in Spark's checkpoint",
                remedy=f"Let {name} begin anew in this version.",
            )
    return DrivenHost(embedded.compiled, site)
