"""PostgreSQL as a sink: batches that come again, types, tables that do not fit, servers that go."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as T

from servers.debian import free_port, wait_until
from servers.postgresql import CLOSED, OPEN, PASSWORD, Postgresql, postgresql
from situ.core.errors import InputError
from situ.io.postgresql import PostgresqlAddress
from situ.runtime.spark.sinks.postgresql import table_columns, upsert_batch

__all__ = ["postgresql"]  # the fixture

slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("postgresql://ann@db/traffic", PostgresqlAddress("db", "ann", "traffic")),
        ("postgres://a%40b:p%2F%23@[::1]:5433/t%20x", PostgresqlAddress("::1", "a@b", "t x", 5433, "p/#")),
        (
            "postgresql://a:@db/t?sslmode=require",
            PostgresqlAddress("db", "a", "t", 5432, "", (("sslmode", "require"),)),
        ),
    ],
)
def test_an_address_is_read_and_shown(text: str, address: PostgresqlAddress) -> None:
    assert PostgresqlAddress.parse(text) == address
    assert "p/#" not in address.shown + repr(address)
    shown = PostgresqlAddress.parse(address.shown)
    assert (shown.host, shown.port, shown.user, shown.database) == (
        address.host,
        address.port,
        address.user,
        address.database,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mysql://ann:SECRET@db/t", "an address of PostgreSQL begins with postgresql://"),
        ("postgresql://db/t?password=SECRET", "'postgresql://db/t' names no user"),
        ("postgresql://ann:SECRET@/t", "names no host"),
        ("postgresql://ann:SECRET@db", "names no database"),
        ("postgresql://ann:SE/CRET@db/t", "'postgresql://db/t'"),
        ("postgresql://ann:SE#CRET@db/t", "'postgresql://db/t'"),
        ("postgresql://ann:SE?CRET@db/t", "'postgresql://...'"),
        ("postgresql://db/t?password=SE@CRET", "'postgresql://...' names no user"),
        ("ann:SECRET@db/t", "an address of PostgreSQL begins with postgresql://"),
        ("postgresql://ann:SECRET@db:port/t", "names no host and port"),
        ("postgresql://ann@db/t/u", "is no address of PostgreSQL"),
        ("postgresql://ann@db/t?password=SECRET", "'postgresql://db/t' has a parameter 'password'"),
    ],
)
def test_a_wrong_address_is_said_without_its_password(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        PostgresqlAddress.parse(text)
    assert message in str(error.value)
    assert error.value.remedy
    assert "CRET" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "type_", "message"),
    [
        ("_batch", T.LongType(), "no column of PostgreSQL can be named '_batch'"),
        ("a" * 64, T.LongType(), "no column of PostgreSQL can be named"),
        ("x", T.YearMonthIntervalType(), "PostgreSQL has no type for column 'x', interval year to month"),
    ],
)
def test_columns_that_no_table_can_have(name: str, type_: T.DataType, message: str) -> None:
    with pytest.raises(InputError, match=message):
        table_columns(T.StructType().add(name, type_))


def numbers(spark: SparkSession, *values: int) -> DataFrame:
    return spark.createDataFrame([Row(n=value) for value in values], "n long").repartition(2)


def address_of(server: Postgresql) -> PostgresqlAddress:
    return PostgresqlAddress.parse(server.address())


@slow
def test_a_batch_that_comes_again_replaces_itself(spark: SparkSession, postgresql: Postgresql) -> None:
    address = address_of(postgresql)

    def written(query: str, batch: int, *values: int) -> dict[tuple[str, int], list[int]]:
        upsert_batch(numbers(spark, *values), address, "Again", query, batch)
        found: dict[tuple[str, int], list[int]] = {}
        for query_id, batch_id, n in postgresql.rows('SELECT _query, _batch, n FROM "Again" ORDER BY n'):
            found.setdefault((query_id, batch_id), []).append(n)
        return found

    assert written("q", 0, 1, 2, 3) == {("q", 0): [1, 2, 3]}
    assert written("q", 1, 4) == {("q", 0): [1, 2, 3], ("q", 1): [4]}
    assert written("q", 1, 4) == {("q", 0): [1, 2, 3], ("q", 1): [4]}  # as it was
    assert written("q", 1, 5, 6) == {("q", 0): [1, 2, 3], ("q", 1): [5, 6]}  # longer
    assert written("q", 0, 7) == {("q", 0): [7], ("q", 1): [5, 6]}  # shorter
    assert written("r", 0, 8, 9) == {("q", 0): [7], ("q", 1): [5, 6], ("r", 0): [8, 9]}  # of another query
    assert written("q", 1) == {("q", 0): [7], ("r", 0): [8, 9]}  # nothing at all
    rows = postgresql.rows('SELECT _row FROM "Again" WHERE _query = $$r$$ ORDER BY _row')
    assert rows == [(0,), (1,)]


TYPES: list[tuple[str, str, Any, Any]] = [
    ("boolean", "boolean", True, True),
    ("tinyint", "smallint", -128, -128),
    ("smallint", "smallint", -32768, -32768),
    ("int", "integer", -(2**31), -(2**31)),
    ("bigint", "bigint", 2**63 - 1, 2**63 - 1),
    ("float", "real", 0.1, pytest.approx(0.1)),
    ("double", "double precision", 0.1 + 0.2, 0.1 + 0.2),
    ("double", "double precision", float("-inf"), float("-inf")),
    (
        "decimal(38,18)",
        "numeric(38,18)",
        Decimal("-12345678901234567890.123456789012345678"),
        Decimal("-12345678901234567890.123456789012345678"),
    ),
    ("decimal(12,9)", "numeric(12,9)", Decimal("1E-9"), Decimal("1E-9")),
    ("string", "text", 'a"b,\n\\.\n\\N\tstraße', 'a"b,\n\\.\n\\N\tstraße'),
    ("string", "text", "", ""),
    ("string", "text", "a\0b", "a\ufffdb"),
    ("binary", "bytea", bytearray(b"\0\xff\\x"), b"\0\xff\\x"),
    ("date", "date", date(1600, 2, 29), date(1600, 2, 29)),
    (
        "timestamp",
        "timestamp with time zone",
        datetime(2026, 3, 29, 1, 59, 59, 999999, UTC),
        datetime(2026, 3, 29, 1, 59, 59, 999999, UTC),
    ),
    ("timestamp_ntz", "timestamp without time zone", datetime(2026, 3, 1, 12), datetime(2026, 3, 1, 12)),
    (
        "interval day to second",
        "interval",
        timedelta(days=-3, microseconds=1),
        timedelta(days=-3, microseconds=1),
    ),
    ("struct<a:int,b:string>", "jsonb", (1, None), {"a": 1, "b": None}),
    ("array<string>", "jsonb", ["x\0", "\\u0000", None], ["x\ufffd", "\\u0000", None]),
    ("map<string,double>", "jsonb", {"k": 1.5}, {"k": 1.5}),
]


@slow
def test_types_come_and_go(spark: SparkSession, postgresql: Postgresql) -> None:
    schema = ", ".join(f"`c {n}.` {type_}" for n, (type_, *_) in enumerate(TYPES))
    rows = [tuple(value for _, _, value, _ in TYPES), tuple(None for _ in TYPES)]
    for _ in range(2):  # into a table that is made, and into the same table again, which must fit
        upsert_batch(spark.createDataFrame(rows, schema), address_of(postgresql), "types", "q", 0)
    found = postgresql.rows(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = 'types'::regclass AND attnum > 3 ORDER BY attnum"
    )
    assert [type_ for (type_,) in found] == [type_ for _, type_, _, _ in TYPES]
    given, nulls = postgresql.rows("SELECT * FROM types ORDER BY _row")
    assert nulls == ("q", 0, 1, *(None for _ in TYPES))
    for value, (type_, _, _, expected) in zip(given[3:], TYPES, strict=True):
        assert value == expected, type_


@slow
def test_values_that_are_no_numbers_and_texts_that_are_no_text(spark: SparkSession, postgresql: Postgresql) -> None:
    df = spark.range(1).selectExpr("double('NaN') AS x", "cast(x'61ff' AS string) AS s", "null AS nothing")
    upsert_batch(df, address_of(postgresql), "odd", "q", 0)
    assert postgresql.rows("SELECT x::text, s, nothing FROM odd") == [("NaN", "a\ufffd", None)]


KEYS = "_query text, _batch bigint, _row bigint"


@slow
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (f"{KEYS}, n integer, PRIMARY KEY (_query, _batch, _row)", "which has n integer, not bigint"),
        (f"{KEYS}, PRIMARY KEY (_query, _batch, _row)", "which has no column n bigint"),
        ("n bigint", "has no column _query text; has no column _batch bigint; has no column _row bigint"),
        (f"{KEYS}, n bigint, x int NOT NULL, PRIMARY KEY (_query, _batch, _row)", "which needs a value for x"),
        (f"{KEYS}, n bigint", "which has no PRIMARY KEY"),
        (f"{KEYS}, n bigint, UNIQUE (_query, _batch, _row, n)", "which has no PRIMARY KEY"),
    ],
)
def test_a_table_that_does_not_fit(spark: SparkSession, postgresql: Postgresql, columns: str, message: str) -> None:
    postgresql.execute("DROP TABLE IF EXISTS unfit", f"CREATE TABLE unfit ({columns})")
    with pytest.raises(InputError, match=f"do not fit into table 'unfit', .*{message}"):
        upsert_batch(numbers(spark, 1), address_of(postgresql), "unfit", "q", 0)


@slow
def test_a_table_that_somebody_made_and_that_fits(spark: SparkSession, postgresql: Postgresql) -> None:
    """Wider types, columns in another order, and further columns, which stay as they are."""
    postgresql.execute(
        "CREATE SCHEMA own",
        'CREATE TABLE own."My" (note text, n numeric, seen timestamptz NOT NULL DEFAULT now(), _row bigint, _batch'
        " bigint, _query varchar(50), UNIQUE (_row, _query, _batch) INCLUDE (n))",
    )
    upsert_batch(numbers(spark, 5), address_of(postgresql), "own.My", "q", 0)
    postgresql.execute("""UPDATE own."My" SET note = 'looked at'""")
    upsert_batch(numbers(spark, 6), address_of(postgresql), "own.My", "q", 0)
    assert postgresql.rows('SELECT n, note FROM own."My"') == [(6, "looked at")]


@slow
def test_what_the_server_refuses(spark: SparkSession, postgresql: Postgresql) -> None:
    address = address_of(postgresql)
    with pytest.raises(InputError, match=r"'a\.b\.c' cannot be a table"):
        upsert_batch(numbers(spark, 1), address, "a.b.c", "q", 0)
    with pytest.raises(InputError, match=r'batch 7 cannot be written to table .*: schema "nowhere" does not exist'):
        upsert_batch(numbers(spark, 1), address, "nowhere.t", "q", 7)
    postgresql.execute(f"CREATE TABLE small ({KEYS}, n bigint CHECK (n < 10), PRIMARY KEY (_query, _batch, _row))")
    upsert_batch(numbers(spark, 1, 2), address, "small", "q", 0)
    with pytest.raises(InputError, match="violates check constraint"):
        upsert_batch(numbers(spark, 3, 11), address, "small", "q", 0)
    assert postgresql.rows("SELECT n FROM small ORDER BY n") == [(1,), (2,)]  # all or nothing


@slow
def test_a_password_from_each_place(
    spark: SparkSession, postgresql: Postgresql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(login: str) -> None:
        upsert_batch(numbers(spark, 1), PostgresqlAddress.parse(postgresql.address(login)), "guarded", "q", 0)

    monkeypatch.setenv("PGPASSFILE", "/nonexistent")
    write(f"{CLOSED}:se%25c%3Ar%2Fet%40")
    for login in (CLOSED, f"{CLOSED}:WRONG"):
        with pytest.raises(InputError, match="no connection to postgresql://guarded@") as error:
            write(login)
        assert "WRONG" not in str(error.value)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    write(CLOSED)
    monkeypatch.delenv("PGPASSWORD")
    file = tmp_path / "pgpass"
    file.write_text(f"127.0.0.1:{postgresql.port}:*:{CLOSED}:{PASSWORD.replace(':', chr(92) + ':')}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    write(CLOSED)


@slow
def test_no_server(spark: SparkSession) -> None:
    address = PostgresqlAddress("127.0.0.1", "ann", "t", free_port(), "SECRET")
    with pytest.raises(InputError, match=r"no connection to postgresql://ann@127.0.0.1:.*refused") as error:
        upsert_batch(numbers(spark, 1), address, "t", "q", 0)
    assert "SECRET" not in str(error.value)


class Attempt(threading.Thread):
    """An attempt at batch 0 of the table `slow`, which waits as long as somebody has the lock."""

    def __init__(self, df: DataFrame, server: Postgresql) -> None:
        super().__init__()
        self._df, self._server = df, server
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            upsert_batch(self._df, address_of(self._server), "slow", "q", 0)
        except InputError as error:
            self.error = error


WAITING = "SELECT pid FROM pg_stat_activity WHERE application_name = 'situ' AND wait_event_type = 'Lock'"


@slow
def test_attempts_at_once_and_a_connection_that_breaks(spark: SparkSession, postgresql: Postgresql) -> None:
    """A driver that is thought dead, and its successor. What is left is one attempt's, whole."""
    upsert_batch(numbers(spark, 0, 0, 0, 0), address_of(postgresql), "slow", "q", 0)
    batches = [[1, 1, 1], [2, 2], [3, 3, 3]]
    attempts = [Attempt(numbers(spark, *values), postgresql) for values in batches]
    with psycopg.connect(host=postgresql.host, port=postgresql.port, user=OPEN, dbname="postgres") as holder:
        holder.execute("SELECT pg_advisory_xact_lock(hashtextextended('situ batch slow q', 0))")
        attempts[0].start()
        wait_until(lambda: len(postgresql.rows(WAITING)) == 1, "the first attempt")
        ((backend,),) = postgresql.rows(WAITING)
        for attempt in attempts[1:]:
            attempt.start()
        wait_until(lambda: len(postgresql.rows(WAITING)) == 3, "all attempts")
        assert postgresql.rows("SELECT n FROM slow") == [(0,)] * 4
        postgresql.execute(f"SELECT pg_terminate_backend({backend})")
    for attempt in attempts:
        attempt.join()
    assert "batch 0 cannot be written" in str(attempts[0].error)
    assert [attempt.error for attempt in attempts[1:]] == [None, None]
    left = [n for (n,) in postgresql.rows("SELECT n FROM slow")]
    assert left in batches[1:]
