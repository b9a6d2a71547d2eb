"""Which Java Spark is started with, asked of commands that only pretend to be one."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from situ.runtime.spark.session.errors import SparkError
from situ.runtime.spark.session.java import Java, ask_version, find_java, java_for_spark, java_version, launcher_home

MakeJava = Callable[..., Path]

ANSWERS = {
    8: 'java version "1.8.0_392"',
    11: 'openjdk version "11.0.22" 2024-01-16',
    17: 'Picked up JAVA_TOOL_OPTIONS: -Dversion=9\nopenjdk version "17.0.15" 2025-04-15',
    21: 'openjdk version "21-ea" 2023-09-19',
    25: 'openjdk version "25.0.2" 2026-01-20 LTS',
}


@pytest.fixture
def make_java(tmp_path: Path) -> MakeJava:
    """make_java("home", 17): a command home/bin/java that says it is Java 17, or fails without a version."""

    def make(home: str, version: int | None) -> Path:
        command = tmp_path / home / "bin" / "java"
        command.parent.mkdir(parents=True)
        answer = f"cat >&2 <<'END'\n{ANSWERS[version]}\nEND\n" if version else "echo get Java at ... >&2\nexit 1\n"
        command.write_text("#!/bin/sh\n" + answer)
        command.chmod(0o755)
        return command

    return make


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache directory."""
    directory = tmp_path / "cache"
    directory.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(directory))
    return directory


def nothing_packaged() -> None:
    return None


@pytest.mark.parametrize(("version", "answer"), ANSWERS.items())
def test_the_version_is_read_from_what_java_prints(version: int, answer: str) -> None:
    assert java_version(answer) == version


def test_an_answer_without_a_version() -> None:
    assert java_version("The operation couldn't be completed. Unable to locate a Java Runtime.") is None


def test_java_home_comes_before_the_path(make_java: MakeJava) -> None:
    home, path = make_java("home", 21), make_java("path", 17)
    environ = {"JAVA_HOME": str(home.parents[1]), "PATH": str(path.parent)}
    assert find_java(environ, nothing_packaged) == Java(home, 21)
    environ["JAVA_HOME"] = ""
    assert find_java(environ, nothing_packaged) == Java(path, 17)


def test_an_old_java_on_the_path_is_passed_over(make_java: MakeJava) -> None:
    packaged = make_java("packaged", 25)
    for home, version in (("eleven", 11), ("none", None)):
        environ = {"PATH": str(make_java(home, version).parent)}
        assert find_java(environ, lambda: packaged) == Java(packaged, 25)


def test_a_packaged_java_serves_where_there_is_no_other(make_java: MakeJava, tmp_path: Path) -> None:
    packaged = make_java("packaged", 25)
    assert find_java({"PATH": str(tmp_path)}, lambda: packaged) == Java(packaged, 25)


def test_an_old_java_home_is_an_error_even_with_a_packaged_java(make_java: MakeJava) -> None:
    old, packaged = make_java("old", 11), make_java("packaged", 25)
    with pytest.raises(SparkError) as raised:
        find_java({"JAVA_HOME": str(old.parents[1])}, lambda: packaged)
    assert raised.value.place == str(old)
    assert "Java 17 or newer" in raised.value.cause
    assert "is Java 11" in raised.value.cause
    assert "unset it" in raised.value.remedy


def test_a_java_home_without_a_java(tmp_path: Path) -> None:
    with pytest.raises(SparkError, match="no Java in it") as raised:
        find_java({"JAVA_HOME": str(tmp_path / "gone")}, nothing_packaged)
    assert raised.value.place == str(tmp_path / "gone" / "bin" / "java")


def test_no_java_at_all(tmp_path: Path) -> None:
    with pytest.raises(SparkError, match="there is none") as raised:
        find_java({"PATH": str(tmp_path)}, nothing_packaged)
    assert "pip install 'situ[spark]'" in raised.value.remedy


def test_only_an_old_java(make_java: MakeJava) -> None:
    old = make_java("old", 8)
    with pytest.raises(SparkError, match="is Java 8") as raised:
        find_java({"PATH": str(old.parent)}, nothing_packaged)
    assert raised.value.place == str(old)
    assert "pip install 'situ[spark]'" in raised.value.remedy


def test_a_packaged_java_that_does_not_run_here(make_java: MakeJava, tmp_path: Path) -> None:
    packaged = make_java("packaged", None)
    with pytest.raises(SparkError, match="does not say its version"):
        find_java({"PATH": str(tmp_path)}, lambda: packaged)


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "java").write_text("not a program")
    assert ask_version(tmp_path / "java") == Java(tmp_path / "java", None)


def test_the_launcher_drops_what_java_lacks_and_nothing_else(tmp_path: Path, cache: Path) -> None:
    command = tmp_path / "a java's home" / "java"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\nfor argument in "$@"; do echo "<$argument>"; done\n')
    command.chmod(0o755)
    vector, action = "--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    arguments = ["-Xmx1g", vector, "-Da=b c", "", action, "--add-modules=java.sql", "$HOME", "*", "a | b"]
    for version, dropped in ((17, {vector}), (25, {vector, action})):
        launcher = launcher_home(Java(command, version)) / "bin" / "java"
        done = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == [f"<{argument}>" for argument in arguments if argument not in dropped]


def test_the_launcher_is_its_owners_alone(make_java: MakeJava, cache: Path) -> None:
    java = Java(make_java("home", 17), 17)
    home = launcher_home(java)
    launcher = home / "bin" / "java"
    assert home.parent == cache / "situ"
    assert [path.stat().st_mode & 0o777 for path in (home, home / "bin", launcher)] == [0o700] * 3
    written = launcher.stat().st_ino
    assert launcher_home(java) == home
    assert launcher.stat().st_ino == written  # not again
    launcher.write_text("#!/bin/sh\necho something else\n")
    assert ask_version(launcher_home(java) / "bin" / "java").version == 17


def test_every_java_has_a_launcher_of_its_own(make_java: MakeJava, cache: Path) -> None:
    homes = {launcher_home(Java(make_java(f"home{version}", version), version)) for version in (17, 21)}
    assert {ask_version(home / "bin" / "java").version for home in homes} == {17, 21}


def test_a_cache_that_others_may_write_to_is_not_used(make_java: MakeJava, cache: Path) -> None:
    java = Java(make_java("home", 17), 17)
    home = launcher_home(java)
    home.chmod(0o777)
    other = launcher_home(java)
    assert other != home
    assert other.stat().st_mode & 0o777 == 0o700
    assert ask_version(other / "bin" / "java").version == 17


def test_a_cache_that_cannot_be_written(make_java: MakeJava, cache: Path) -> None:
    (cache / "situ").write_text("a file, where a directory is to be")
    home = launcher_home(Java(make_java("home", 21), 21))
    assert ask_version(home / "bin" / "java").version == 21


def test_java_home_is_set_only_while_spark_starts(make_java: MakeJava, cache: Path) -> None:
    command = make_java("home", 17)
    environ = {"PATH": f"{command.parent}:{os.environ['PATH']}"}
    with java_for_spark(environ) as java:
        assert java == Java(command, 17)
        assert environ["JAVA_HOME"] == str(launcher_home(Java(command, 17)))
    assert "JAVA_HOME" not in environ
    environ["JAVA_HOME"] = str(command.parents[1])
    with java_for_spark(environ):
        assert environ["JAVA_HOME"] == str(launcher_home(Java(command, 17)))
    assert environ["JAVA_HOME"] == str(command.parents[1])


PROGRAM = """
import os
import sys

from situ.runtime.spark.session.java import find_java, packaged_java
from situ.runtime.spark.session.session import borrowed_session, running_session


def workers(batches):
    import pyarrow as pa

    for _ in batches:
        has_situ = "situ.runtime.spark.stages.batch_stage" in sys.modules
        yield pa.RecordBatch.from_pydict({"python": [sys.executable], "has_situ": [has_situ]})


assert find_java(os.environ).command == packaged_java()
with borrowed_session("local[1]") as session:
    (worker,) = session.range(1).mapInArrow(workers, "python string, has_situ boolean").collect()
    assert worker.python == sys.executable
    assert worker.has_situ
assert running_session() is None
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.storm
def test_spark_starts_and_stops_without_a_word_on_the_packaged_java(tmp_path: Path) -> None:
    """With no other in sight: a PATH that has everything that Spark's shell scripts call, but no java."""
    tools, cache, here = (tmp_path / name for name in ("tools", "cache", "here"))
    for folder in (tools, cache, here):
        folder.mkdir()
    for directory in ("/usr/bin", "/bin"):
        for tool in Path(directory).iterdir():
            if not tool.name.startswith("java") and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ |= {
        "PATH": str(tools),
        "XDG_CACHE_HOME": str(cache),
        "PYTHONPATH": str(Path(__file__).parents[3] / "src"),
    }
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=here, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(here.iterdir()) == []
