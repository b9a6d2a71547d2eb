"""`situ run --follow` at a server of Spark Connect."""

from __future__ import annotations

import pytest

from situ.cli.engines import OnSpark
from situ.cli.follow import session_conf


def test_no_jars_are_fetched_for_a_server_that_runs_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("situ.cli.follow.running_session", lambda: None)
    addresses = ["in", "kafka://host:9092/doors"]
    assert session_conf(OnSpark("sc://host", {}), None, addresses) == {}
    assert session_conf(OnSpark(None, {"spark.remote": "sc://host"}), None, addresses) == {"spark.remote": "sc://host"}
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    assert session_conf(OnSpark(None, {}), None, addresses) == {}
