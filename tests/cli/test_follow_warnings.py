"""A warning of a query that runs on is shown however it is watched."""

import json

import pytest

from situ.cli.follow_show import JsonLines, Lines, Screen, Show
from situ.cli.options import error_to_json
from situ.service.figures import StreamTotals
from situ.service.told import Warned


@pytest.mark.parametrize("kind", [Lines, Screen])
def test_a_warning_for_people(kind: type[Lines | Screen], capsys: pytest.CaptureFixture[str]) -> None:
    with kind(StreamTotals(), None) as show:
        show.tell(Warned("in/a.csv has changed"))
    assert "warning: in/a.csv has changed" in capsys.readouterr().out


def test_a_warning_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    show: Show = JsonLines(StreamTotals(), None, error_to_json)
    show.tell(Warned("in/a.csv has changed"))
    assert json.loads(capsys.readouterr().out) == {"event": "warning", "warning": "in/a.csv has changed"}
