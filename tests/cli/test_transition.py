"""`situ transition` with sites that run: here in threads of this process."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from cli.command import situ
from cli.test_running_sites import CONTROL, Running, found, push, running, write_plan  # noqa: F401 (a fixture)
from situ.cli.site_options import ControlOptions, TransitionOptions
from situ.cli.transition import TransitionResult, transition_of
from situ.runtime.sites.process.site_metrics import site_metrics

pytestmark = pytest.mark.jit_only

QUERY = """
stream Ping(n int, ts int) time ts in s
subscribe High
  detect  Ping(n > 5) as p then Ping(n > p.n) as q within 4 s
  assign  n = q.n
"""
OPTIONS = ControlOptions(Path("net.json"), Path("keys/control"))


def moved_while_events_flow(options: TransitionOptions, seconds: range) -> TransitionResult:
    """What became of a transition during which a ping comes for each of some seconds."""
    results: list[TransitionResult | Exception] = []

    def move() -> None:
        try:
            results.append(transition_of(options))
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=move)
    thread.start()
    for second in seconds:
        assert push((10 + second, second))[0] == 0
        if not thread.is_alive():
            break
    thread.join()
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


@pytest.mark.parametrize("strategy", ["sms", "mfgs", "naive"])
def test_an_operator_moves_while_events_flow(running: Running, strategy: str) -> None:  # noqa: F811
    write_plan(QUERY, "field")
    assert situ("deploy", "plan.json", *CONTROL)[0] == 0
    for second in range(3):
        assert push((10 + second, second))[0] == 0
    write_plan(QUERY, "hall")
    code, out, error = situ("transition", "--plan", "plan.json", "--strategy", strategy, "--dry-run", *CONTROL)
    assert (code, error) == (0, "")
    assert f"High: field -> hall by {strategy}: " in out
    assert "nothing has changed" in out
    options = TransitionOptions(plan=Path("plan.json"), strategy=strategy, after="2 s", control=OPTIONS)  # type: ignore[arg-type]
    result = moved_while_events_flow(options, range(3, 60))
    assert [(move.operator, move.target) for move in result.moves] == [("High", "hall")]
    assert result.versions == (2,)
    rows = len(Path("pings.csv").read_text().splitlines()) - 1
    assert push(further=("--end",))[0] == 0
    running.sink.wait_for(rows - 1)
    assert found() == list(range(11, 10 + rows))  # each ping, and the one before


def coordinator(*, shown: bool = False) -> dict[str, Any]:
    """What the hall says of what it coordinates; and that `situ status` shows it, too."""
    code, out, error = situ("status", *CONTROL, "--json")
    assert (code, error) == (0, "")
    (said,) = [site["report"]["coordinator"] for site in json.loads(out) if site["report"]["coordinator"] is not None]
    if shown:
        (report,) = [site["report"] for site in json.loads(out) if site["report"]["coordinator"] is not None]
        assert 'situ_demand_kept{subscription="High",metric="hops"} 1\n' in site_metrics(report)
        _, out, _ = situ("status", *CONTROL)
        assert all(demand["words"].partition(" is ")[0] in out for demand in said["demands"])
    return dict(said)


def test_demands_of_sites_that_run(running: Running) -> None:  # noqa: F811
    code, _, error = situ("demand", "High", "hops < 2", *CONTROL)
    assert (code, "no site runs a plan" in error) == (1, True)
    write_plan(QUERY + "  demand latency < 1 h, hops < 2\n", "field")
    assert situ("deploy", "plan.json", *CONTROL)[0] == 0
    for second in range(200):
        assert push((10 + second, second))[0] == 0
        demands = {demand["metric"]: demand for demand in coordinator()["demands"]}
        if all(demand["kept"] is not None for demand in demands.values()):
            break
    assert {metric: demand["kept"] for metric, demand in demands.items()} == {"latency": True, "hops": True}
    assert 0 < demands["latency"]["measured"] < 3_600_000_000
    assert demands["hops"]["measured"] == 1
    coordinator(shown=True)
    for subscription, text, cause in (
        ("Hihg", "hops < 2", "no subscription 'Hihg' runs"),
        ("High", "hops < 2, hops < 3", "contradict each other"),
        ("High", "hops < 0", "no plan keeps"),
    ):
        code, _, error = situ("demand", subscription, text, *CONTROL)
        assert (code, cause in error) == (1, True), error
        assert len(coordinator()["demands"]) == 2
    code, out, error = situ("demand", "High", "hops < 1", *CONTROL)
    assert (code, out.strip()) == (0, "High demands hops < 1: hall sees to it"), error
    assert [(demand["metric"], demand["limit"]) for demand in coordinator()["demands"]] == [("hops", 1)]
    code, out, error = situ("adapt", "on", *CONTROL)
    assert (code, out.strip()) == (0, "hall moves operators where demands are broken"), error
    assert coordinator()["adapts"]
    assert situ("adapt", "off", *CONTROL)[0] == 0
    assert not coordinator()["adapts"]


def test_what_cannot_be_is_said(running: Running) -> None:  # noqa: F811
    code, _, error = situ("transition", *CONTROL)
    assert (code, "where to?" in error) == (1, True)
    code, _, error = situ("transition", "--to", "relaxatoin", *CONTROL)
    assert (code, "there is no mechanism 'relaxatoin'" in error) == (1, True)
    code, _, error = situ("transition", "--to", "relaxation", *CONTROL)
    assert (code, "no site runs a plan" in error) == (1, True)
    write_plan(QUERY.rstrip() + "\n  after match skip past last\n", "field")
    assert situ("deploy", "plan.json", *CONTROL)[0] == 0
    assert push((7, 0), (8, 1))[0] == 0
    write_plan(QUERY, "hall")
    code, _, error = situ("transition", "--plan", "plan.json", *CONTROL)
    assert (code, "another query" in error) == (1, True)
    write_plan(QUERY.rstrip() + "\n  after match skip past last\n", "hall")
    code, _, error = situ("transition", "--plan", "plan.json", "--strategy", "sms", *CONTROL)
    assert (code, "cannot be moved by sms: a match removes later ones" in error) == (1, True)
    code, out, _ = situ("transition", "--plan", "plan.json", "--dry-run", *CONTROL)
    assert (code, "by mfgs: a match removes later ones" in out) == (0, True)
