"""PaNORAMA's experiments, again (section 7): its figures 9, 10 and 11, with our curves beside its claims."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from situ.core.errors import InputError, did_you_mean
from situ.lab.panorama.experiments import claims
from situ.lab.panorama.experiments.claims import Judge, Part, verdict
from situ.lab.panorama.experiments.measure import HERE, TOPOLOGIES, Row, measured
from situ.lab.panorama.experiments.sweeps import FULL, QUICK, Scale, Sweep, sweeps
from situ.lab.panorama.experiments.table import Curve, Metric, curves
from situ.lab.pictures import Panel, check_can_draw, draw_boxes, draw_curves

LABELS: dict[Metric, str] = {
    "factor": "transmission factor",
    "discovered": "plans discovered",
    "seconds": "plan time, s",
    "proximity": "cost of the optimum / cost",
}


@dataclass(frozen=True, slots=True)
class Picture:
    """One of the paper's figures: which of the values of a sweep it shows, and what the paper says of it."""

    title: str
    sweep: str
    metric: Metric
    judge: Judge
    log_x: bool = False
    log_y: bool = False


PICTURES = {
    "9a": Picture("How far apart the sources of an event are", "diameter", "factor", claims.diameter),
    "9b": Picture("How skewed the rate of an event is", "skew", "factor", claims.skew, log_x=True),
    "9c": Picture("Windows", "window", "factor", claims.window, log_x=True),
    "10a": Picture("Plans discovered within a latency limit", "latency", "discovered", claims.discovery),
    "10b": Picture("Cost within a latency limit", "latency", "factor", claims.limits),
    "10c": Picture("Chains of complex events", "chain", "factor", claims.chain),
    "10d": Picture("Time to plan", "sites", "seconds", claims.plan_time, log_x=True, log_y=True),
    "10e": Picture("Proximity to the optimum", "sites", "proximity", claims.proximity(0.81, 0.97), log_x=True),
    "10f": Picture("Many runs", "runs", "factor", claims.spread),
    "11a": Picture(
        "Fraud: plans discovered within a latency limit", "fraud latency", "discovered", claims.fraud_discovery
    ),
    "11b": Picture("Fraud: cost within a latency limit", "fraud latency", "factor", claims.fraud_limits),
    "11c": Picture(
        "Fraud: proximity to the optimum", "fraud sites", "proximity", claims.proximity(0.89, 0.94), log_x=True
    ),
    "11d": Picture("Fraud: growing networks", "fraud scale", "factor", claims.fraud_scale, log_x=True),
}

#: Called after each case: how many are done, of how many, and what is tried.
Say = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Result:
    """A picture's curves, on antennas and on real topologies, and what they say of the paper's claim."""

    name: str
    picture: Picture
    sweep: Sweep
    here: dict[str, Curve]
    real: dict[str, Curve]
    topologies: dict[float, str]  # by their x, where that is the number of their sites
    parts: list[Part]


def chosen(names: Sequence[str]) -> list[str]:
    """The figures that are asked for; all of them where none is.

    >>> chosen(["10c", "9a"])
    ['9a', '10c']
    """
    for name in names:
        if name not in PICTURES:
            raise InputError(f"PaNORAMA has no Figure {name!r}", remedy=did_you_mean(name, PICTURES))
    return [name for name in PICTURES if name in names or not names]


def run(out: Path, names: Sequence[str], seed: int, quick: bool, say: Say) -> list[Result]:
    """Runs the experiments of some figures and writes pictures, figures and a report into a directory."""
    check_can_draw()
    wanted = {name: PICTURES[name] for name in chosen(names)}
    scale = QUICK if quick else FULL
    tried = {name: sweep for name, sweep in sweeps(scale).items() if any(p.sweep == name for p in wanted.values())}
    out.mkdir(parents=True, exist_ok=True)
    rows = _rows(tried, seed, say)
    results = [_result(name, picture, tried[picture.sweep], rows[picture.sweep]) for name, picture in wanted.items()]
    for result in results:
        _draw(result, out / f"{result.name}.png", scale)
    _write_csv(out / "panorama.csv", rows)
    (out / "panorama.json").write_text(json.dumps([to_json(result) for result in results], indent=1) + "\n")
    (out / "panorama.md").write_text(_report(results, scale, seed))
    return results


def _rows(tried: dict[str, Sweep], seed: int, say: Say) -> dict[str, list[Row]]:
    total, done = sum(sweep.size for sweep in tried.values()), 0
    rows: dict[str, list[Row]] = {}
    for name, sweep in tried.items():
        # Kernels are compiled, or loaded, before anything is timed.
        measured(sweep.real[0], seed, sweep.mechanisms)
        rows[name] = []
        for setting, number in sweep.runs(seed):
            say(done, total, name)
            rows[name] += measured(setting, number, sweep.mechanisms)
            done += 1
    say(total, total, "")
    return rows


def _result(name: str, picture: Picture, sweep: Sweep, rows: Sequence[Row]) -> Result:
    here, real = curves(rows, picture.metric, "antennas"), curves(rows, picture.metric, "real")
    names = {
        row.x: f"{row.network}\n{row.x:g} sites" for row in sorted(rows, key=lambda row: row.x) if row.network != HERE
    }
    return Result(name, picture, sweep, here, real, names, picture.judge(here, real))


def _draw(result: Result, out: Path, scale: Scale) -> None:
    picture, label = result.picture, result.sweep.label
    over_sites = label == "sites"
    panels = [
        Panel("antennas" if over_sites else f"antennas, {scale.sites} sites", result.here, label),
        Panel(
            "five real topologies", result.real, "" if over_sites else label, result.topologies if over_sites else {}
        ),
    ]
    y_label = LABELS[picture.metric]
    if label:
        draw_curves(panels, out, y_label=y_label, log_x=picture.log_x, log_y=picture.log_y)
    else:
        draw_boxes(panels, out, y_label=y_label)


# ---- what is written


def _write_csv(path: Path, rows: dict[str, list[Row]]) -> None:
    """All plans of all sweeps, one a line."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sweep", *(field.name for field in fields(Row))])
        for sweep, found in rows.items():
            writer.writerows([sweep, *asdict(row).values()] for row in found)


def to_json(result: Result) -> dict[str, Any]:
    def shown(found: dict[str, Curve]) -> dict[str, Any]:
        return {name: {"x": list(curve.x), "mean": curve.mean.tolist()} for name, curve in found.items()}

    return {
        "figure": result.name,
        "title": result.picture.title,
        "metric": result.picture.metric,
        "verdict": verdict(result.parts),
        "claims": [asdict(part) for part in result.parts],
        "antennas": shown(result.here),
        "real": shown(result.real),
    }


def _report(results: Sequence[Result], scale: Scale, seed: int) -> str:
    """Markdown: a picture each, the paper's claim, what we see, whether it holds."""
    lines = [
        "# PaNORAMA's experiments, again",
        "",
        f"Networks of {scale.sites} antennas unless sites are what is varied, {scale.cases} cases for each value "
        f"({scale.runs} in Figure 10f), from seed {seed}; and {', '.join(path.stem for path in TOPOLOGIES)}, "
        f"{scale.real_cases} cases together. Latency limit 3 times the naive plan's unless it is what is varied. "
        "Curves are means over cases. Costs are those of the model `coverage`, pull requests included. A mechanism "
        "that finds no plan within the limit uses the naive one (transmission factor 1).",
        "",
        "| figure | | the paper's claim |",
        "| --- | --- | --- |",
        *(f"| [{r.name}](#figure-{r.name}) | {r.picture.title} | {verdict(r.parts)} |" for r in results),
    ]
    for result in results:
        lines += ["", f"## Figure {result.name}", "", f"{result.picture.title}: {verdict(result.parts)}.", ""]
        lines += [f"![Figure {result.name}]({result.name}.png)", ""]
        lines += ["| the paper says | we see | |", "| --- | --- | --- |"]
        lines += [f"| {p.claim} | {p.seen} | {'yes' if p.holds else 'no'} |" for p in result.parts]
    return "\n".join(lines) + "\n"
