"""A script: a query from MQTT that is to be killed, or goes on where it was killed. Batches become files.

python -m runtime.spark.mqtt_query ADDRESS DIRECTORY hang|work MESSAGES
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from pyspark.sql import DataFrame

from situ.runtime.spark.inputs.mqtt import MqttAddress, read_stream
from situ.runtime.spark.session.session import spark_session

if __name__ == "__main__":
    address, directory = MqttAddress.parse(sys.argv[1]), Path(sys.argv[2])
    hang, messages = sys.argv[3] == "hang", int(sys.argv[4])
    done, seen = threading.Event(), set()

    def keep(df: DataFrame, batch: int) -> None:
        rows = [(row["_place"], row["value"]) for row in df.collect()]
        unfinished = directory / f".{sys.argv[3]}-{batch}"
        unfinished.write_text(json.dumps(rows))
        unfinished.rename(directory / f"{sys.argv[3]}-{batch}.json")
        if hang:
            threading.Event().wait()  # received, and never committed
        seen.update(value for _, value in rows)
        if len(seen) == messages:
            done.set()

    spark = spark_session("local[1]", {"spark.sql.shuffle.partitions": "1"})
    stream = read_stream(spark, address, directory / "spool")
    query = stream.writeStream.option("checkpointLocation", str(directory / "checkpoint")).foreachBatch(keep).start()
    while query.isActive and not done.wait(0.1):
        pass
    query.stop()
    spark.stop()
