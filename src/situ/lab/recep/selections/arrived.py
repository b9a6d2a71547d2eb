"""Events as the instances of an operator receive them: each once for every instance that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.kernel.arrays import F64, I64
from situ.kernel.batch import ORIGINS, Batch
from situ.kernel.state.groups import GroupIndex
from situ.lab.mcep.switching.buffer import NUMBER, as_origins
from situ.lab.quality.atoms import AtomSets
from situ.lab.recep.selections.sets import after_another
from situ.mobility.moving_query import INTEREST, ORDER


@dataclass(frozen=True, slots=True)
class Dependence:
    """What events depend on (RECEP, section 4.3.2): row k of `actual` is what an event would depend on without reuse,
    row k of `reuse` what it does depend on, and of `used` the interests of the operators that took part."""

    actual: AtomSets
    reuse: AtomSets
    used: AtomSets


@dataclass(frozen=True, slots=True)
class Arrived:
    """Events of one type, by row: the instance that reads it, and from when on it can. Copies of one event have one
    number. `asked` is its row in the actual dependence, `processed` that in the others; precision and recall are those
    of the selection that it was made of."""

    batch: Batch
    owner: I64
    event: I64
    known_us: I64
    dependence: Dependence
    asked: I64
    processed: I64
    precision: F64
    recall: F64

    def __len__(self) -> int:
        return len(self.owner)


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that an operator's instances read, of all types one after another. Rows are the numbers by which the kernel
    names events: a copy is another event for it. `content` is one number for all events with the same values."""

    batches: Mapping[str, Batch]
    times_us: I64
    arrived: Arrived
    content: I64


def inputs_of(parts: Mapping[str, Arrived]) -> Inputs:
    """What an operator reads, by type."""
    batches, content, first, next_content = dict[str, Batch](), [np.zeros(0, np.int64)], 0, 0
    nonempty = {name: part for name, part in parts.items() if len(part)}
    for name, part in nonempty.items():
        numbers = np.arange(first, first + len(part))
        own = {NUMBER: pa.array(numbers), ORIGINS: as_origins(name, part.batch.times, numbers)}
        batches[name] = Batch(part.batch.times, part.batch.columns | own, part.batch.load, part.batch.masks)
        content.append(next_content + _contents(part.batch))
        first, next_content = first + len(part), next_content + int(content[-1].max(initial=0)) + 1
    times_us = np.concatenate([content[0], *(batch.times for batch in batches.values())])
    return Inputs(batches, times_us, _joined(list((nonempty or parts).values())), np.concatenate(content))


def _contents(batch: Batch) -> I64:
    """Equal events as equal numbers: atomic ones have a number, others agree in time and attributes."""
    if ORDER in batch.columns:
        return batch.columns[ORDER].to_numpy(zero_copy_only=False).astype(np.int64)
    names = [name for name in sorted(batch.columns) if not name.startswith("_") and name != INTEREST]
    columns = [pa.array(batch.times), *(batch.columns[name] for name in names)]
    return GroupIndex().numbers(columns, len(batch))


def _joined(parts: list[Arrived]) -> Arrived:
    """One after another, with dependences one after another, too."""
    if len(parts) == 1:
        return parts[0]
    actual = np.cumsum([0, *(len(part.dependence.actual) for part in parts)])
    reuse = np.cumsum([0, *(len(part.dependence.reuse) for part in parts)])
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("owner", "event", "known_us", "precision", "recall")
    }
    of = Dependence(*(after_another([getattr(p.dependence, n) for p in parts]) for n in ("actual", "reuse", "used")))
    asked = np.concatenate([part.asked + begin for part, begin in zip(parts, actual, strict=False)])
    processed = np.concatenate([part.processed + begin for part, begin in zip(parts, reuse, strict=False)])
    return Arrived(parts[0].batch, dependence=of, asked=asked, processed=processed, **columns)
