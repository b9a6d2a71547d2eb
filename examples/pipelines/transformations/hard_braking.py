"""Hard braking as a streaming table: the query of examples/kafka, over files that come in."""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

import situ

spark = SparkSession.active()
query = Path(__file__).parents[2] / "kafka" / "braking.situ"
columns = "time_s float, vehicle string, x float, y float, speed float, acceleration float, lane string"
vehicles = spark.readStream.schema(columns).parquet(spark.conf.get("spark.traffic.incoming"))

# Not within the function: `situ.detect` looks at the columns of its DataFrames, and Spark allows that outside only.
detection = situ.detect(query.read_text(encoding="utf-8"), {"Vehicle": vehicles})


@dp.table
def hard_braking() -> DataFrame:
    return detection["HardBraking"]
