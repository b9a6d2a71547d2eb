"""Statistics: what they may say, and where they are wrong."""

from __future__ import annotations

import math
from pathlib import Path
from types import MappingProxyType

import pytest

from network.networks import line
from situ.network.network import NetworkError
from situ.network.statistics import Statistics, StatisticsError, check, read_statistics, write_statistics


def test_only_rates_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    path.write_text('{"rates": {"A": {"a": 1, "b": 0.5}, "B": {}}}')
    statistics = read_statistics(path)
    assert statistics == Statistics({"A": {"a": 1.0, "b": 0.5}, "B": {}})
    assert (statistics.rate_per_s("A"), statistics.rate_per_s("B"), statistics.rate_per_s("C")) == (1.5, 0.0, 0.0)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    statistics = Statistics({"Ä": MappingProxyType({"a": 1 / 3})}, {"Op": 0.1, "Op.x": 1.0}, {"Ä": 3.0})
    write_statistics(statistics, tmp_path / "rates.json")
    assert read_statistics(str(tmp_path / "rates.json")) == statistics


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"rates.json:1:2: is not JSON"),
        ("{}", "the top: has no 'rates'"),
        ('{"rates": {}, "selectivities": {}}', r"unknown field 'selectivities'.\n.*Did you mean 'selectivity'\?"),
        ('{"rates": []}', "rates: is a list, not an object"),
        ('{"rates": {"A": 3}}', "rates of 'A': is the number 3, not an object"),
        ('{"rates": {"A": {"a": "3"}}}', "rates of 'A', 'a': is the text '3', not a number"),
        ('{"rates": {"A": {"a": null}}}', "rates of 'A', 'a': is null, not a number"),
        ('{"rates": {"A": {"a": -1}}}', "rates.json: rates of 'A' at site 'a': is -1"),
        ('{"rates": {"A": {"a": NaN}}}', "rates of 'A' at site 'a': is nan"),
        ('{"rates": {"A": {"a": 1e999}}}', "rates of 'A' at site 'a': is inf"),
        ('{"rates": {"A": {"a": 1, "a": 2}}}', "an object has 'a' twice"),
        ('{"rates": {}, "selectivity": {"Op": -0.1}}', "rates.json: selectivity of 'Op': is -0.1"),
        ('{"rates": {}, "selectivity": {"Op.x": 10}}', "selectivity of 'Op.x': is 10.\n.*at most 1"),
        ('{"rates": {}, "inter_arrival_s": {"A": -1}}', "inter_arrival_s of 'A': is -1"),
    ],
)
def test_errors(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rates.json"
    path.write_text(text)
    with pytest.raises(StatisticsError, match=message) as error:
        read_statistics(path)
    assert error.value.remedy


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(StatisticsError, match=r"rates.json: cannot be read: No such file"):
        read_statistics(tmp_path / "rates.json")


def test_given_numbers_are_checked_too() -> None:
    with pytest.raises(StatisticsError, match="rates of 'A' at site 'a': is nan"):
        Statistics({"A": {"a": math.nan}})


def test_sites_must_be_known() -> None:
    network = line(1, 1)
    check(Statistics({"A": {"a": 1.0, "c": 1.0}}), network)
    with pytest.raises(NetworkError, match=r"rates of 'A': there is no site 'cc'.\n.*Did you mean 'c'\?"):
        check(Statistics({"A": {"a": 1.0, "cc": 1.0}}), network)
