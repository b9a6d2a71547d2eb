"""A query, and the `situ` command in this process."""

from typer.testing import CliRunner

from situ.cli.app import app

DOORS = """\
stream Door(door string, state string, n int, ts timestamp) time ts

define Opened(door, n)
  detect   Door(state = 'open') as a
  assign   door = a.door, n = a.n

subscribe Shut
  detect   Opened as a then Door(state = 'shut') as b within 10 s
  assign   door = b.door, opened = a.n, shut = b.n
  group by door
"""


def situ(*arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr
