"""What all tests share: one Spark session, and the mark of tests that need it."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what takes the session below: one process runs all of that, so that one Java is started."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Other tests start no Java: they would run beside the process that has one."""
    had_java = _has_java()
    result = yield
    if _has_java() and not had_java and item.get_closest_marker("spark") is None:
        pytest.fail("this test starts Spark: let it take the fixture spark, or mark it so")
    return result


def _has_java() -> bool:
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._gateway is not None


@pytest.fixture(scope="session", autouse=True)
def quick_java() -> Iterator[None]:
    """Little compilation in Java, because tests are small: of this process, and of those that tests start."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_LAUNCHER_OPTS", QUICK_JAVA)
        environment.setenv("SPARK_SUBMIT_OPTS", QUICK_JAVA)
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session: two cores and few partitions, because tests are small."""
    from servers.kafka import connector_conf
    from situ.runtime.spark.session.session import spark_session

    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        **connector_conf(),
    }
    master = None if "SPARK_REMOTE" in os.environ else "local[2]"  # the engine's suite runs on Spark Connect, too
    session = spark_session(master, conf, app_name="tests")
    before = dict(session.conf.getAll)
    yield session
    left = {key: value for key, value in session.conf.getAll.items() if before.get(key) != value}
    session.stop()
    assert not left, "settings of the session that all tests share are left changed, for the tests that come later"
