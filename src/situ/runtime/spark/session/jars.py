"""Jars from Maven Central, fetched once into the user's cache.

By Ivy, which lies among PySpark's own jars: what runs Spark can fetch, and Maven is not needed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyspark

from situ.runtime.spark.session.errors import SparkError
from situ.runtime.spark.session.java import find_java

#: A dead network must not hold up anybody for ever.
FETCH_S = 300


def fetched(name: str, coordinates: Sequence[str], *, transitive: bool) -> list[Path]:
    """The jars of `group:artefact:version` and, if transitive, all that they need; SparkError if they cannot be had."""
    wanted = _ivy_file(coordinates, transitive)
    home = _cache() / f"{name}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent, prefix=".fetching-") as scratch:
            _fetch(name, wanted, Path(scratch))
            try:
                Path(scratch, "lib").rename(home)  # whole or not at all
            except OSError:
                if not home.exists():  # else another process was faster
                    raise
    return sorted(home.glob("*.jar"))


def _fetch(name: str, wanted: str, scratch: Path) -> None:
    Path(scratch, "ivy.xml").write_text(wanted, encoding="utf-8")
    ivy = next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"), None)
    if ivy is None:
        raise SparkError("PySpark's jars hold no Ivy to fetch others with")
    command: list[str | Path] = [find_java(os.environ).command, "-jar", ivy]
    command += ["-cache", scratch / "cache", "-ivy", scratch / "ivy.xml"]
    command += ["-types", "jar", "bundle", "-retrieve", f"{scratch}/lib/[artifact]-[revision].[ext]"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise SparkError(f"the jars of {name} were not fetched within {FETCH_S} s") from error
    if done.returncode or not Path(scratch, "lib").is_dir():
        shutil.rmtree(scratch / "lib", ignore_errors=True)
        missing = [line.strip(" \t:") for line in done.stdout.splitlines() if "not found" in line or "error" in line]
        raise SparkError(f"the jars of {name} cannot be fetched: {missing[-1] if missing else done.stderr[-300:]}")


def _ivy_file(coordinates: Sequence[str], transitive: bool) -> str:
    lines = []
    for coordinate in coordinates:
        group, artefact, version = coordinate.split(":")
        conf = "default->default" if transitive else "default->master"
        alone = "" if transitive else ' transitive="false"'
        lines.append(f'<dependency org="{group}" name="{artefact}" rev="{version}" conf="{conf}"{alone}/>')
    return (
        '<ivy-module version="2.0"><info organisation="situ" module="jars"/><configurations><conf name="default"/>'
        f"</configurations><dependencies>{''.join(lines)}</dependencies></ivy-module>\n"
    )


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "situ" / "jars"
