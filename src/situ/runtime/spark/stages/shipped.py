"""What a driver sends to Spark's Python workers, read once in each of them.

Spark hands the function of a task over anew for every task. With thousands of rules the plan in it is megabytes, and
what is made of it (programs, the index) takes seconds: so it travels as bytes, and a worker that has met the same bytes
before goes on with what it made of them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import pyarrow as pa
from pyspark import cloudpickle


class Task(Protocol):
    """What Spark runs in a task."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True)
class Shipped:
    """An object as bytes, and one of its methods, which takes the batches of a task."""

    content: bytes
    method: str

    @classmethod
    def of(cls, task: Any, method: str) -> Task:
        """The method of an object as a function that Spark may hand over."""
        content: bytes = cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
        return cls(content, method).run

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from getattr(loaded_once(self.content), self.method)(batches)


@lru_cache(maxsize=8)
def loaded_once(content: bytes) -> Any:
    """What the driver sent, the same object for the same bytes. They are the driver's: Spark reads its functions in the
    same way."""
    return pickle.loads(content)
