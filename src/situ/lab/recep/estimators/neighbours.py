"""Quality estimated from shared incoming events (RECEP, section 4.3.2: per neighbour quality).

Operators whose predecessors reused the same selection receive the same events: each is streamed once and names all its
destinations. m_s and m_s' are the numbers of incoming events of two selections, and m_o is the number of those that are
the same:

    precision(s, s') = m_o / m_s'        recall(s, s') = m_o / m_s

(The text has them the other way round, against its own section 3.) An incoming event may come from a selection that was
processed on behalf of another, and then is itself not what was asked. So an event carries a quality per destination,
and counts in m_o with the precision, or the recall, that it has for the one that asked, s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import jit
from situ.lab.quality.atoms import AtomSets
from situ.lab.quality.precision_recall import MeasuredQuality
from situ.lab.recep.estimators.pairs import are_apart, check_pairs, from_zero, mark
from situ.space.precision_recall import shares


@dataclass(frozen=True, slots=True)
class Incoming:
    """The incoming events of selections, as sets of their numbers, and the quality that each has for its selection."""

    events: AtomSets
    annotated: MeasuredQuality

    @classmethod
    def of(cls, events: I64, offsets: I64, annotated: MeasuredQuality) -> Incoming:
        """Selection k has the events from offset k to offset k + 1, in any order, each once, with their qualities.

        >>> quality = MeasuredQuality(np.array([0.5, 1]), np.ones(2))
        >>> Incoming.of(np.array([7, 3]), np.array([0, 2]), quality).annotated.precision
        array([1. , 0.5])
        """
        owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        order = np.lexsort((events, owner))
        events, owner = events[order], owner[order]
        assert not np.any((events[1:] == events[:-1]) & (owner[1:] == owner[:-1])), "an event is twice in a selection"
        qualities = (np.asarray(q, np.float64)[order] for q in (annotated.precision, annotated.recall))
        return cls(AtomSets(events, offsets), MeasuredQuality(*qualities))


def quality_of_shared(incoming: Incoming, asked: I64, processed: I64) -> MeasuredQuality:
    """Estimated from the incoming events that two selections share.

    >>> quality = MeasuredQuality(np.array([0.5, 1, 1, 1, 1]), np.ones(5))
    >>> incoming = Incoming.of(np.array([1, 2, 1, 2, 3]), np.array([0, 2, 5]), quality)
    >>> quality_of_shared(incoming, np.array([0, 1]), np.array([1, 0]))
    MeasuredQuality(precision=array([0.5, 1. ]), recall=array([1.        , 0.66666667]))
    """
    events, annotated = incoming.events, incoming.annotated
    check_pairs(asked, processed, len(events), len(events))
    precise, complete = np.zeros(len(asked)), np.zeros(len(asked))
    numbers, count = from_zero(events.atoms)
    columns = (numbers, events.offsets, annotated.precision, annotated.recall)
    _sum_shared(*columns, asked, processed, np.zeros(count, np.int64), precise, complete)
    sizes = events.sizes
    return MeasuredQuality(shares(precise, sizes[processed]), shares(complete, sizes[asked]))


@jit
def _sum_shared(
    events: I64,
    offsets: I64,
    precision: F64,
    recall: F64,
    asked: I64,
    processed: I64,
    marks: I64,
    precise: F64,
    complete: F64,
) -> None:
    marked = -1
    for k in range(len(asked)):
        s, other = asked[k], processed[k]
        if are_apart(events, offsets, s, events, offsets, other):
            continue
        if other != marked:
            mark(marks, events, offsets, marked, other)
            marked = other
        by_precision, by_recall = 0.0, 0.0
        for i in range(offsets[s], offsets[s + 1]):
            is_shared = marks[events[i]]
            by_precision += precision[i] * is_shared
            by_recall += recall[i] * is_shared
        precise[k], complete[k] = by_precision, by_recall
