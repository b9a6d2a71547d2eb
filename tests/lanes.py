"""What `make test` runs: steps, five of them side by side.

Each step is a command. Whichever of five lanes is free takes the next step of the list, so those that take long come
first. What needs the kernel waits until one step has compiled it, so that it is compiled once; the checks of types,
the kernel's tests without the JIT and those of the language run meanwhile. All tests of Spark are one step, which so
starts one Java. Two cores have time for five lanes: tests of Spark and of sites often wait for other processes. The
tests of Spark take longest, so they, and the kernel for which they wait, go first wherever two steps want a core.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

LANES = 5
#: By how much steps that are not urgent are nicer.
NICER = 10
#: What `make storms`, `make kills`, `make sparks` and `make cluster` run.
LEFT_OUT = "not storm and not kills and not environments"
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
#: What needs no kernel.
LANGUAGE = ("tests/lang", "tests/graph", "tests/core")
#: What needs it: a step each, and one for all that is named here not at all.
SITES = ("tests/runtime/sites",)
#: Those of its files that have sites simulated from seeds. They take as long as all others, which wait for processes.
SITE_STORMS = tuple(
    f"tests/runtime/sites/test_{name}.py" for name in ("storms", "spark_storms", "mutations", "brokers", "adapting")
)
CONFORMANCE = ("tests/conformance",)
ENGINES = ("tests/flow", "tests/runtime")
PLANS = ("tests/placement", "tests/network", "tests/mobility")


@dataclass(frozen=True, slots=True)
class Step:
    """A command with its own environment. `counts`: its last line says how many tests passed. It waits for the end of
    `after`. All others make way for one that is `urgent`."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    counts: bool = False
    after: Step | None = None
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """A step that has ended: with which code, after how long, and its last line."""

    step: Step
    code: int
    seconds: float
    last_line: str


def tool(name: str, *arguments: str) -> Step:
    return Step(name, (str(BIN / name), *arguments))


def pytest_step(name: str, which: str, *where: str, after: Step | None = None, **environment: str) -> Step:
    command = sys.executable, "-m", "pytest", *where, "-m", f"{which} and {LEFT_OUT}"
    return Step(name, command, environment, counts=True, after=after)


def ignoring(*folders: str) -> list[str]:
    return [f"--ignore={folder}" for folder in folders]


def files_with_spark() -> list[str]:
    """The files that speak of Spark: to look for its tests in all files would take as long as ten of them."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if "spark" in file.read_text(encoding="utf-8").lower()]


def steps() -> list[Step]:
    """In the order in which they begin."""
    compiling = "import sys; sys.path.insert(0, 'tests'); from conformance.golden import snapshots; snapshots()"
    kernel = Step("kernel", (sys.executable, "-c", compiling), urgent=True)
    spark = pytest_step("Spark", "spark", *files_with_spark(), after=kernel)
    with_kernel = (*SITES, *CONFORMANCE, *ENGINES, *PLANS)
    return [
        kernel,
        pytest_step("no JIT", "not spark and not slow and not jit_only", *WITHOUT_JIT, NUMBA_DISABLE_JIT="1"),
        tool("mypy"),
        pytest_step("language", "not spark", *LANGUAGE),
        replace(spark, urgent=True),
        pytest_step("others", "not spark", "tests", "src", *ignoring(*LANGUAGE, *with_kernel), after=kernel),
        pytest_step("site storms", "not spark", *SITE_STORMS, after=kernel),
        pytest_step("sites", "not spark", *SITES, *ignoring(*SITE_STORMS), after=kernel),
        pytest_step("conformance", "not spark", *CONFORMANCE, after=kernel),
        pytest_step("plans", "not spark", *PLANS, after=kernel),
        pytest_step("engines", "not spark", *ENGINES, *ignoring(*SITES), after=kernel),
        tool("ruff", "check"),
        tool("ruff", "format", "--check"),
        tool("lint-imports"),
    ]


class Lanes:
    """Runs steps side by side; `ended` has those that have ended, in the order in which they did."""

    def __init__(self, steps: list[Step]) -> None:
        self.ended: list[Ended] = []
        self._waiting = list(steps)
        self._changed = threading.Condition()

    def run(self) -> None:
        lanes = [threading.Thread(target=self._lane) for _ in range(LANES)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()

    def _lane(self) -> None:
        while (step := self._next()) is not None:
            ended = self._ran(step)
            with self._changed:
                self.ended.append(ended)
                self._changed.notify_all()

    def _next(self) -> Step | None:
        """The first step that waits for none; None if all have begun."""
        with self._changed:
            while self._waiting:
                over = {None, *(id(one.step) for one in self.ended)}
                for step in self._waiting:
                    if (step.after and id(step.after)) in over:
                        self._waiting.remove(step)
                        return step
                self._changed.wait()
            return None

    def _ran(self, step: Step) -> Ended:
        """Every line of its output begins with its name."""
        begin = time.monotonic()
        process = subprocess.Popen(
            step.command if step.urgent else ("nice", "-n", str(NICER), *step.command),
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
            with self._changed:
                print(f"{step.name:11} | {line.rstrip()}", flush=True)
            last_line = line.rstrip() or last_line
        return Ended(step, process.wait(), time.monotonic() - begin, last_line)


def closing(ended: list[Ended]) -> list[str]:
    """What took how long and what failed; then pytest's own counts."""
    lines = [f"{one.seconds:6.0f} s  {one.step.name}{'' if one.code == 0 else '  FAILED'}" for one in ended]
    return [*lines, *(one.last_line for one in ended if one.step.counts)]


def main(of_steps: list[Step]) -> int:
    lanes = Lanes(of_steps)
    lanes.run()
    print("\n".join(closing(lanes.ended)))
    return 0 if all(one.code == 0 for one in lanes.ended) else 1


if __name__ == "__main__":
    sys.exit(main(steps()))
