"""A batch is shared by the operators that read it, and these may work in threads."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from situ.graph.expressions import Literal
from situ.kernel.batch import Batch, concat


class _Judging(np.ndarray):
    """A mask that, each time it is read, lets another operator judge one more test of the same batch."""

    batch: Batch

    def __getitem__(self, rows: object) -> object:
        _judge_one_more(self.batch)
        return np.asarray(self)[rows]


def _judge_one_more(batch: Batch) -> None:
    batch.masks[(Literal(len(batch.masks)),)] = np.ones(len(batch), np.bool_)


def _shared_batch() -> Batch:
    batch = Batch(np.arange(3), {"v": pa.array([1, 2, 3])})
    mask = np.array([True, False, True]).view(_Judging)
    mask.batch = batch
    batch.masks[(Literal(0),)] = mask
    return batch


def test_a_batch_is_taken_from_while_another_operator_judges_it() -> None:
    batch = _shared_batch()
    taken = batch.take(np.array([0, 1]))
    assert taken.masks[(Literal(0),)].tolist() == [True, False]
    assert len(batch.masks) > len(taken.masks)


def test_batches_are_joined_with_the_tests_that_all_have() -> None:
    one, other = _shared_batch(), _shared_batch()
    _judge_one_more(one)
    joined = concat([one, other])
    assert joined.masks[(Literal(0),)].tolist() == [True, False, True] * 2
    assert list(joined.masks) == [(Literal(0),)]
