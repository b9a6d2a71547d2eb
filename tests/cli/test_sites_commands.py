"""The commands of sites: what they make, and what they say of wrong command lines, before any process is started."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.command import situ
from situ.network.load import load_network
from situ.runtime.sites.deployed_plan import plan_of_json

QUERY = """
stream Alarm(machine string, ts timestamp)                  time ts
stream Reading(machine string, value double, ts timestamp)  time ts

subscribe Overheated
  detect   Alarm as alarm then each Reading(value > 90) as reading within 2 s
  assign   machine = alarm.machine, value = reading.value
"""
NETWORK = {
    "sites": [{"name": "field", "address": "127.0.0.1:1"}, {"name": "hall"}, {"name": "office"}],
    "links": [{"a": "field", "b": "office", "latency_ms": 4}, {"a": "hall", "b": "office", "latency_ms": 3}],
}
RATES = {"rates": {"Alarm": {"field": 0.01}, "Reading": {"hall": 10}}, "selectivity": {"Overheated": 0.1}}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("query.situ").write_text(QUERY)
    Path("net.json").write_text(json.dumps(NETWORK))
    Path("rates.json").write_text(json.dumps(RATES))
    for name in ("alarm", "reading"):
        pq.write_table(
            pa.table({"machine": ["a"], "value": [1.0], "ts": pa.array([0], pa.timestamp("us"))}), f"{name}.parquet"
        )
    return tmp_path


def error_of(*arguments: object) -> str:
    code, out, error = situ(*arguments)
    assert code == 1, out
    return out + error


def test_keys_for_the_sites_of_a_network(here: Path) -> None:
    code, out, _ = situ("keys", "net.json", "--out", "keys", "--json")
    made = json.loads(out)
    assert code == 0
    assert {*made["sites"]} == {"field", "hall", "office"}
    assert all(Path(folder, "site.key").exists() for folder in [*made["sites"].values(), made["control"]])
    assert "cannot hold for 0 days" in error_of("keys", "net.json", "--out", "other", "--days", "0")
    assert "there is no such file" in error_of("keys", "nowhere.json", "--out", "other")


def test_a_plan_in_a_file_is_what_sites_take(here: Path) -> None:
    code, _, error = situ("plan", "query.situ", "--network", "net.json", "--rates", "rates.json", "--root", "office",
                          "--out", "plan.json")  # fmt: skip
    assert code == 0, error
    plan = plan_of_json(Path("plan.json").read_text())
    assert plan.sources == {"Alarm": ("field",), "Reading": ("hall",)}
    assert plan.results == ("office",)
    assert plan.operators["Overheated"].site in load_network("net.json").names
    assert plan.query == QUERY


def test_plans_name_the_sites_of_actors(here: Path) -> None:
    Path("query.situ").write_text(QUERY.replace("subscribe Overheated", "Subscription seq 1 from Ann to Siren"))
    asked = (
        "plan",
        "query.situ",
        "--network",
        "net.json",
        "--rates",
        "rates.json",
        "--root",
        "office",
        "--out",
        "p.json",
    )
    Path("rates.json").write_text(json.dumps(RATES | {"selectivity": {}}))
    assert "subscription Ann_1 delivers to Siren, and the network does not say where that is" in error_of(*asked)
    actors = [{"name": "Siren", "site": "hall", "address": "sirens"}]
    Path("net.json").write_text(json.dumps(NETWORK | {"actors": actors}))
    code, _, error = situ(*asked)
    assert code == 0, error
    assert plan_of_json(Path("p.json").read_text()).actors == {"Siren": "hall"}


def test_addresses_are_read_and_written(here: Path) -> None:
    assert [site.address for site in load_network("net.json").sites] == ["127.0.0.1:1", None, None]
    Path("wrong.json").write_text(json.dumps({"sites": [{"name": "a", "address": 5}], "links": []}))
    assert "is the number 5, not a text" in error_of("keys", "wrong.json", "--out", "keys")


@pytest.mark.parametrize(
    ("further", "said"),
    [
        (["--source", "Alarm=alarm.parquet"], "does not say which stream, at which site"),
        (["--source", "Alarm@moon=alarm.parquet"], "there is no site 'moon'"),
        (["--source", "Alarm@field=alarm.parquet"], "no source for stream"),
        (["--source", "Alarm@field=a", "--source", "Alarm@field=b"], "two sources of stream 'Alarm' at field"),
        (["--source", "Alarm@field=alarm.parquet", "--source", "Reading@hall=reading.parquet", "--root", "moon"],
         "there is no site 'moon'"),
        (["--source", "Alarm@field=alarm.parquet", "--source", "Reading@hall=reading.parquet", "--mechanism", "auto"],
         "--mechanism needs rates"),
        (["--source", "Alarm@field=alarm.parquet", "--source", "Reading@hall=reading.parquet", "--plan", "none.json"],
         "the plan cannot be read"),
        (["--source", "Alarm@field=alarm.parquet", "--source", "Reading@hall=redding.parquet"],
         "Did you mean 'reading.parquet'?"),
        (["--source", "Alarm@field=mqtt://ann:secret@host/x", "--source", "Reading@hall=reading.parquet"],
         "mqtt://host/x is a stream that does not end"),
        (["--source", "Alarm@field=alarm.parquet", "--source", "Reading@hall=reading.parquet", "--live", "Alarm"],
         "--live is for streams that happen now"),
        (["--source", "Alarm@field=alarm.parquet", "--source", "Reading@hall=reading.parquet", "--live", "Alram"],
         "--live Alram: the query has no such stream"),
    ],
)  # fmt: skip
def test_wrong_command_lines_of_up(here: Path, further: list[str], said: str) -> None:
    assert said in error_of("up", "query.situ", "--network", "net.json", "--once", *further)


def test_a_plan_of_another_query_and_a_site_twice_are_refused(here: Path) -> None:
    sources = ["--source", "Alarm@field=alarm.parquet", "--source", "Reading@hall=reading.parquet"]
    situ(
        "plan", "query.situ", "--network", "net.json", "--rates", "rates.json", "--root", "office", "--out", "plan.json"
    )
    Path("other.situ").write_text(QUERY.replace("value > 90", "value > 95"))
    told = error_of("up", "other.situ", "--network", "net.json", "--once", "--plan", "plan.json", *sources)
    assert "the plan is one of another query than other.situ" in told
    Path("twice.json").write_text(json.dumps({"sites": [{"name": "a"}, {"name": "a"}], "links": []}))
    assert "two sites have this name" in error_of("keys", "twice.json", "--out", "keys")
    assert not Path("keys").exists()


def test_moving_subscriptions_are_refused(here: Path) -> None:
    Path("query.situ").write_text(
        "stream A(id int, x double, y double, t timestamp) time t at (x, y)\n"
        "subscribe Near for A(id) detect A as a assign n = a.id around A square 50 m"
    )
    told = error_of("up", "query.situ", "--network", "net.json", "--source", "A@field=alarm.parquet", "--once")
    assert "around a consumer who moves" in told


def test_a_site_needs_certificates_of_its_own(here: Path) -> None:
    site = ["site", "field", "--network", "net.json", "--dir", "state"]
    assert "a site needs certificates" in error_of(*site)
    situ("keys", "net.json", "--out", "keys")
    assert "the certificate is that of 'hall'" in error_of(*site, "--keys", "keys/sites/hall")
    assert "the certificate is that of 'control'" in error_of(*site, "--keys", "keys/control")
    assert "there is no site 'feld'" in error_of("site", "feld", *site[2:], "--insecure")
    assert "has no `address`" in error_of("site", "hall", *site[2:], "--insecure")
    assert "--insecure is for this machine alone" in error_of(*site, "--insecure", "--listen", "0.0.0.0:0")
    assert not Path("state").exists()


def test_control_needs_sites_and_a_right(here: Path) -> None:
    assert "which sites?" in error_of("status")
    assert "a certificate for control" in error_of("stop", "--network", "net.json")
    code, out, _ = situ("status", "--network", "net.json", "--insecure", "--json")
    assert code == 0
    assert json.loads(out)[0]["waits"][0].startswith("site field at 127.0.0.1:1 does not answer")
    situ(
        "plan", "query.situ", "--network", "net.json", "--rates", "rates.json", "--root", "office", "--out", "plan.json"
    )
    told = error_of("deploy", "plan.json", "--network", "net.json", "--insecure")
    assert "nobody said where it is" in told


def test_options_of_spark_are_for_sites_on_spark(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = ["site", "field", "--network", "net.json", "--dir", "d", "--insecure", "--listen", "127.0.0.1:0"]
    assert "--master is for a site whose operators run on Spark" in error_of(*site, "--master", "spark://h:7077")
    assert "--trigger: 'soon' is no duration" in error_of(*site, "--engine", "spark", "--trigger", "soon")
    monkeypatch.setattr("situ.runtime.spark.session.versions.installed_version", lambda: "4.1.0")
    assert "a Spark site needs Spark 4.2 or newer" in error_of(*site, "--engine", "spark")
