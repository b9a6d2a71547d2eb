"""The command line as a user meets it: what is printed, and with which exit code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command import DOORS, situ


@pytest.fixture
def doors(tmp_path: Path) -> Path:
    file = tmp_path / "doors.situ"
    file.write_text(DOORS)
    return file


def test_check_counts(doors: Path) -> None:
    assert situ("check", doors) == (0, "OK: 1 stream, 1 definition, 1 subscription\n", "")


def test_check_as_json(doors: Path) -> None:
    code, out, _ = situ("check", doors, "--json")
    assert code == 0
    assert json.loads(out) == {"streams": 1, "definitions": 1, "subscriptions": 1, "warnings": []}


def test_check_warns(tmp_path: Path) -> None:
    file = tmp_path / "unbounded.situ"
    file.write_text(DOORS.replace(" within 10 s", ""))
    code, out, _ = situ("check", file)
    assert code == 0
    assert "warning: Shut" in out
    assert "within" in out


@pytest.mark.parametrize(
    ("wrong", "right", "cause", "remedy"),
    [
        ("subscribe Shut", "subscribe subscribe Shut", "doors.situ:7:21", ""),
        ("state = 'open'", "stat = 'open'", "doors.situ:4:17", "Did you mean 'state'?"),
        ("detect   Opened", "detect   Opend", "doors.situ:8:12", "Did you mean 'Opened'?"),
    ],
)
def test_an_error_in_the_query_names_place_cause_and_remedy(
    doors: Path, wrong: str, right: str, cause: str, remedy: str
) -> None:
    doors.write_text(DOORS.replace(wrong, right))
    code, out, err = situ("check", doors)
    assert (code, out) == (1, "")
    assert cause in err
    assert remedy in err


def test_an_error_as_json(doors: Path) -> None:
    doors.write_text(DOORS.replace("state = 'open'", "stat = 'open'"))
    code, out, _ = situ("check", doors, "--json")
    error = json.loads(out)["error"]
    assert code == 1
    assert error["kind"] == "QueryError"
    assert error["place"] == {"file": str(doors), "line": 4, "column": 17}
    assert "Did you mean 'state'?" in error["remedy"]


@pytest.mark.parametrize("command", ["check", "explain", "run"])
def test_a_query_file_that_cannot_be_read(tmp_path: Path, command: str) -> None:
    (tmp_path / "binary.situ").write_bytes(b"\xff\xfe\x00")
    for name, cause in [("missing.situ", "No such file"), (".", "Is a directory"), ("binary.situ", "UTF-8")]:
        code, _, err = situ(command, tmp_path / name)
        assert code == 1
        assert cause in err


def test_a_module_of_functions_that_is_missing(doors: Path) -> None:
    code, _, err = situ("check", doors, "--functions", "no_such_module_here")
    assert code == 1
    assert "no_such_module_here" in err


def test_without_a_command_the_help_is_shown() -> None:
    _, out, err = situ()
    assert all(command in out + err for command in ("check", "explain", "run", "bench"))


def test_explain_shows_every_form(doors: Path) -> None:
    code, out, _ = situ("explain", doors, "--engine", "embedded")
    assert code == 0
    titles = [line for line in out.splitlines() if line.startswith("-- ")]
    programs = ["-- program of Opened", "-- program of Shut"]
    assert titles == ["-- query", "-- operator graph", *programs, "-- moves from site to site"]
    assert "subscribe Shut" in out
    assert (
        "Shut by sms or mfgs: a match has no event from before its first one; an old instance is done after 10" in out
    )
    assert " object at 0x" not in out


def test_explain_shows_how_spark_runs_it(doors: Path) -> None:
    code, out, _ = situ("explain", doors, "--engine", "spark")
    assert code == 0
    before, title, plan = out.partition("\n-- plan on Spark\n")
    assert before == situ("explain", doors, "--engine", "embedded")[1]
    assert title
    assert plan.startswith("read ")
    assert json.loads(situ("explain", doors, "--engine", "spark", "--json")[1])["spark"] == plan.strip()
    assert json.loads(situ("explain", doors, "--engine", "embedded", "--json")[1])["spark"] is None


@pytest.mark.parametrize("command", ["explain", "run"])
def test_spark_without_pyspark_is_an_error_with_the_remedy(
    doors: Path, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)  # as if there were none
    source = ["--source", f"Door={doors}"] if command == "run" else []
    code, out, err = situ(command, doors, *source, "--engine", "spark")
    assert (code, out) == (1, "")
    assert "pip install 'situ[spark]'" in err
    assert situ(command, tmp_path / "none.situ")[0] == 1
    assert situ("explain", doors)[1] == situ("explain", doors, "--engine", "embedded")[1]


def test_explain_as_json_and_as_a_picture(doors: Path, tmp_path: Path) -> None:
    code, out, _ = situ("explain", doors, "--engine", "embedded", "--json", "--svg", tmp_path / "doors.svg")
    explained = json.loads(out)
    assert code == 0
    assert list(explained["programs"]) == ["Opened", "Shut"]
    assert all(explained["programs"].values())
    assert "<svg" in (tmp_path / "doors.svg").read_text()


def test_the_explained_query_is_a_query(doors: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.situ"
    embedded = ("--engine", "embedded")
    again.write_text(json.loads(situ("explain", doors, *embedded, "--json")[1])["query"])
    assert situ("explain", again, *embedded)[1] == situ("explain", doors, *embedded)[1]


def test_a_picture_that_cannot_be_written(doors: Path, tmp_path: Path) -> None:
    code, _, err = situ("explain", doors, "--svg", tmp_path / "no" / "such" / "place.svg")
    assert code == 1
    assert "cannot write the picture" in err


def test_a_user_error_leaves_no_traceback_in_a_real_process(doors: Path) -> None:
    doors.write_text("stream Door(")
    done = subprocess.run(
        [sys.executable, "-m", "situ.cli.app", "check", str(doors)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "doors.situ:1:" in done.stderr
    assert "Traceback" not in done.stderr


def test_check_starts_without_the_heavy_libraries(doors: Path) -> None:
    program = (
        "import sys; from situ.cli.app import app; app(['check', sys.argv[1]], standalone_mode=False); "
        "print(sorted({'numba', 'pandas', 'pyarrow.dataset', 'pyspark', 'rich.progress'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(doors)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
