"""The peer: FlinkCEP on the same streams, in the same run, on the same machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import venv
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path

from situ.bench.peer import PeerRun
from situ.bench.workload import Workload
from situ.core.errors import SituError

#: The package that carries Flink's jars. `apache-flink` would bring it too, with PyFlink's
#: own dependencies (Beam, pandas) on top, which Java does not need.
PACKAGE = "apache-flink-libraries==2.3.0"

#: Flink serialises by reflection; Java 17 wants to be told that it may.
JAVA_OPTIONS = ("-Xmx6g", *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util", "time")))


class PeerError(SituError):
    """The peer cannot be installed, compiled or run."""


def run(workload: Workload, cache: Path, parallelism: int = 2, say: Callable[[str], None] = print) -> PeerRun:
    """FlinkCEP on the workload's events; its clock runs from the submission of the job to its end.

    It is installed and compiled under `cache` when first asked for.
    """
    for tool in ("java", "javac"):
        if shutil.which(tool) is None:
            raise PeerError(f"FlinkCEP needs '{tool}'", remedy="Install a JDK 17, or leave --peer away.")
    home = cache / "peers" / "flinkcep"
    classpath = _compiled(home, _jars(home, say))
    arguments = [
        workload.events,
        parallelism,
        workload.pattern.value,
        workload.types,
        workload.window_ms,
        workload.keys,
    ]
    command = ["java", *JAVA_OPTIONS, "-cp", classpath, "FlinkCep", *map(str, arguments)]
    say(f"FlinkCEP reads {workload.events:,} events ...")
    # Flink logs at length on both outputs; the figures are the last line of the first.
    lines = _call(command, home / "log").strip().splitlines()
    try:
        figures = json.loads(lines[-1])
        return PeerRun("flinkcep", int(figures["events"]), int(figures["matches"]), float(figures["events_per_s"]))
    except (IndexError, KeyError, ValueError) as error:
        raise PeerError("FlinkCEP printed no figures", remedy=f"Its log: {home / 'log'}.") from error


def _jars(home: Path, say: Callable[[str], None]) -> list[Path]:
    """Flink's jars, from the package index into a virtual environment of their own."""
    environment = home / "venv"
    pattern = "lib/python3*/site-packages/pyflink/lib/*.jar"
    installed = environment / ".installed"
    if not installed.exists():
        say(f"Installing {PACKAGE} into {environment} (about 350 MB, once) ...")
        venv.create(environment, with_pip=True, clear=True)
        pip = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        _call([*pip, "install", "--quiet", "--no-deps", PACKAGE], home / "log")
        installed.touch()
    return sorted(environment.glob(pattern))


def _compiled(home: Path, jars: list[Path]) -> str:
    """The class path of the compiled FlinkCep.java; compiled again whenever its text changes."""
    classes = home / "classes"
    classpath = os.pathsep.join(map(str, [*jars, classes]))
    text = files("situ.bench").joinpath("FlinkCep.java")
    copy = classes / "FlinkCep.java"
    if not copy.exists() or copy.read_bytes() != text.read_bytes():
        classes.mkdir(parents=True, exist_ok=True)
        with as_file(text) as source:
            _call(["javac", "-cp", classpath, "-d", str(classes), str(source)], home / "log")
            shutil.copyfile(source, copy)
    return classpath


def _call(command: list[str], log: Path) -> str:
    """The standard output of a command; what it says on the other one is kept in `log`."""
    with log.open("w") as err:
        process = subprocess.run(command, stdout=subprocess.PIPE, stderr=err, text=True, check=False)
    if process.returncode:
        tail = "\n  ".join(log.read_text(errors="replace").strip().splitlines()[-5:])
        raise PeerError(
            f"'{Path(command[0]).name}' failed with code {process.returncode}", remedy=f"{tail}\n  Log: {log}."
        )
    return process.stdout
