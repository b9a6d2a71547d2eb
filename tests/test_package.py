"""`import situ`: its names, its version, its types."""

import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files

import situ
from cli.command import situ as command
from situ.lang import build


def test_every_name_is_there_and_completed() -> None:
    assert {*situ.__all__} <= {*dir(situ)}
    assert all(getattr(situ, name) is not None for name in situ.__all__)


def test_names_that_are_not_used_are_not_loaded() -> None:
    code = "import situ, sys; dir(situ); print([name for name in ('numba', 'pyspark', 'lark') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_version() -> None:
    assert situ.__version__ == version("situ")
    assert command("--version") == (0, f"situ {situ.__version__}\n", "")


def test_type_checkers_read_the_annotations() -> None:
    assert files("situ").joinpath("py.typed").is_file()


def test_the_builder_under_a_short_name() -> None:
    from situ.build import detect, stream

    assert (stream, detect) == (build.stream, build.detect)
    assert {*build.__all__} <= {*dir(situ.build)}


def test_help_groups_the_commands() -> None:
    _, out, _ = command("--help")
    panels = [line.split()[1] for line in out.splitlines() if line.startswith("╭─")]
    assert panels == ["Options", *(panel for panel in ("Run", "Operate", "Plan", "Experiments") if f" {panel} " in out)]
    places = [out.index(f"│ {name} ") for name in ("declare", "check", "run", "plan", "compare", "bench", "lab")]
    assert places == sorted(places)
