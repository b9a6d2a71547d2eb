"""A rule that a sink cannot serve is refused when it is read, and the query goes on."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime.spark.changing_rules import HIGH, RISE, STREAM, begin, begun, manifest
from runtime.spark.test_follow import HIGH as HIGH_READINGS
from runtime.spark.test_follow import Place, running
from servers.postgresql import Postgresql, postgresql
from situ.core.errors import InputError, QueryError, StateError
from situ.io.postgresql import PostgresqlAddress
from situ.runtime.spark.follow.opening import Job, open_rules
from situ.runtime.spark.follow.planned_rules import first_rules, next_rules
from situ.runtime.spark.sinks.postgresql import upsert_batch
from situ.service.rules import Texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

__all__ = ["postgresql"]  # the fixture

OUTSIDE = HIGH.replace("High", "`../../High`")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "rules").mkdir()
    return Job("q.situ", STREAM + RISE, {"Reading": "in"}, tmp_path / "ck", tmp_path / "rules", out="out")


def test_a_rule_of_the_control_directory_is_refused_and_one_of_the_query_file_is_an_error(job: Job) -> None:
    assert job.control is not None
    (job.control / "a.situ").write_text(OUTSIDE)
    opening = open_rules(job)
    assert opening.rules.rules.order == ("Rise",)
    assert [str(error.place) for error in opening.wrong] == [f"{job.control / 'a.situ'}:1:1"]
    assert open_rules(replace(job, out="kafka://h:9092/t")).rules.rules.order == ("Rise", "../../High")
    with pytest.raises(QueryError, match="cannot be a folder"):
        open_rules(replace(job, text=STREAM + OUTSIDE))


def test_rules_that_are_in_force_meet_another_sink(job: Job) -> None:
    begun(job.checkpoint, manifest(), begin(OUTSIDE).rules)
    in_force = replace(job, text=STREAM + OUTSIDE)
    assert open_rules(replace(in_force, out=None)).before is None
    with pytest.raises(QueryError, match="cannot be a folder"):
        open_rules(in_force)


@pytest.mark.slow
@pytest.mark.storm
def test_a_query_goes_on_when_a_rule_is_refused_and_tells_of_files_that_change(
    spark: SparkSession, tmp_path: Path
) -> None:
    from situ.service.told import Progressed, RulesChanged, RulesRefused, Warned

    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    place = Place(inner)
    place.give(0)
    with running(place.follower(spark, place.job(out=str(inner / "out")))) as run:
        run.until(Progressed)
        for name in ("../../x", "_late", "x" * 300):
            place.rules("new", HIGH_READINGS.replace("High", f"`{name}`"))
            assert "new.situ:1:1: subscription " in str(run.until(RulesRefused).error)
        place.give(1)
        assert run.until(Progressed).batch.number == 1
        place.rules("new", HIGH_READINGS)
        assert run.until(RulesChanged).change.added == ("High",)
        place.give(2)
        assert run.until(Progressed).batch.number == 2
        place.give(1)  # again: moved over the one that was read
        file = inner / "in" / "part-1.parquet"
        assert run.until(Warned).warning.startswith(f"{file} has changed")
    assert place.found("High")
    assert {path.name for path in tmp_path.iterdir()} == {"a"}


# ---- a checkpoint that is damaged


def test_what_spark_says_of_a_damaged_checkpoint() -> None:
    from situ.runtime.spark.follow.query_errors import query_error

    text = "Query terminated with exception: Failed to read log file file:/ck/commits/2. Incomplete log file."
    error = query_error(text, ["kafka://h:9092/t"], "ck")
    assert isinstance(error, StateError)
    assert str(error).startswith("ck: Spark cannot go on from the checkpoint, which is damaged: ")
    assert "Restore the checkpoint from a backup" in error.remedy


def damages(spark_directory: Path) -> dict[str, Callable[[], object]]:
    offsets = spark_directory / "offsets" / "0"
    return {
        "an offset is cut off": lambda: offsets.write_bytes(offsets.read_bytes()[:100]),
        "a commit is empty": lambda: (spark_directory / "commits" / "0").write_bytes(b""),
        "the id is overwritten": lambda: (spark_directory / "metadata").write_text("x"),
        "the id is gone": lambda: (spark_directory / "metadata").unlink(),
        "the state is gone": lambda: shutil.rmtree(spark_directory / "state"),
        "the log of a source is gone": lambda: shutil.rmtree(spark_directory / "sources"),
    }


@pytest.mark.slow
@pytest.mark.storm
def test_a_damaged_checkpoint_is_refused_with_a_remedy(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.give(0)
    job = place.job(once=True)
    place.follower(spark, job).run(lambda told: None)
    place.give(1)
    shutil.copytree(job.checkpoint, tmp_path / "whole")
    said = {}
    for name, damage in damages(job.checkpoint / "spark").items():
        shutil.rmtree(job.checkpoint)
        shutil.copytree(tmp_path / "whole", job.checkpoint, ignore=shutil.ignore_patterns("*.crc"))
        damage()
        with pytest.raises(StateError) as error:
            place.follower(spark, job).run(lambda told: None)
        said[name] = (error.value.place, "Restore the checkpoint" in error.value.remedy)
    assert said == dict.fromkeys(said, (str(job.checkpoint), True))
    assert len(said) == 6


# ---- PostgreSQL


@pytest.mark.slow
def test_rules_whose_tables_are_there_with_other_columns(postgresql: Postgresql) -> None:
    """The server is asked when rules are read; Spark is not."""
    postgresql.execute('CREATE TABLE "High" (n int)', "CREATE SCHEMA elsewhere")
    out = postgresql.address()
    for rule, message in {
        HIGH: "do not fit into table 'High'",
        HIGH.replace("High", "`elsewhere.t`"): "has a dot",
        HIGH.replace("High", "Long").replace("sensor = ", f"{'x' * 64} = "): "no column of PostgreSQL can be named",
    }.items():
        with pytest.raises((InputError, QueryError), match=message):
            first_rules(Texts("q.situ", STREAM + rule), "now", out=out)
        with pytest.raises((InputError, QueryError), match=message):
            next_rules(begin(RISE), Texts("q.situ", STREAM + RISE + rule), 1, "later", out=out)
    first_rules(Texts("q.situ", STREAM + HIGH.replace("High", "`100%`")), "now", out=out)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["100%", "%s", "%(query)s", 'quo"ted', "'; DROP TABLE x; --", "ü" * 31])
def test_names_of_tables_and_columns(spark: SparkSession, postgresql: Postgresql, name: str) -> None:
    address = PostgresqlAddress.parse(postgresql.address())
    for value in (1, 2):
        upsert_batch(spark.createDataFrame([(value,)], ["a%b"]), address, name, "q'uery %s", 0)
    quoted = name.replace('"', '""')
    assert postgresql.rows(f'SELECT _query, _row, "a%b" FROM "{quoted}"') == [("q'uery %s", 0, 2)]
