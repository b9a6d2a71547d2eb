"""The thin client of Spark Connect, which has no Java and no bridge to it, at a server of its own process."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.sparks import running_connect_server

pytestmark = pytest.mark.environments

#: The virtual environment of `make sparks` that has `pyspark-client` instead of `pyspark`.
CLIENT = Path(__file__).parents[2] / ".venvs" / "client" / "bin" / "python"

QUERY = """
stream Ping(n int, at double) time at in s
subscribe Rise
  detect Ping as a then Ping(n > a.n) as b within 3 s
  assign low = a.n, high = b.n
"""

#: A batch, a stream, an error of Spark's, and a Spark that is to start here.
PROGRAM = """
import importlib.util, sys
from pathlib import Path
import situ
from situ.runtime.spark.session.errors import SparkError, spark_errors
from situ.io.kafka_address import KafkaAddress
from situ.runtime.spark.inputs.kafka import kafka_errors
from situ.runtime.spark.follow.query_errors import as_situ_errors

address, folder = sys.argv[1], Path(sys.argv[2])
assert importlib.util.find_spec("py4j") is None
try:
    situ.spark_session("local[1]")
except SparkError as error:
    print(error.cause)
spark = situ.spark_session(address)
query = (folder / "pings.situ").read_text()
pings = spark.createDataFrame([(n, float(at)) for at, n in enumerate([1, 5, 2, 7])], "n int, at double")
print(sorted(tuple(row)[:2] for row in situ.detect(query, {"Ping": pings})["Rise"].collect()))

pings.coalesce(1).write.parquet(str(folder / "pings"))
rows = spark.readStream.schema(pings.schema).parquet(str(folder / "pings"))
found = situ.detect(query, {"Ping": rows})["Rise"]
options = {"path": str(folder / "found"), "checkpointLocation": str(folder / "checkpoint")}
writing = found.writeStream.format("parquet").options(**options).trigger(availableNow=True).start()
writing.awaitTermination()
print(spark.read.parquet(str(folder / "found")).count() > 0)

for expected in (spark_errors("no"), kafka_errors(KafkaAddress("host:1", "cars")), as_situ_errors()):
    try:
        with expected:
            spark.sql("SELECT raise_error('said by Spark')").collect()
    except SparkError as error:
        print("said by Spark" in error.cause)
spark.stop()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_connect_server(tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pings.situ").write_text(QUERY)
    (tmp_path / "pings.csv").write_text("n,at\n1,0\n5,1\n2,2\n7,3\n")
    return tmp_path


def client(*arguments: object) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "JAVA_HOME")}
    return subprocess.run([CLIENT, *map(str, arguments)], env=environ, capture_output=True, text=True, check=False)


def test_batches_streams_and_errors(server: str, folder: Path) -> None:
    program = folder / "program.py"  # the client takes `python -c` for a doctest of its own
    program.write_text(PROGRAM)
    done = client(program, server, folder)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines) == (
        0,
        [
            "only the thin client of Spark Connect (pyspark-client) is installed, which starts no Spark",
            "[(1, 5), (2, 7), (5, 7)]",
            *["True"] * 4,
        ],
    ), done.stderr


def test_the_command(server: str, folder: Path) -> None:
    run = ["-m", "situ.cli.app", "run", folder / "pings.situ", "--source", f"Ping={folder / 'pings.csv'}", "--json"]
    done = client(*run, "--master", server)
    assert done.returncode == 0, done.stderr
    assert '"Rise": 3' in done.stdout
    done = client(*run)
    assert done.returncode == 1
    assert "--master sc://HOST" in json.loads(done.stdout)["error"]["remedy"]
    assert done.stderr == ""
