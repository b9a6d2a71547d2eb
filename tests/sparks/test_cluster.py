"""An environment that is shipped to a real cluster: a master and two workers, none of which has situ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from servers.sparks import PATIENCE, Cluster, running_cluster

pytestmark = pytest.mark.environments

ROOT = Path(__file__).parents[2]
#: What `make cluster` packs, by the lines of docs/production.md.
ENVIRONMENT = ROOT / ".venvs" / "environment"
PACKED = ROOT / ".venvs" / "environment.tar.gz"
QUERY = ROOT / "examples" / "kafka" / "braking.situ"
VEHICLES = ROOT / "examples" / "traffic" / "vehicles.parquet"
SHIPPED = {
    "spark.archives": f"{PACKED}#environment",
    "spark.pyspark.python": "./environment/bin/python",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.authenticate.socketTimeout": PATIENCE,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def run(where: Path, *options: object, **settings: str) -> subprocess.CompletedProcess[str]:
    conf = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    command = [sys.executable, "-m", "situ.cli.app", "run", QUERY, *options, *conf, "--json"]
    environ = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    return subprocess.run(list(map(str, command)), cwd=where, env=environ, capture_output=True, text=True, check=False)


def expected() -> int:
    done = run(ROOT, "--source", f"Vehicle={VEHICLES}", "--engine", "embedded")
    count: int = json.loads(done.stdout)["complex_events"]["HardBraking"]
    return count


def compiled(environment: Path) -> set[tuple[str, int]]:
    """The compiled code of situ's functions that Numba keeps on disk, a file for each type of arguments, and when it
    was written."""
    return {(file.name, file.stat().st_mtime_ns) for file in environment.glob("lib/*/site-packages/situ/**/*.nbc")}


def test_batches_run_on_both_workers_by_what_was_compiled_before(cluster: Cluster, tmp_path: Path) -> None:
    done = run(tmp_path, "--source", f"Vehicle={VEHICLES}", "--master", cluster.master, **SHIPPED)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["complex_events"]["HardBraking"] == expected()
    environments = [next(work.glob("app-*/*/environment")) for work in cluster.works]
    assert compiled(ENVIRONMENT)
    for environment in environments:
        # Code that does not fit would have been written anew; arguments of types that are new here add a file.
        assert compiled(environment) >= compiled(ENVIRONMENT)


def test_streams_run_where_the_driver_finds_the_environment_too(cluster: Cluster, tmp_path: Path) -> None:
    """Spark starts a worker beside the driver, too, for the schema of the state, by the executors' path."""
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / VEHICLES.name).symlink_to(VEHICLES)
    stream = ["--follow", "--once", "--source", f"Vehicle={tmp_path / 'incoming'}", "--out", tmp_path / "found"]
    stream += ["--checkpoint", tmp_path / "state", "--master", cluster.master]
    without = run(tmp_path, *stream, **SHIPPED)
    assert without.returncode == 1
    assert "there is no Python at ./environment/bin/python" in without.stdout + without.stderr
    (tmp_path / "environment").symlink_to(ENVIRONMENT)
    done = run(tmp_path, *stream, **SHIPPED)
    assert done.returncode == 0, done.stderr
    found = pq.read_table(tmp_path / "found" / "HardBraking").num_rows
    assert 0 < found <= expected()  # what depends on the last seconds is not certain yet


def test_workers_without_situ(cluster: Cluster, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    bare = {"spark.pyspark.python": str(tmp_path / "bare" / "bin" / "python")}
    done = run(tmp_path, "--source", f"Vehicle={VEHICLES}", "--master", cluster.master, **bare)
    assert done.returncode == 1
    assert "there is no situ in the Python that Spark's workers run" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
