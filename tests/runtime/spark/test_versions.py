"""Which versions of Spark situ runs on."""

from __future__ import annotations

import pyspark
import pytest

from situ.runtime.spark.inputs.kafka import connector_jars
from situ.runtime.spark.session.errors import SparkError
from situ.runtime.spark.session.versions import installed_version, require_spark, require_streams


def test_the_version_is_known_without_an_import() -> None:
    assert installed_version() == pyspark.__version__


@pytest.mark.parametrize("version", [None, "4.0.0", "4.3.0", "4.4.0.dev1", "5.0.0"])
def test_batches(version: str | None) -> None:
    require_spark(version)


def test_a_spark_that_is_too_old() -> None:
    with pytest.raises(SparkError, match=r"situ runs on Spark 4.0 and newer, and PySpark 3.5.9 is installed") as raised:
        require_spark("3.5.9")
    assert "pip install --upgrade 'situ[spark]'" in raised.value.remedy


def test_a_spark_that_knows_batches_only() -> None:
    for version in ("4.1.0", "4.3.0"):
        require_streams(version)
    with pytest.raises(SparkError, match=r"streams need Spark 4.1 or newer, and this is Spark 4.0.5"):
        require_streams("4.0.5")


@pytest.mark.parametrize(
    ("version", "connector"), [("4.1.4", "4.1.3"), ("4.2.1", "4.2.0"), ("4.3.0", "4.2.0"), ("4.4.0", "4.2.0")]
)
def test_kafkas_connector_is_that_of_the_release(version: str, connector: str) -> None:
    assert connector_jars(version)[0] == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{connector}"
