"""How the time of a query on Spark grows: with events, keys, the length of its window, and on one core or two.

`python -m situ.bench.spark_growth` measures and draws it; the files of 64 million events take a gigabyte of the cache.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from situ.bench.measure import WARM_RUNS
from situ.bench.sections import Say
from situ.bench.sections import main as show
from situ.bench.spark import time_on_spark
from situ.bench.suite import BenchFigure
from situ.bench.workload import Workload, cache_directory, query_text, stream_on_disk
from situ.runtime.spark.inputs.own_files import SETTING
from situ.runtime.spark.session.session import borrowed_session

PICTURE = Path("out/spark-growth.png")
#: How files are read, and what pictures call it.
WAYS = {"slices": "own source", "spark": "DataFrame"}
CORES = (1, 2)


@dataclass(frozen=True, slots=True)
class Axis:
    """What is varied, and the workloads with their values; every event matters in all of them."""

    name: str
    values: tuple[int, ...]
    workloads: tuple[Workload, ...]


@dataclass(frozen=True, slots=True)
class GrowthLine:
    """The seconds of a way to read files, on so many cores, at each value of an axis."""

    axis: Axis
    way: str
    cores: int
    seconds: tuple[float, ...]


_MILLIONS = (1_000_000, 2_000_000, 4_000_000, 8_000_000, 16_000_000, 32_000_000, 64_000_000)
_KEYS = (10, 1_000, 100_000, 1_000_000)
_WINDOWS_S = (1, 10, 100, 1_000, 4_000)
AXES = (
    Axis("events", _MILLIONS, tuple(Workload(types=3, events=n) for n in _MILLIONS)),
    Axis("keys", _KEYS, tuple(Workload(types=3, keys=n) for n in _KEYS)),
    Axis("window, s", _WINDOWS_S, tuple(Workload(types=3, window_ms=1_000 * n) for n in _WINDOWS_S)),
)


def measured_lines(say: Say, axes: Sequence[Axis] = AXES, cores: Sequence[int] = CORES) -> Iterator[GrowthLine]:
    """Measures each axis in both ways, in a session for each number of cores; the fastest of the warm runs."""
    for count in cores:
        with borrowed_session(f"local[{count}]") as spark:
            run = time_on_spark(spark)
            for axis in axes:
                for way, shown in WAYS.items():
                    say(f"{axis.name}, {shown}, {count} cores")
                    spark.conf.set(SETTING, way)
                    best = []
                    for workload in axis.workloads:
                        text, directory = query_text(workload), stream_on_disk(workload, cache_directory())
                        _, *warm = (run(text, directory).seconds for _ in range(1 + WARM_RUNS))
                        best.append(min(warm))
                    yield GrowthLine(axis, way, count, tuple(best))


def growth(say: Say) -> Iterator[BenchFigure]:
    """A figure for each line, and the picture."""
    lines = []
    for line in measured_lines(say):
        lines.append(line)
        by_value = ", ".join(f"{v:,}: {s:.2f} s" for v, s in zip(line.axis.values, line.seconds, strict=True))
        name = f"spark: next, 3 types by {line.axis.name}, {WAYS[line.way]}, {line.cores} cores"
        yield BenchFigure(name, round(line.seconds[-1], 2), "s", by_value, {"seconds": line.seconds})
    PICTURE.parent.mkdir(exist_ok=True)
    draw(lines, PICTURE)


def draw(lines: Sequence[GrowthLine], path: Path) -> None:
    """A panel for each axis, a line for each way and number of cores."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    axes = list(dict.fromkeys(line.axis for line in lines))
    figure, panels = pyplot.subplots(1, len(axes), figsize=(4 * len(axes), 4), layout="constrained", squeeze=False)
    for axis, panel in zip(axes, panels[0], strict=True):
        for line in (line for line in lines if line.axis == axis):
            colour, style = {"slices": "tab:blue", "spark": "tab:orange"}[line.way], {1: ":", 2: "-"}.get(line.cores)
            label = f"{WAYS[line.way]}, {line.cores} core{'s' * (line.cores > 1)}"
            panel.plot(axis.values, line.seconds, marker="o", markersize=3, color=colour, linestyle=style, label=label)
        panel.set(xscale="log", yscale="log", xlabel=axis.name, ylabel="seconds")
    panels[0][0].legend()
    figure.suptitle("next with 3 types on Spark: 8 million events, 1,000 keys and 1,000 s where nothing else is said")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


SECTIONS = {"growth": growth}

if __name__ == "__main__":
    sys.exit(show(__doc__, SECTIONS))
