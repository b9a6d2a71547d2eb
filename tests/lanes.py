"""What `make test` runs: four lanes of commands, side by side.

One lane has all tests of Spark, in one process, which so starts one Java. One has the kernel's tests without the JIT,
then those of plans, of moving queries and of sites. One has the checks of types, then the tests of the engines. The
last one has lint and all other tests, those of the language first. While the others do what needs no kernel, the first
one compiles it, so that little is compiled twice. Two cores have time for four lanes: tests of Spark and of sites often
wait for other processes. The lane of Spark is the longest, and what it compiles the others want, so it goes first
wherever two lanes want a core.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

#: What `make storms`, `make kills`, `make sparks` and `make cluster` run.
LEFT_OUT = "not storm and not kills and not environments"
#: The lane that decides how long all takes, and by how much the others are nicer to it.
LONGEST, NICER = "spark", 10
#: Kernels, and what is built on them.
WITHOUT_JIT = (
    *("tests/kernel", "tests/space", "tests/conformance/test_random_queries.py"),
    *(
        "tests/flow/test_flow.py",
        "tests/runtime/test_selections.py",
        "tests/runtime/sites/test_protocol.py",
        "tests/mobility/test_monitor.py",
        "tests/mobility/test_quality_corners.py",
    ),
    *("tests/network/test_ways.py", "tests/placement/test_fronts.py"),
)


#: What the second lane runs after them.
APART = ("tests/placement", "tests/network", "tests/mobility", "tests/runtime/sites")
#: What the third lane runs.
ENGINES = ("tests/flow", "tests/conformance", "tests/runtime")
#: What the fourth lane runs before the rest: it needs no kernel.
OF_THE_LANGUAGE = ("tests/lang", "tests/graph", "tests/core")


@dataclass(frozen=True, slots=True)
class Step:
    """A command with its own environment. `counts`: its last line says how many tests passed."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """A step that has ended: with which code, after how long, and its last line."""

    step: Step
    code: int
    seconds: float
    last_line: str


def pytest_step(name: str, *arguments: str, **environment: str) -> Step:
    return Step(name, (sys.executable, "-m", "pytest", *arguments), environment, counts=True)


def tool(name: str, *arguments: str) -> Step:
    return Step(" ".join((name, *arguments)), (str(BIN / name), *arguments))


def files_with_spark() -> list[str]:
    """The files that speak of Spark: to look for its tests in all files would take as long as ten of them."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if "spark" in file.read_text(encoding="utf-8").lower()]


def lanes() -> dict[str, list[Step]]:
    """The steps of each lane, in order."""
    compiling = "import sys; sys.path.insert(0, 'tests'); from conformance.golden import snapshots; snapshots()"
    files = sorted(str(path.relative_to(ROOT)) for pattern in WITHOUT_JIT for path in ROOT.glob(pattern))
    return {
        "spark": [
            Step("the kernel is compiled", (sys.executable, "-c", compiling)),
            pytest_step("tests of Spark", *files_with_spark(), "-m", f"spark and {LEFT_OUT}"),
        ],
        "apart": [
            pytest_step(
                "kernels without the JIT",
                *files,
                "-m",
                f"not spark and not slow and not jit_only and {LEFT_OUT}",
                NUMBA_DISABLE_JIT="1",
            ),
            pytest_step("tests of plans, moving queries and sites", *APART, "-m", f"not spark and {LEFT_OUT}"),
        ],
        "engines": [
            tool("mypy"),
            pytest_step(
                "tests of engines", *ENGINES, "--ignore=tests/runtime/sites", "-m", f"not spark and {LEFT_OUT}"
            ),
        ],
        "others": [
            tool("ruff", "check"),
            tool("ruff", "format", "--check"),
            tool("lint-imports"),
            pytest_step(
                "all other tests",
                *(*OF_THE_LANGUAGE, "tests", "src"),
                *(f"--ignore={folder}" for folder in (*APART, *ENGINES)),
                "-m",
                f"not spark and {LEFT_OUT}",
            ),
        ],
    }


def run(lane: str, steps: list[Step], ended: list[Ended], printing: threading.Lock) -> None:
    """Runs the steps up to the first one that fails; every line of theirs begins with the lane's name."""
    for step in steps:
        _say(printing, lane, f"--- {step.name}")
        begin = time.monotonic()
        process = subprocess.Popen(
            step.command if lane == LONGEST else ("nice", "-n", str(NICER), *step.command),
            cwd=ROOT,
            env=os.environ | step.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert process.stdout is not None
        last_line = ""
        for line in process.stdout:
            _say(printing, lane, line.rstrip())
            last_line = line.rstrip() or last_line
        ended.append(Ended(step, process.wait(), time.monotonic() - begin, last_line))
        if ended[-1].code != 0:
            return


def _say(printing: threading.Lock, lane: str, line: str) -> None:
    with printing:
        print(f"{lane:7} | {line}", flush=True)


def closing(ended: list[Ended]) -> list[str]:
    """What took how long and what failed; then pytest's own counts."""
    lines = [f"{one.seconds:6.0f} s  {one.step.name}{'' if one.code == 0 else '  FAILED'}" for one in ended]
    return [*lines, *(one.last_line for one in ended if one.step.counts)]


def run_side_by_side(of_lanes: dict[str, list[Step]]) -> list[Ended]:
    """Runs all lanes to their ends; what ended, in the order in which it did."""
    ended: list[Ended] = []
    printing = threading.Lock()
    threads = [threading.Thread(target=run, args=(lane, steps, ended, printing)) for lane, steps in of_lanes.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


def main(of_lanes: dict[str, list[Step]]) -> int:
    ended = run_side_by_side(of_lanes)
    print("\n".join(closing(ended)))
    return 0 if all(one.code == 0 for one in ended) else 1


if __name__ == "__main__":
    sys.exit(main(lanes()))
