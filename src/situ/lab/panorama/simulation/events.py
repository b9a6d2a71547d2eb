"""Events with the place where they are: rows of streams as they occurred, and all events of a type in columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from situ.core.errors import InputError
from situ.core.types import INT
from situ.flow.clock import ONLY_SOURCE
from situ.flow.inbox import distinct
from situ.graph.query import AttributeDeclaration, Stream
from situ.io.rows.conform import conform
from situ.kernel.arrays import I64
from situ.kernel.batch import EXTENT, ORIGINS, Batch
from situ.kernel.operator import origins_of
from situ.runtime.embedded.pieces import StreamReader

_SITE = "_site"


@dataclass(frozen=True, slots=True)
class Occurred:
    """Rows of a stream, and for each row the number of the site where it occurred."""

    rows: pa.Table
    sites: I64

    def __post_init__(self) -> None:
        if self.rows.num_rows != len(self.sites):
            raise InputError(
                f"there are {self.rows.num_rows} rows, but sites of {len(self.sites)}",
                remedy="Give a site for each row.",
            )


@dataclass(frozen=True, slots=True)
class SimulatedEvents:
    """All events of a type, in order of time, by number. `available_ns`: when the site where each is has it."""

    batch: Batch
    sites: I64
    available_ns: I64

    def __len__(self) -> int:
        return len(self.batch)


def observed(stream: Stream, occurred: Occurred) -> SimulatedEvents:
    """The events of a stream. Rows that do not fit its declaration are none, and of duplicates one counts."""
    placed = replace(stream, attributes=(*stream.attributes, AttributeDeclaration(_SITE, INT)))
    rows = occurred.rows.append_column(_SITE, pa.array(occurred.sites, pa.int64()))
    conformed = conform(rows, placed, place=f"rows of {stream.name}")
    batch = StreamReader(placed, frozenset(EXTENT), provenance=False).batch(conformed)
    if stream.location is not None:
        batch.require(EXTENT)
    batch, _ = distinct(batch, stream)
    batch = batch.take(np.argsort(batch.times, kind="stable"))
    sites = batch.columns[_SITE].to_numpy()
    return SimulatedEvents(numbered(stream.name, batch), sites, batch.times * 1000)


def numbered(event: str, batch: Batch) -> Batch:
    """The same events, each the origin of itself by its number: what an operator makes of them names these numbers."""
    columns = {name: column for name, column in batch.columns.items() if name not in (_SITE, ORIGINS, "_selection")}
    return Batch(batch.times, columns | {ORIGINS: origins_of(event, ONLY_SOURCE, batch.times, np.arange(len(batch)))})


def latest_of_origins(batch: Batch, arrived_ns: dict[str, I64]) -> I64:
    """For each complex event, when the last of the events that it is made of had arrived; not before its own time."""
    latest = batch.times * 1000
    origins = batch.columns[ORIGINS]
    owner = np.repeat(np.arange(len(batch)), origins.value_lengths().to_numpy(zero_copy_only=False))
    atoms = origins.flatten()
    types = atoms.field("stream").dictionary_encode()
    numbers = atoms.field("row").to_numpy(zero_copy_only=False)
    codes = types.indices.to_numpy(zero_copy_only=False)
    for code, event in enumerate(types.dictionary.to_pylist()):
        of_type = codes == code
        np.maximum.at(latest, owner[of_type], arrived_ns[event][numbers[of_type]])
    return latest
