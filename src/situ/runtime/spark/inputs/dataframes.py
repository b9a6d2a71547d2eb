"""The DataFrames that `situ.detect` is given: one of Spark's for each stream, and what else people pass."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from situ.core.errors import InputError
from situ.graph.operators import OperatorGraph
from situ.runtime.given import given_by_stream
from situ.runtime.spark.inputs.own_files import Files


def dataframes_by_stream(
    graph: OperatorGraph, given: Mapping[str, DataFrame | Files] | DataFrame | Files
) -> dict[str, DataFrame | Files]:
    """The DataFrame of every stream, or the files that situ opens itself; InputError where something else is given,
    with the way to a DataFrame."""
    by_stream: dict[str, DataFrame | Files] = given_by_stream(graph, given, "DataFrame")
    for stream, df in by_stream.items():
        if not isinstance(df, DataFrame | Files):
            raise InputError(
                f"what is given for stream {stream} is {_in_words(df)}, and not a DataFrame of Spark's",
                remedy=_way_to_a_dataframe(df, stream),
            )
    return by_stream


def _in_words(given: object) -> str:
    kind = type(given)
    library = kind.__module__.partition(".")[0]
    if kind.__module__.startswith("pyspark.pandas"):
        return "a DataFrame of pandas on Spark"
    if kind.__name__ == "DataFrame":
        return f"a DataFrame of {library}"
    return f"the text {given!r}" if isinstance(given, str) else f"{kind.__name__} of {library}"


def _way_to_a_dataframe(given: object, stream: str) -> str:
    if type(given).__module__.startswith("pyspark.pandas"):
        return "Write df.to_spark()."
    if isinstance(given, str | Path):
        return (
            f"Read the file: situ.read(spark, 'parquet', {str(given)!r}), or csv or json. "
            f"Without Spark: situ.Engine(query).run({{{stream!r}: {str(given)!r}}})."
        )
    if isinstance(given, pa.Table) or hasattr(given, "__arrow_c_stream__"):
        return (
            f"Write spark.createDataFrame(...) of it. Without Spark: situ.Engine(query).run({{{stream!r}: ...}}) takes "
            "it as it is."
        )
    return f"Read one, for example: {{{stream!r}: spark.read.parquet(...)}}."
