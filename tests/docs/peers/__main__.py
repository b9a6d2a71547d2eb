"""Asks the other systems of docs/coming-from.md for the rows that the page says.

From the folder `tests`, with a JDK 17, Maven and the network: `../.venv/bin/python -m docs.peers [flinkcep ...]`.
It is no test: it loads some 700 MB of jars. Run it when a block in another system's language changes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from docs.markdown import blocks
from docs.test_coming_from import PAGE, PATTERNS, Pattern
from situ.bench.flinkcep import JAVA_OPTIONS, _jars

HERE = Path(__file__).parent
CACHE = Path("~/.cache/situ").expanduser()
MAVEN = {
    "esper": ["com.espertech:esper-compiler:8.9.0", "com.espertech:esper-runtime:8.9.0"],
    "trino": ["io.trino:trino-main:430"],
}
#: What the SQL standard says, and Flink SQL does not: alternatives and anchors.
NOT_IN_FLINK_SQL = {"3"}


def main(peers: list[str]) -> int:
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        events = Path(scratch, "events.csv")
        events.write_text(events_as_csv(), encoding="utf-8")
        for peer in peers or ["flinkcep", "flinksql", "esper", "trino"]:
            ask = PEERS[peer](Path(scratch), events)
            for pattern in PATTERNS:
                found = ask(pattern)
                if found is not None:
                    # Not all of them give the time at which an absence is known, the last column.
                    columns = len(found[0].split()) if found else 0
                    expected = [" ".join(row.split()[:columns]) for row in pattern.expected]
                    wrong += found != expected
                    print(peer, pattern, "as the page says" if found == expected else f"gives {found}")
    return wrong


def events_as_csv() -> str:
    """account, kind, amount, milliseconds since midnight; in order of time, as Esper needs them."""
    rows = re.findall(r'\("(\w+)", "(\w+)", ([\w.]+), at\((\d+)\)\)', blocks(PAGE, "python")[0].text)
    events = sorted((int(minute), account, kind, amount) for account, kind, amount, minute in rows)
    return "".join(
        f"{account},{kind},{'' if amount == 'None' else amount},{(600 + minute) * 60_000}\n"
        for minute, account, kind, amount in events
    )


Ask = Callable[[Pattern], list[str] | None]


def flinkcep(scratch: Path, events: Path) -> Ask:
    helpers = next(block.text for block in blocks(PAGE, "java"))
    cases = [f"case {pattern}: return {pattern.blocks['java'].text};" for pattern in PATTERNS]
    source = (HERE / "FlinkCepPeer.java").read_text(encoding="utf-8")
    source = source.replace("//HELPERS", helpers).replace("//PATTERNS", "\n".join(cases))
    run = compiled(scratch, "FlinkCepPeer", source, flink_jars())
    return lambda pattern: run(events, str(pattern))


def flinksql(scratch: Path, events: Path) -> Ask:
    run = compiled(scratch, "FlinkSqlPeer", None, flink_jars())
    return lambda pattern: None if str(pattern) in NOT_IN_FLINK_SQL else standard(run, pattern, scratch, events)


def trino(scratch: Path, events: Path) -> Ask:
    run = compiled(scratch, "TrinoPeer", None, maven_jars("trino"))
    return lambda pattern: standard(run, pattern, scratch, events)


def esper(scratch: Path, events: Path) -> Ask:
    run = compiled(scratch, "EsperPeer", None, maven_jars("esper"))

    def ask(pattern: Pattern) -> list[str]:
        query = scratch / "query.epl"
        query.write_text(pattern.blocks["epl"].text, encoding="utf-8")
        return run(events, query, ",".join(re.findall(r" as (\w+)[,\n]", pattern.blocks["epl"].text)))

    return ask


PEERS: dict[str, Callable[[Path, Path], Ask]] = {
    "flinkcep": flinkcep,
    "flinksql": flinksql,
    "esper": esper,
    "trino": trino,
}


def standard(run: Callable[..., list[str]], pattern: Pattern, scratch: Path, events: Path) -> list[str] | None:
    if pattern.match_recognize is None:
        return None
    query = scratch / "query.sql"
    query.write_text(pattern.match_recognize.text, encoding="utf-8")
    return run(events, query)


def flink_jars() -> list[Path]:
    home = CACHE / "peers" / "flinkcep"
    home.mkdir(parents=True, exist_ok=True)
    return _jars(home, print)


def maven_jars(peer: str) -> list[Path]:
    home = CACHE / "peers" / peer
    if not (home / "lib").exists():
        home.mkdir(parents=True, exist_ok=True)
        names = [coordinates.split(":") for coordinates in MAVEN[peer]]
        dependencies = "".join(
            f"<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version></dependency>"
            for g, a, v in names
        )
        (home / "pom.xml").write_text(
            f'<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>situ'
            f"</groupId><artifactId>{peer}</artifactId><version>1</version><dependencies>{dependencies}</dependencies>"
            f"</project>",
            encoding="utf-8",
        )
        command = ["mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        subprocess.run(command, cwd=home, check=True)
    return sorted((home / "lib").glob("*.jar"))


def compiled(scratch: Path, name: str, source: str | None, jars: list[Path]) -> Callable[..., list[str]]:
    """A Java program, as a function of its arguments that gives its rows, sorted."""
    file = scratch / f"{name}.java"
    file.write_text(source or (HERE / file.name).read_text(encoding="utf-8"), encoding="utf-8")
    classpath = os.pathsep.join(map(str, [*jars, scratch]))
    subprocess.run(["javac", "-cp", classpath, "-d", str(scratch), str(file)], check=True)

    def run(*arguments: object) -> list[str]:
        command = ["java", *JAVA_OPTIONS, "-cp", classpath, name, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
        rows = [line.removeprefix("row ") for line in done.stdout.splitlines() if line.startswith("row ")]
        return sorted(rows)

    return run


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
