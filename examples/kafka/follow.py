"""Kafka in, Kafka out, with a streaming query of one's own: messages -> rows -> `situ.detect` -> messages.

python examples/kafka/follow.py localhost:9092 --jars jars --checkpoint out/follow
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import situ

QUERY = Path(__file__).with_name("braking.situ").read_text(encoding="utf-8")

#: What a message has. A field that is missing, and a message that is no JSON, are nulls: situ rejects rows without a
#: time, and says so in `detection.rejected`.
MESSAGE = "time_s double, vehicle string, x double, y double, speed double, lane string"


def vehicles(spark: SparkSession, server: str, topic: str) -> DataFrame:
    """The messages as rows."""
    options = {"kafka.bootstrap.servers": server, "subscribe": topic, "startingOffsets": "earliest"}
    messages = spark.readStream.format("kafka").options(**options).load()
    return messages.select(F.from_json(F.col("value").cast("string"), MESSAGE).alias("row")).select("row.*")


def follow(
    spark: SparkSession, server: str, topic: str, results: str, checkpoint: Path, once: bool = False
) -> StreamingQuery:
    """Starts the query; `once`: it ends when it has read what is there."""
    detection = situ.detect(QUERY, {"Vehicle": vehicles(spark, server, topic)})
    found = detection["HardBraking"].selectExpr("vehicle AS key", "to_json(struct(*)) AS value")
    writer = found.writeStream.format("kafka").option("kafka.bootstrap.servers", server).option("topic", results)
    writer = writer.option("checkpointLocation", str(checkpoint.absolute()))
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="1 second")).start()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("server", help="HOST:PORT of a broker")
    arguments.add_argument("--jars", type=Path, help="a folder with the jars of Spark's connector for Kafka")
    arguments.add_argument("--checkpoint", type=Path, required=True)
    arguments.add_argument("--topic", default="vehicles")
    arguments.add_argument("--results", default="braking")
    arguments.add_argument("--once", action="store_true", help="read what is there, and end")
    given = arguments.parse_args()
    conf = {"spark.jars": ",".join(map(str, given.jars.glob("*.jar")))} if given.jars else {}
    # Of the state, as many parts as this machine has cores; the checkpoint keeps that number.
    spark = situ.spark_session("local[2]", conf | {"spark.sql.shuffle.partitions": "2"}, app_name="braking")
    query = follow(spark, given.server, given.topic, given.results, given.checkpoint, given.once)
    query.awaitTermination()


if __name__ == "__main__":
    main()
