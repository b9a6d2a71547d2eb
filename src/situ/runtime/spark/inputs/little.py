"""Inputs with so few rows that one task does all the work: to shuffle them would take longer than to detect in them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from situ.core.memory import parse_memory
from situ.runtime.spark.plan.time_slices import ROWS_OF_ONE_TASK
from situ.runtime.spark.session.session import is_connect

#: The setting of a session: up to how many bytes one task is enough, as Spark estimates them; 0: never.
SETTING = "spark.situ.oneTask"
#: Files are compressed, so it may be some hundred thousand rows.
DEFAULT = "1m"

#: What Spark calls the parts of a plan that have at most as many rows as what they read.
_NO_MORE_ROWS = frozenset({"Project", "Filter", "Sort", "Union"})
_SOURCES = frozenset({"LogicalRelation", "LocalRelation", "Range"})


def one_task_is_enough(spark: SparkSession, tables: list[DataFrame], rows_of_files: int) -> bool:
    """Whether so little is in all of these DataFrames together, by the sizes of files and tables, and in files that
    situ opens itself. Where a plan may make more rows of what it reads, nobody knows; nor does a client of Spark
    Connect."""
    text = spark.conf.get(SETTING, DEFAULT) or DEFAULT
    most_bytes = 0 if text == "0" else parse_memory(text)
    if most_bytes == 0 or rows_of_files > ROWS_OF_ONE_TASK or (tables and is_connect(spark)):
        return False
    plans = [df._jdf.queryExecution().optimizedPlan() for df in tables]
    return all(map(_makes_no_rows, plans)) and sum(map(_estimated_bytes, plans)) <= most_bytes


def _makes_no_rows(plan: Any) -> bool:
    name = plan.getClass().getSimpleName()
    children = plan.children()
    inner = (children.apply(n) for n in range(children.size()))
    return name in _SOURCES or (name in _NO_MORE_ROWS and all(map(_makes_no_rows, inner)))


def _estimated_bytes(plan: Any) -> int:
    return int(str(plan.stats().sizeInBytes()))
