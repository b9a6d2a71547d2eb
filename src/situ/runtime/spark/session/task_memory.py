"""How much memory the Python worker of a task may use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from situ.core.memory import MemoryBudget, parse_memory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The setting of a session that says how much memory each task may use, as in 2g.
SETTING = "spark.situ.memory"


def memory_setting(session: SparkSession) -> int | None:
    """The bytes that each task may use, if the session says so."""
    text = session.conf.get(SETTING, None)
    return None if text is None else parse_memory(text)


def memory_of_task(memory_bytes: int | None) -> MemoryBudget:
    """So much, or else the task's part of half the machine."""
    return MemoryBudget.of_process(beside=os.cpu_count() or 1) if memory_bytes is None else MemoryBudget(memory_bytes)
