"""Quality predicted for selections that are still open (RECEP, section 4.3.2: prediction).

Of a pair of selections some atomic events have arrived, and how many there will be at the end is known or usual. An
event arrives for all selections that take it at once: one that has come for s alone will not come for s'. So at most as
many further events lie in both as the one with fewer to come still takes.

- Pessimistic: no further event lies in both. Optimistic: all that can. The truth lies between if the totals are right.
- Current selection: as if nothing further came.
- Event pattern: further events lie in both as often as those of the past did (balls drawn from an urn).

(Where the text divides by m_s' for the recall, the total of s is meant, as in its section 3.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.lab.quality.precision_recall import MeasuredQuality
from situ.lab.recep.estimators.pairs import PairCounts
from situ.space.precision_recall import shares


@dataclass(frozen=True, slots=True)
class OpenPairs:
    """What has arrived, and how many atomic events there will be at the end; more than that may have arrived already.

    >>> seen = PairCounts(np.array([2]), np.array([3]), np.array([4]))
    >>> OpenPairs.of(seen, np.array([10]), np.array([2])).processed
    array([4])
    """

    seen: PairCounts
    asked: I64
    processed: I64

    @classmethod
    def of(cls, seen: PairCounts, asked: I64, processed: I64) -> OpenPairs:
        return cls(seen, np.maximum(asked, seen.asked), np.maximum(processed, seen.processed))

    def most_in_both(self) -> I64:
        """The most atomic events that can lie in both selections at the end."""
        most: I64 = self.seen.both + np.minimum(self.asked - self.seen.asked, self.processed - self.seen.processed)
        return most

    def quality(self, precise: F64 | I64, complete: F64 | I64) -> MeasuredQuality:
        """If that many lie in both at the end, as far as precision and as far as recall goes."""
        return MeasuredQuality(shares(precise, self.processed), shares(complete, self.asked))


def pessimistic(pairs: OpenPairs) -> MeasuredQuality:
    """No further event lies in both.

    >>> seen = PairCounts(np.array([2]), np.array([3]), np.array([4]))
    >>> pessimistic(OpenPairs.of(seen, np.array([10]), np.array([8]))).precision.tolist()
    [0.25]
    """
    return pairs.quality(pairs.seen.both, pairs.seen.both)


def optimistic(pairs: OpenPairs) -> MeasuredQuality:
    """All further events lie in both, as far as both selections still take any.

    >>> seen = PairCounts(np.array([2]), np.array([3]), np.array([4]))
    >>> optimistic(OpenPairs.of(seen, np.array([10]), np.array([8]))).precision.tolist()
    [0.75]
    """
    most = pairs.most_in_both()
    return pairs.quality(most, most)


def current_selection(pairs: OpenPairs) -> MeasuredQuality:
    """The quality of what has arrived. Of nothing it is 1.

    >>> seen = PairCounts(np.array([2]), np.array([3]), np.array([4]))
    >>> current_selection(OpenPairs.of(seen, np.array([10]), np.array([8]))).precision.tolist()
    [0.5]
    """
    return pairs.seen.quality()


def event_pattern(pairs: OpenPairs, past: PairCounts) -> MeasuredQuality:
    """What is expected: of m events to come, m K / M lie in both, if K of the last M did.

    `past` counts the buffered events of the two operators, pair by pair. M are those of the processed one for
    precision, and of the asked one for recall. Where there is no past, no event is expected to lie in both.

    >>> seen, past = (PairCounts(np.array([k]), np.array([k + 1]), np.array([2 * k])) for k in (2, 10))
    >>> event_pattern(OpenPairs.of(seen, np.array([10]), np.array([8])), past).precision.tolist()
    [0.5]
    """
    most = pairs.most_in_both()

    def expected(to_come: I64, buffered: I64) -> F64:
        in_both: F64 = pairs.seen.both + to_come * (past.both / np.maximum(buffered, 1))
        return np.minimum(in_both, most)

    precise = expected(pairs.processed - pairs.seen.processed, past.processed)
    complete = expected(pairs.asked - pairs.seen.asked, past.asked)
    return pairs.quality(precise, complete)
