"""What all tests share: one Spark session per pytest process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session: two cores, few partitions and little compilation in Java, because tests are small."""
    from servers.kafka import connector_conf
    from situ.runtime.spark.session import spark_session

    conf = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        **connector_conf(),
    }
    master = None if "SPARK_REMOTE" in os.environ else "local[2]"  # the engine's suite runs on Spark Connect, too
    session = spark_session(master, conf, app_name="tests")
    yield session
    session.stop()
