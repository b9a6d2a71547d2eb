"""`situ plan` and `situ compare` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from cli.command import situ
from situ.network.generate import random_geometric
from situ.network.json_network import write_json_network

QUERY = """\
stream Alarm(n int, ts timestamp) time ts
stream Load(n int, ts timestamp) time ts

define Surge(n)
  detect   Alarm as a and Load(n > 3) as l within 2 s
  assign   n = l.n

subscribe Outage
  detect   Surge as s then each Load as l within 1 s
  assign   n = s.n
"""

#: A line of four sites, with a capacity in its middle.
NETWORK = {
    "sites": [{"name": name, "x": x, "y": 0} for x, name in enumerate(("west", "mid", "east", "root"))],
    "links": [
        {"a": "west", "b": "mid", "latency_ms": 2, "price": 5},
        {"a": "mid", "b": "east", "latency_ms": 3, "price": 1},
        {"a": "east", "b": "root", "latency_ms": 4, "capacity_per_s": 2},
    ],
}
RATES = {
    "rates": {"Alarm": {"west": 0.02, "mid": 0.01}, "Load": {"east": 5, "mid": 3}},
    "selectivity": {"Surge": 0.2, "Surge.l": 0.5, "Outage": 0.1},
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "q.situ").write_text(QUERY)
    (tmp_path / "net.json").write_text(json.dumps(NETWORK))
    (tmp_path / "rates.json").write_text(json.dumps(RATES))
    return tmp_path


def run(command: str, files: Path, *more: object) -> tuple[int, str, str]:
    given = files / "q.situ", "--network", files / "net.json", "--rates", files / "rates.json"
    return situ(command, *given, *more)


def answer(files: Path, *more: object) -> dict[str, Any]:
    code, out, err = run("plan", files, "--root", "root", "--json", *more)
    assert code == 0, out + err
    found: dict[str, Any] = json.loads(out)
    return found


def error(files: Path, *more: object, command: str = "plan") -> dict[str, Any]:
    code, out, _ = run(command, files, "--json", *more)
    assert code == 1
    found: dict[str, Any] = json.loads(out)["error"]
    assert set(found) == {"kind", "cause", "place", "remedy"}
    return found


# ---- situ plan


def test_the_answer_as_json(files: Path) -> None:
    found = answer(files)
    assert list(found) == [
        "mechanism", "cost", "naive_cost", "transmission_factor", "latency_ms", "median_latency_ms", "seconds", "root",
        "operators",
        "pareto", "lower_bound", "packets", "outputs", "overloaded_links", "demands", "warnings",
    ]  # fmt: skip
    # Load goes to root once for Surge's half and Outage's whole: mid has two hops to it, east one; Alarm has 3 and 2.
    assert found["naive_cost"] == pytest.approx(5 + 3 * 2 + 0.02 * 3 + 0.01 * 2)
    assert found["transmission_factor"] == pytest.approx(found["cost"] / found["naive_cost"])
    assert found["transmission_factor"] < 1
    assert found["mechanism"] == "optimal"
    assert found["root"] == "root"
    assert [operator["name"] for operator in found["operators"]] == ["Surge", "Outage"]
    for operator, inputs in zip(found["operators"], ({"Alarm", "Load"}, {"Surge", "Load"}), strict=True):
        assert set(operator) == {"name", "site", "steps"}
        assert {event for step in operator["steps"] for event in step} == inputs
    assert found["pareto"][0] == pytest.approx([found["cost"], found["latency_ms"]])
    assert found["lower_bound"] <= found["cost"]
    assert found["overloaded_links"] == found["warnings"] == []


@pytest.mark.parametrize("name", ["naive", "cpp", "grin", "exhaustive", "greedy", "greedy+", "heuristic", "heuristic+"])
def test_every_mechanism_can_be_asked(files: Path, name: str) -> None:
    assert answer(files, "--mechanism", name)["mechanism"] == name


def test_without_a_root_results_go_to_the_middle(files: Path) -> None:
    code, out, _ = run("plan", files, "--json")
    assert code == 0
    assert json.loads(out)["root"] == "east"


def test_prices_instead_of_hops(files: Path) -> None:
    naive = answer(files, "--mechanism", "naive", "--price")
    assert naive["cost"] == pytest.approx(5 * 1 + 3 * 2 + 0.02 * 7 + 0.01 * 2)


def test_the_papers_cost_model(files: Path) -> None:
    assert answer(files, "--cost", "paper")["cost"] != answer(files)["cost"]
    _, out, _ = run("plan", files, "--root", "root", "--cost", "paper", "--mechanism", "naive")
    assert "by the paper's formulas, 100.0% of the naive plan's" in out


def test_a_latency_limit(files: Path) -> None:
    free = answer(files)
    fastest = answer(files, "--mechanism", "naive")["latency_ms"]
    assert fastest == 9.0
    assert free["latency_ms"] > fastest
    strict = answer(files, "--latency", "9")
    assert strict["latency_ms"] == fastest
    assert strict["cost"] > free["cost"]
    assert answer(files, "--latency-of", "Outage=9")["latency_ms"] == fastest


def test_a_subscription_demands_a_latency(files: Path) -> None:
    """Less than that: the fastest plan takes 9 ms."""
    (files / "q.situ").write_text(QUERY + "  demand latency < 9001 us\n")
    assert answer(files)["latency_ms"] == 9.0
    assert answer(files)["warnings"] == []
    (files / "q.situ").write_text(QUERY + "  demand latency < 9 ms\n")
    found = error(files, "--root", "root")
    assert "no plan gives Outage to root within 9 ms" in found["cause"]
    assert "at least 9 ms" in found["remedy"]


def test_the_stricter_limit_counts(files: Path) -> None:
    (files / "q.situ").write_text(QUERY + "  demand latency < 1 s\n")
    assert answer(files, "--latency-of", "Outage=9")["latency_ms"] == 9.0
    (files / "q.situ").write_text(QUERY + "  demand latency < 9001 us\n")
    assert answer(files, "--latency-of", "Outage=1000")["latency_ms"] == 9.0


def judged_demands(files: Path, demands: str, *options: str) -> dict[str, tuple[float, bool]]:
    (files / "q.situ").write_text(QUERY + f"  demand {demands}\n")
    found = answer(files, *options)
    assert found["warnings"] == []
    assert [each["subscription"] for each in found["demands"]] == ["Outage"] * len(found["demands"])
    return {each["metric"]: (each["measured"], each["kept"]) for each in found["demands"]}


def test_every_demand_is_held_against_the_plan(files: Path) -> None:
    """Naive: Load is 3 per s at mid, two hops from root, and 5 at east; Alarm 0.02 and 0.01 per s, three and two."""
    demands = "latency < 1 s, overhead < 10 KB, load < 20, hops < 4, bandwidth-delay < 0.5"
    found = judged_demands(files, demands, "--mechanism", "naive")
    assert all(kept for _, kept in found.values())
    assert found["latency"][0] == 9000
    assert found["hops"][0] == 3
    strict = judged_demands(
        files, "overhead < 1 B, load < 1, hops < 3, bandwidth-delay < 0.001", "--mechanism", "naive"
    )
    assert not any(kept for _, kept in strict.values())
    assert {metric: measured for metric, (measured, _) in strict.items()} == {
        metric: found[metric][0] for metric in strict
    }
    _, out, _ = run("plan", files, "--root", "root", "--mechanism", "naive")
    assert "Outage: demand hops < 3 is broken: 3" in out


def test_auto_looks_for_a_plan_that_keeps_the_demands(files: Path) -> None:
    free = judged_demands(files, "overhead < 1 MB")["overhead"][0]
    least = judged_demands(files, "overhead < 1 MB", "--mechanism", "naive")["overhead"][0]
    assert least < free
    measured, kept = judged_demands(files, f"overhead < {int(free)} B")["overhead"]
    assert kept
    assert least <= measured < free


@pytest.mark.parametrize(
    ("demand", "cause"),
    [
        ("hops < 0", "no plan keeps `demand hops < 0`"),
        ("latency < 0 ms", "no plan keeps `demand latency < 0"),
        ("load < 0.0", "no plan keeps `demand load < 0`"),
        ("speed < 3", "'speed' is unexpected here"),
        ("hops < 2.5", "'.' is unexpected here"),
        ("load < 3 KB", "is unexpected here"),
        ("bandwidth < 3", "'bandwidth' is unexpected here"),
    ],
)
def test_demands_that_nothing_can_keep_or_that_nobody_knows(files: Path, demand: str, cause: str) -> None:
    (files / "q.situ").write_text(QUERY + f"  demand {demand}\n")
    assert cause in error(files, "--root", "root")["cause"]


def test_demands_that_mean_nothing_in_one_process_are_said(files: Path) -> None:
    (files / "q.situ").write_text(QUERY + "  demand latency < 1 s, hops < 4\n")
    code, out, _ = situ("check", files / "q.situ")
    assert (code, out.count("warning: ")) == (0, 1)
    assert "`demand hops` has no effect: it means nothing in one process: `situ plan` and sites look at it." in out


@pytest.mark.parametrize("command", ["plan", "compare"])
def test_what_moves_is_planned_as_if_it_stood_still(files: Path, command: str) -> None:
    located = QUERY.replace(
        "(n int, ts timestamp) time ts", "(n int, x double, y double, ts timestamp) time ts at (x, y)"
    )
    moving = located.replace("subscribe Outage", "subscribe Outage for Alarm(n)") + "  around Alarm square 500 m\n"
    (files / "q.situ").write_text(moving)
    code, out, err = run(command, files, "--root", "root", "--json")
    assert code == 0, out + err
    plans = json.loads(out) if command == "compare" else [json.loads(out)]
    (warning,) = {warning for plan in plans for warning in plan["warnings"]}
    assert warning.startswith("subscription Outage moves with Alarm, and is planned as if it stood still: ")


def test_links_that_would_carry_too_much(files: Path) -> None:
    found = answer(files, "--mechanism", "naive")
    assert found["overloaded_links"] == [
        {"a": "east", "b": "root", "messages_per_s": pytest.approx(8.03), "capacity_per_s": 2}
    ]
    _, out, _ = run("plan", files, "--root", "root", "--mechanism", "naive")
    assert "warning: link east - root would carry 8.03 messages per s, and can carry 2." in out


def test_a_table_for_people(files: Path) -> None:
    """Who runs where, what flows, cost, distance from the optimum, latency."""
    code, out, _ = run("plan", files, "--root", "root", "--mechanism", "naive")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["Surge", "root", "Alarm", "and", "Load"] in rows
    assert ["Load", "2", "sites", "root", "pushed", "8", "0", "11"] in rows
    assert "cost      11.08 messages x hops per s, 100.0% of the naive plan's 11.08" in out
    assert "not known by this mechanism" in out
    assert "latency   9 ms until root has the results, at most; " in out
    _, out, _ = run("plan", files, "--root", "root", "--mechanism", "exhaustive")
    assert "this is it: no plan costs less" in out
    _, out, _ = run("plan", files, "--root", "root", "--mechanism", "optimal")
    assert "above the cheapest" in out or "no plan costs less" in out
    assert "Cost or latency" in out


def test_a_naive_plan_that_costs_nothing(files: Path) -> None:
    (files / "rates.json").write_text(json.dumps({"rates": {"Alarm": {"root": 1}, "Load": {"root": 1}}}))
    found = answer(files)
    assert (found["cost"], found["naive_cost"], found["transmission_factor"]) == (0, 0, None)
    assert run("plan", files, "--root", "root")[0] == 0
    assert run("compare", files, "--root", "root")[0] == 0


def test_the_picture(files: Path) -> None:
    assert run("plan", files, "--svg", files / "plan.svg")[0] == 0
    assert ElementTree.parse(files / "plan.svg").getroot().tag.endswith("svg")
    assert "cannot write the picture" in error(files, "--svg", files / "none" / "plan.svg")["cause"]


@pytest.mark.parametrize(
    ("options", "cause", "remedy"),
    [
        (("--mechanism", "greed"), "there is no mechanism 'greed'", "Did you mean 'greedy'?"),
        (("--root", "wset"), "there is no site 'wset'", "Did you mean 'west'?"),
        (("--latency", "3"), "no plan gives Outage to", "Allow a latency of at least"),
        (("--latency", "-1"), "--latency is -1.0", "0 or more"),
        (("--latency", "nan"), "--latency is nan", "0 or more"),
        (("--latency-of", "Outage"), "--latency-of 'Outage' is no limit", "OUTPUT=MS"),
        (("--latency-of", "Outage=soon"), "--latency-of 'Outage=soon' is no limit", "OUTPUT=MS"),
        (("--latency-of", "Outage=-2"), "--latency-of is -2.0", "0 or more"),
        (("--latency-of", "Surge=5"), "a latency is asked for Surge", "known: Outage"),
    ],
)
def test_mistakes_on_the_command_line(files: Path, options: tuple[str, ...], cause: str, remedy: str) -> None:
    found = error(files, *options)
    assert cause in found["cause"]
    assert remedy in found["remedy"]
    code, out, err = run("plan", files, *options)
    assert (code, out) == (1, "")
    assert cause in err


@pytest.mark.parametrize(
    ("file", "old", "new", "cause"),
    [
        ("q.situ", "detect   Alarm", "detect   Alrm", "Alrm"),
        ("net.json", '"latency_ms": 2', '"latency_ms": -2', "latency_ms is -2"),
        ("net.json", '"b": "root"', '"b": "west"', "falls into 2 parts"),
        ("rates.json", '"west"', '"nowhere"', "there is no site 'nowhere'"),
        ("rates.json", '"Alarm"', '"Alert"', "rates are given for Alert"),
        ("rates.json", "0.02", "-1", "is -1"),
        ("rates.json", '"Surge":', '"Urge":', "a selectivity is given for Urge"),
    ],
)
def test_mistakes_in_files(files: Path, file: str, old: str, new: str, cause: str) -> None:
    text = (files / file).read_text()
    assert old in text
    (files / file).write_text(text.replace(old, new, 1))
    assert cause in error(files)["cause"]


# ---- situ compare


def compared(files: Path, *more: object) -> dict[str, dict[str, Any]]:
    code, out, _ = run("compare", files, "--root", "root", "--json", *more)
    assert code == 0
    return {row["mechanism"]: row for row in json.loads(out)}


def test_all_mechanisms_side_by_side(files: Path) -> None:
    rows = compared(files)
    assert {"naive", "cpp", "grin", "exhaustive", "optimal", "greedy", "greedy+", "heuristic", "heuristic+"} <= set(
        rows
    )
    assert rows["exhaustive"]["cost"] == min(row["cost"] for row in rows.values())
    assert rows["optimal"]["cost"] == pytest.approx(answer(files, "--mechanism", "optimal")["cost"])


def test_only_those_that_are_named(files: Path) -> None:
    assert list(compared(files, "--mechanism", "greedy", "--mechanism", "naive")) == ["greedy", "naive"]


def test_exhaustive_is_left_out_where_it_would_take_long(files: Path) -> None:
    write_json_network(random_geometric(200, np.random.default_rng(1)), files / "net.json")
    (files / "rates.json").write_text(json.dumps({"rates": {"Alarm": {"site1": 1}, "Load": {"site2": 1, "site3": 2}}}))
    code, out, _ = run("compare", files, "--json")
    assert code == 0
    names = [row["mechanism"] for row in json.loads(out)]
    assert "exhaustive" not in names
    assert "optimal" in names


def test_a_mechanism_that_fails_says_why_and_the_others_go_on(files: Path) -> None:
    write_json_network(random_geometric(200, np.random.default_rng(1)), files / "net.json")
    query = QUERY + "subscribe More detect Surge as s and Load as l within 1 s assign n = 1\n"
    (files / "q.situ").write_text(query)
    (files / "rates.json").write_text(json.dumps({"rates": {"Alarm": {"site1": 1}, "Load": {"site2": 1, "site3": 2}}}))
    options = "--mechanism", "exhaustive", "--mechanism", "naive"
    code, out, _ = run("compare", files, *options, "--json")
    failed, naive = json.loads(out)
    assert code == 0
    assert failed["mechanism"] == "exhaustive"
    assert "plans to try" in failed["error"]["cause"]
    assert naive["cost"] > 0
    assert "plans to try" in " ".join(run("compare", files, *options)[1].split())


def test_no_mechanism_finds_a_plan(files: Path) -> None:
    code, out, _ = run("compare", files, "--latency", "1", "--mechanism", "greedy", "--mechanism", "naive", "--json")
    assert code == 1
    assert ["no plan gives" in row["error"]["cause"] for row in json.loads(out)] == [True, True]


def test_a_comparison_for_people(files: Path) -> None:
    code, out, _ = run("compare", files, "--root", "root", "--mechanism", "naive")
    assert code == 0
    row, objectives = [line.split() for line in out.splitlines() if "naive  " in line and "cost" not in line]
    assert [*objectives[:2], *objectives[-2:]] == ["naive", "3", "latency,", "overhead"]
    assert row[:4] == ["naive", "11.08", "100.0%", "9"]
    assert "(links overloaded)" in " ".join(out.split())


def test_a_wrong_name_ends_the_comparison(files: Path) -> None:
    assert "there is no mechanism" in error(files, "--mechanism", "best", command="compare")["cause"]


@pytest.mark.parametrize("command", ["plan", "compare", "stats"])
def test_help_has_an_example(command: str) -> None:
    code, out, _ = situ(command, "--help")
    assert code == 0
    assert f"situ {command} alarms.situ" in out


def test_statistics_of_nothing_say_what_can_be_measured(files: Path) -> None:
    code, _, told = situ("stats", files / "q.situ")
    assert code == 1
    assert "--source TYPE=PATH and --site COLUMN for tables" in " ".join(told.split())
