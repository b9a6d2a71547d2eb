"""--engine, --master and --conf: what they choose, and what is refused before anything starts."""

import sys
from pathlib import Path

import pytest

from cli.command import DOORS, situ
from situ.cli.engines import OnSpark, chosen_engine, chosen_spark


def test_spark_is_the_engine_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_engine(None) == "spark"
    assert chosen_spark(None, None, []) == OnSpark(None, {})
    monkeypatch.setitem(sys.modules, "pyspark", None)  # as if it were not
    assert chosen_engine(None) == "embedded"
    assert chosen_spark(None, None, []) is None


def test_what_is_asked_for_is_taken() -> None:
    assert chosen_spark("embedded", None, []) is None
    assert chosen_spark("spark", "local[2]", []) == OnSpark("local[2]", {})


def test_a_master_asks_for_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed, the error says so: to fall back on the other engine would be to ignore the user."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert chosen_spark(None, "local[2]", []) == OnSpark("local[2]", {})


def test_settings_are_split_at_the_first_equals_sign() -> None:
    conf = ["spark.a=b=c", " spark.d = e ", "spark.empty=", "spark.a=last"]
    assert chosen_spark("spark", None, conf) == OnSpark(None, {"spark.a": "last", "spark.d": "e", "spark.empty": ""})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--conf", "spark.ui.enabled"], "--conf 'spark.ui.enabled' is no setting"),
        (["--conf", "=true"], "--conf '=true' is no setting"),
        (["--conf", "driver.memory=8g"], "begin with 'spark.'"),
        (["--engine", "embedded", "--master", "local[2]"], "Leave out --master, or say --engine spark"),
        (["--engine", "embedded", "--conf", "spark.a=b"], "Leave out --conf, or say --engine spark"),
        (["--master", "nowhere"], "'nowhere' names no place"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: list[str], message: str) -> None:
    (tmp_path / "doors.situ").write_text(DOORS)
    (tmp_path / "doors.csv").write_text("door,state,n,ts\n")
    code, out, err = situ("run", tmp_path / "doors.situ", "--source", f"Door={tmp_path / 'doors.csv'}", *options)
    assert (code, out) == (1, "")
    assert message in err
