"""A real PostgreSQL server for tests: `with postgresql_server() as server`, or the fixture `postgresql`."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from servers.debian import ServerUnavailable, free_port, program, wait_until

SERVER = ["/usr/lib/postgresql/*/bin/postgres", "/usr/local/pgsql/bin/postgres", "/usr/bin/postgres"]
PACKAGE = "postgresql"

#: Who may come without a password, and who may not.
OPEN, CLOSED = "tester", "guarded"
PASSWORD = "se%c:r/et@"


class Postgresql:
    """A fresh cluster on a port of its own. It is not safe against a crash of the machine, and fast for that."""

    def __init__(self, directory: Path) -> None:
        self.host, self.port, self.database = "127.0.0.1", free_port(), "postgres"
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._postgres = program(PACKAGE, SERVER)
        self._user = _server_user()
        if self._user is not None:
            os.chown(directory, self._user.pw_uid, self._user.pw_gid)
        self._run("initdb", "-D", self._data, "-U", OPEN, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        rules = Path(self._data, "pg_hba.conf")
        rules.write_text(f"host all {CLOSED} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n")

    @property
    def _data(self) -> str:
        return str(self._directory / "data")

    def start(self) -> None:
        options = ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "unix_socket_directories="]
        command = [str(self._postgres.path), "-D", self._data, "-p", str(self.port), *options]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self._directory, **self._as_user(), start_new_session=True
            )
        wait_until(self._answers, "PostgreSQL")

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # ends connections, too
            self._process.wait()
            self._process = None

    def address(self, login: str = OPEN) -> str:
        return f"postgresql://{login}@{self.host}:{self.port}/{self.database}"

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self._connection() as connection:
            return connection.execute(query).fetchall()  # type: ignore[call-overload,no-any-return]

    def execute(self, *statements: str) -> None:
        with self._connection() as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[call-overload]

    def _connection(self) -> psycopg.Connection:
        return psycopg.connect(host=self.host, port=self.port, user=OPEN, dbname=self.database)

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise ServerUnavailable(f"PostgreSQL ends at once: {(self._directory / 'log').read_text()[-500:]}")
        try:
            self._connection().close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(self._postgres.beside(name).path), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self._directory, **self._as_user())
        if done.returncode:
            raise ServerUnavailable(f"{name} failed: {done.stderr.strip()[-500:]}")

    def _as_user(self) -> dict[str, Any]:
        environment = {"env": dict(self._postgres.environment) | {"LC_ALL": "C"}}
        if self._user is None:
            return environment
        return environment | {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}


def _server_user() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ServerUnavailable("PostgreSQL does not run as root, and there is no user postgres or nobody")


@contextmanager
def postgresql_server() -> Iterator[Postgresql]:
    """A server for a while, with the users `tester` (no password needed) and `guarded` (it is)."""
    with tempfile.TemporaryDirectory(prefix="situ-postgresql-") as directory:
        server = Postgresql(Path(directory))
        server.start()
        try:
            server.execute(f"CREATE ROLE {CLOSED} LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Postgresql]:
    try:
        with postgresql_server() as server:
            yield server
    except ServerUnavailable as error:
        pytest.skip(str(error))
