"""What `situ.detect` is given, as everybody writes it the first time: files, one DataFrame, columns in capitals."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import situ
from runtime.spark.input_comparison import configured

pytestmark = pytest.mark.slow

QUERY = """
stream Car(car string, x double from position.x, speed double, ts timestamp) time ts
subscribe Fast detect Car(speed > 5) as c assign car = c.car, x = c.x
"""
TWO = QUERY + "stream Bell(ts timestamp) time ts"
ROWS = pa.table(
    {
        "CAR": ["a", "b", "c"],
        "Position": [{"X": 1.5, "y": 0.0}] * 3,
        "Speed": [9.0, 1.0, 8.0],
        "TS": pa.array([1, 2, None], pa.timestamp("us", tz="UTC")),
    }
)


def cars(detection: situ.Detection) -> list[tuple[str, float]]:
    return [(row.car, row.x) for row in detection["Fast"].collect()]


def streaming(spark: SparkSession) -> DataFrame:
    rate = spark.readStream.format("rate").load()
    return rate.select(
        F.lit("a").alias("CAR"),
        F.struct(F.lit(1.5).alias("X")).alias("Position"),
        F.lit(9.0).alias("Speed"),
        F.col("timestamp").alias("TS"),
    )


def test_a_query_in_a_file_and_one_dataframe_in_other_capitals(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "fast.situ"
    file.write_text(QUERY)
    detection = situ.detect(file, spark.createDataFrame(ROWS))
    assert cars(detection) == [("a", 1.5)]
    (rejected,) = detection.rejected.collect()
    assert (rejected._reason, '"TS": null' in rejected._row) == ("ts is null", True)
    assert situ.detect(QUERY, streaming(spark))["Fast"].isStreaming


def test_capitals_count_where_spark_says_so(spark: SparkSession) -> None:
    with configured(spark, caseSensitive="true"):
        for df in (spark.createDataFrame(ROWS), streaming(spark)):
            with pytest.raises(situ.InputError, match="there is no column 'car'") as caught:
                situ.detect(QUERY, df)
            assert "There is 'CAR'. Capitals count: write `from CAR`" in caught.value.remedy


def test_a_column_of_the_very_name_comes_first_and_two_others_are_none(spark: SparkSession) -> None:
    slow = spark.createDataFrame(ROWS).select(*ROWS.column_names, F.lit(0.0).alias("speed"))
    assert cars(situ.detect(QUERY, slow)) == []
    unclear = spark.createDataFrame(ROWS).select(*ROWS.column_names, F.lit(0.0).alias("SPEED"))
    with pytest.raises(situ.InputError, match="there is no column 'speed'") as caught:
        situ.detect(QUERY, unclear)
    assert "'Speed' and 'SPEED'" in caught.value.remedy


def test_what_is_no_dataframe_of_sparks(spark: SparkSession) -> None:
    wrong = {
        "a DataFrame of pandas, and not": (pd.DataFrame({"car": ["a"]}), "spark.createDataFrame(...)"),
        "Table of pyarrow": (ROWS, "takes it as it is"),
        "the text 'cars.parquet'": ("cars.parquet", "situ.read(spark, 'parquet', 'cars.parquet')"),
        "PosixPath of pathlib": (Path("cars.parquet"), "situ.Engine(query).run({'Car': 'cars.parquet'})"),
        "list of builtins": ([1], "{'Car': spark.read.parquet(...)}"),
        "a DataFrame of pandas on Spark": (spark.range(1).pandas_api(), "df.to_spark()"),
    }
    for cause, (given, remedy) in wrong.items():
        for streams in (given, {"Car": given}):
            with pytest.raises(situ.InputError) as caught:
                situ.detect(QUERY, streams)
            assert f"what is given for stream Car is {cause}" in caught.value.cause
            assert remedy in caught.value.remedy
    with pytest.raises(situ.InputError, match="one DataFrame is given, and the query has 2 streams") as caught:
        situ.detect(TWO, spark.range(1))
    assert "{'Car': ..., 'Bell': ...}" in caught.value.remedy
