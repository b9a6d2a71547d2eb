"""PostgreSQL as a sink: the rows of a batch are in the table once, however often the batch is repeated.

A table's first columns say where a row comes from: `_query`, `_batch` and `_row`, its number in the batch. They are
the primary key. A batch is written in one transaction, which replaces what an earlier attempt has left of it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from situ.core.errors import InputError
from situ.io.addresses import scheme_of, shown_address
from situ.io.sink_names import TABLE_NAME_BYTES

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed, Identifier, Literal

PORT = 5432
#: Where a row comes from.
KEY = {"_query": "text", "_batch": "bigint", "_row": "bigint"}

#: How long a server may take to answer, unless the address says `?connect_timeout=SECONDS`.
_ANSWER_S = 10
#: Rows that become text at once.
_COPY_ROWS = 50_000

_FORM = "It is postgresql://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?sslmode=require]."
_ENCODED = "Write '@', ':', '/', '?', '#' and '%' in names and passwords as %40, %3A, %2F, %3F, %23 and %25."

#: What a column of a table may be besides, because it holds every value of the type.
_WIDER = {
    "smallint": {"integer", "bigint", "numeric"},
    "integer": {"bigint", "numeric", "double precision"},
    "bigint": {"numeric"},
    "real": {"double precision"},
    "text": {"character varying"},
    "jsonb": {"json", "text"},
}


@dataclass(frozen=True, slots=True)
class PostgresqlAddress:
    """A database of a server. Without a password, libpq looks for one: in PGPASSWORD, then in ~/.pgpass.

    >>> address = PostgresqlAddress.parse("postgresql://ann:se%2Fcret@db/traffic?sslmode=require")
    >>> address.password, address.shown
    ('se/cret', 'postgresql://ann@db:5432/traffic')
    """

    host: str
    user: str
    database: str
    port: int = PORT
    password: str | None = field(default=None, repr=False)
    #: Settings of libpq, as `sslmode`.
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The address that a text says."""
        if scheme_of(text) != "postgresql":
            raise InputError("an address of PostgreSQL begins with postgresql://", remedy=_FORM)
        shown = shown_address(text)
        try:
            parts = urlsplit(text)
            port = parts.port or PORT
        except ValueError:
            raise InputError(f"'{shown}' names no host and port", remedy=f"{_FORM} {_ENCODED}") from None
        database = unquote(parts.path.removeprefix("/"))
        missing = [n for n, v in [("user", parts.username), ("host", parts.hostname), ("database", database)] if not v]
        if missing or parts.fragment or "/" in parts.path.removeprefix("/"):
            cause = f"names no {missing[0]}" if missing else "is no address of PostgreSQL"
            raise InputError(f"'{shown}' {cause}", remedy=f"{_FORM} {_ENCODED}")
        settings = tuple(parse_qsl(parts.query, keep_blank_values=True))
        doubled = sorted({name for name, _ in settings} & {"host", "port", "user", "password", "dbname"})
        if doubled:
            raise InputError(f"'{shown}' has a parameter '{doubled[0]}'", remedy=_FORM)
        password = None if parts.password is None else unquote(parts.password)
        host, user = unquote(parts.hostname or ""), unquote(parts.username or "")
        return cls(host, user, database, port, password, settings)

    @property
    def shown(self) -> str:
        """The address without its password and settings."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"postgresql://{quote(self.user, safe='')}@{host}:{self.port}/{quote(self.database, safe='')}"


def upsert_rows(
    address: PostgresqlAddress,
    table: str,
    rows: pa.Table,
    columns: Mapping[str, str],
    query_id: str,
    batch_id: int,
    first: int | None = None,
) -> None:
    """Makes the table's rows of this batch those that are given, neither more nor fewer, in one transaction.

    `table` is `name` or `schema.name`, and is made if it is not there; `columns` has the types of its columns. With
    `first`, rows have numbers from there on in a batch that has no end: others of it stay as they are.
    """
    require_psycopg()
    with _connected(address, f"batch {batch_id} cannot be written to table '{table}'") as connection:
        _upsert(connection, rows, table, columns, query_id, batch_id, first)


def require_columns(address: PostgresqlAddress, tables: Mapping[str, Mapping[str, str]]) -> None:
    """Raises InputError if a table that is there already does not have the columns that are wanted of it."""
    require_psycopg()
    with _connected(address, "the tables cannot be looked at") as connection:
        for table, columns in tables.items():
            quoted = _table_name(table).as_string(connection)
            if not _missing(connection, quoted):
                _check_table(connection, table, quoted, columns)


def require_column_name(name: str, others: Container[str]) -> None:
    """Raises InputError if a table cannot have a column of this name beside the others."""
    if name in KEY or name in others or not name or len(name.encode()) > TABLE_NAME_BYTES or "\0" in name:
        remedy = f"Names are distinct, have 1 to {TABLE_NAME_BYTES} bytes, and are not {', '.join(KEY)}."
        raise InputError(f"no column of PostgreSQL can be named '{name}' here", remedy=remedy)


def require_psycopg() -> None:
    """An error with the remedy, where psycopg is not installed."""
    if find_spec("psycopg") is None:
        remedy = "pip install 'situ[postgresql]'"
        raise InputError("PostgreSQL needs the package psycopg, which is not installed", remedy=remedy)


def rows_to_copy(rows: pa.Table, columns: Mapping[str, str], first: int = 0) -> Iterator[bytes]:
    """Rows as COPY reads them: numbered from `first` on, comma-separated, every value in quotes, and nothing for null.

    >>> b"".join(rows_to_copy(pa.table({"lane": ["a", None, ""]}), {"lane": "text"}))
    b'"0","a"\\n"1",\\n"2",""\\n'
    """
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="all_valid")
    for start in range(0, rows.num_rows, _COPY_ROWS):
        part = rows.slice(start, _COPY_ROWS)
        values = [_as_text(part.column(name), type_) for name, type_ in columns.items()]
        numbers = pa.array(range(first + start, first + start + part.num_rows), pa.int64())
        out = io.BytesIO()
        pyarrow.csv.write_csv(pa.table([numbers, *values], names=["_row", *columns]), out, options)
        yield out.getvalue()


def _as_text(column: pa.ChunkedArray, type_: str) -> pa.ChunkedArray:
    """A column of values that Arrow writes as PostgreSQL reads them."""
    match type_:
        case "text" | "jsonb":
            text = _valid_text(column.cast(pa.string()))
            return _without_escaped_nul(text) if type_ == "jsonb" else text
        case "bytea":
            return pa.chunked_array([[None if v is None else f"\\x{v.hex()}" for v in column.to_pylist()]], pa.string())
        case "interval":
            micros = column.cast(pa.duration("us")).cast(pa.int64())
            seconds = pc.divide(micros, 1_000_000)
            rest = pc.subtract(micros, pc.multiply(seconds, 1_000_000))  # of the same sign
            texts = [seconds.cast(pa.string()), " seconds ", rest.cast(pa.string()), " microseconds"]
            return pc.binary_join_element_wise(*texts, "")
        case "timestamp with time zone":
            return column.cast(pa.timestamp("us", "UTC"))
        case _:
            return column


def _valid_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:  # to Spark, a string is any bytes
        values = column.cast(pa.binary()).to_pylist()
        column = pa.chunked_array([[None if v is None else v.decode(errors="replace") for v in values]], pa.string())
    return pc.replace_substring(column, "\0", "\ufffd")


def _without_escaped_nul(column: pa.ChunkedArray) -> pa.ChunkedArray:
    r"""`\u0000` in JSON is a NUL, `\\u0000` is not."""
    if not pc.any(pc.match_substring(column, "\\u0000")).as_py():
        return column
    nul = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
    texts = [None if text is None else nul.sub("\\1\ufffd", text) for text in column.to_pylist()]
    return pa.chunked_array([texts], pa.string())


@contextmanager
def _connected(address: PostgresqlAddress, what: str) -> Iterator[Connection[Any]]:
    """A connection and a transaction, which is rolled back when something is raised."""
    import psycopg

    login = {"host": address.host, "port": address.port, "user": address.user, "dbname": address.database}
    usual = {"connect_timeout": _ANSWER_S, "application_name": "situ", "password": address.password}
    settings: dict[str, Any] = usual | dict(address.settings) | login | {"client_encoding": "UTF8"}
    try:
        connection = psycopg.connect(**settings)
    except psycopg.Error as error:
        remedy = "Start the server, or correct the address; a password can also stand in PGPASSWORD or ~/.pgpass."
        cause = _first_line(error)
        raise InputError(f"no connection to {address.shown}: {cause}", remedy=remedy) from error
    try:
        with connection:
            yield connection
    except psycopg.Error as error:
        remedy = "Nothing of the batch is in the table; when the cause is mended, the query can go on."
        raise InputError(f"{what} of {address.shown}: {_first_line(error)}", remedy=remedy) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _upsert(
    connection: Connection[Any],
    rows: pa.Table,
    table: str,
    columns: Mapping[str, str],
    query_id: str,
    batch_id: int,
    first: int | None,
) -> None:
    from psycopg import sql

    target = _table_name(table)
    # Two attempts at one batch, of a driver that is thought dead and of its successor, come one after the other.
    _lock(connection, f"situ batch {table} {query_id}")
    _make_or_check(connection, table, target, columns)
    names = [sql.Identifier(name) for name in columns]
    listed = sql.SQL(", ").join([sql.Identifier("_row"), *names])
    run = connection.execute
    # A table for the rows of now, of the types that the columns really have.
    incoming = sql.Identifier("situ_batch")
    run(sql.SQL("CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} LIMIT 0").format(incoming, listed, target))
    into = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(incoming, listed)
    with connection.cursor() as cursor, cursor.copy(into) as copy:
        for text in rows_to_copy(rows, columns, first or 0):
            copy.write(text)
    # Values stand in the statements themselves: a statement with parameters may have no name with a `%` in it.
    query, batch, count = sql.Literal(query_id), sql.Literal(batch_id), sql.Literal(rows.num_rows)
    run(_insert(target, incoming, names, query, batch))
    if first is not None:
        return
    gone = "DELETE FROM {} WHERE _query = {} AND _batch = {} AND _row >= {}"
    run(sql.SQL(gone).format(target, query, batch, count))


def _insert(
    target: Identifier, incoming: Identifier, names: Sequence[Identifier], query: Literal, batch: Literal
) -> Composed:
    """New rows, or new values for the rows of an earlier attempt."""
    from psycopg import sql

    updates = [sql.SQL("{0} = EXCLUDED.{0}").format(name) for name in names]
    columns = sql.SQL(", ").join([sql.Identifier("_row"), *names])
    return sql.SQL(
        "INSERT INTO {} (_query, _batch, {}) SELECT {}, {}, {} FROM {} ORDER BY _row"
        " ON CONFLICT (_query, _batch, _row) DO {}"
    ).format(
        target,
        columns,
        query,
        batch,
        columns,
        incoming,
        sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(updates)) if names else sql.SQL("NOTHING"),
    )


def _table_name(table: str) -> Identifier:
    from psycopg import sql

    parts = table.split(".")
    if len(parts) > 2 or not all(0 < len(part.encode()) <= TABLE_NAME_BYTES and "\0" not in part for part in parts):
        remedy = f"It is NAME or SCHEMA.NAME, each of 1 to {TABLE_NAME_BYTES} bytes."
        raise InputError(f"'{table}' cannot be a table of PostgreSQL", remedy=remedy)
    return sql.Identifier(*parts)


def _lock(connection: Connection[Any], name: str) -> None:
    """Until the end of the transaction."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])


def _make_or_check(connection: Connection[Any], table: str, target: Identifier, columns: Mapping[str, str]) -> None:
    from psycopg import sql

    quoted = target.as_string(connection)
    if _missing(connection, quoted):
        _lock(connection, f"situ table {table}")  # else two queries at once would make it
    if not _missing(connection, quoted):
        _check_table(connection, table, quoted, columns)
        return
    definitions = [
        sql.SQL("{} {} NOT NULL").format(sql.Identifier(name), sql.SQL(type_)) for name, type_ in KEY.items()
    ]
    definitions += [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type_)) for name, type_ in columns.items()]
    made = sql.SQL("CREATE TABLE {} ({}, PRIMARY KEY (_query, _batch, _row))")
    connection.execute(made.format(target, sql.SQL(", ").join(definitions)))


def _missing(connection: Connection[Any], quoted: str) -> bool:
    row = connection.execute("SELECT to_regclass(%s)", [quoted]).fetchone()
    return row is None or row[0] is None


def _check_table(connection: Connection[Any], table: str, quoted: str, columns: Mapping[str, str]) -> None:
    """An error, if the rows do not fit into a table that somebody made."""
    there = {
        name: (type_, needed)
        for name, type_, needed in connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod),"
            " attnotnull AND NOT atthasdef AND attidentity = '' AND attgenerated = ''"
            " FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            [quoted],
        )
    }
    wanted = {**KEY, **columns}
    problems = [f"has no column {name} {type_}" for name, type_ in wanted.items() if name not in there]
    problems += [
        f"has {name} {there[name][0]}, not {type_}"
        for name, type_ in wanted.items()
        if name in there and not type_fits(type_, there[name][0])
    ]
    problems += [f"needs a value for {name}" for name, (_, needed) in there.items() if needed and name not in wanted]
    keys = connection.execute(
        "SELECT array_agg(attname::text ORDER BY attname) FROM pg_index JOIN pg_attribute"
        " ON attrelid = indrelid AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])"
        " WHERE indrelid = to_regclass(%s) AND indisunique AND indpred IS NULL AND indexprs IS NULL"
        " GROUP BY indexrelid",
        [quoted],
    ).fetchall()
    if not problems and [sorted(KEY)] not in [list(key) for key in keys]:
        problems = ["has no PRIMARY KEY (_query, _batch, _row)"]
    if problems:
        remedy = "Name another table, alter this one, or drop it: situ makes it anew."
        raise InputError(f"the rows do not fit into table '{table}', which {'; '.join(problems)}", remedy=remedy)


def type_fits(type_: str, column: str) -> bool:
    """Does a column of a table hold every value of a type?

    >>> type_fits("integer", "bigint"), type_fits("bigint", "integer")
    (True, False)
    >>> type_fits("numeric(9,2)", "numeric(12,2)"), type_fits("numeric(9,2)", "numeric(9,3)")
    (True, False)
    """
    if type_ == column:
        return True
    base = column.partition("(")[0]
    asked, there = (re.fullmatch(r"numeric\((\d+),(\d+)\)", text) for text in (type_, column))
    if asked and there:
        whole, scale = int(asked[1]) - int(asked[2]), int(asked[2])
        return int(there[1]) - int(there[2]) >= whole and int(there[2]) >= scale
    if asked:
        return column == "numeric"
    return base in _WIDER.get(type_, set()) and (base != "numeric" or column == "numeric")


_ARROW_TYPES = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.large_string(): "text",
    pa.null(): "text",
    pa.binary(): "bytea",
    pa.large_binary(): "bytea",
    pa.date32(): "date",
}


def arrow_columns(schema: pa.Schema) -> dict[str, str]:
    """The columns of a table for rows of an Arrow schema, with their types, without the key.

    >>> arrow_columns(pa.schema([("speed", pa.float64()), ("at", pa.timestamp("us", "UTC")), ("n", pa.int8())]))
    {'speed': 'double precision', 'at': 'timestamp with time zone', 'n': 'smallint'}
    """
    columns: dict[str, str] = {}
    for column in schema:
        require_column_name(column.name, columns)
        type_ = column.type
        if pa.types.is_decimal(type_):
            columns[column.name] = f"numeric({type_.precision},{type_.scale})"
        elif pa.types.is_timestamp(type_):
            columns[column.name] = f"timestamp {'with' if type_.tz else 'without'} time zone"
        elif pa.types.is_duration(type_):
            columns[column.name] = "interval"
        else:
            columns[column.name] = "jsonb" if pa.types.is_nested(type_) else _ARROW_TYPES[type_]
    return columns
