"""Which file is read how."""

from __future__ import annotations

from pathlib import Path

import pytest

from situ.network.load import load_network
from situ.network.network import NetworkError


def test_suffixes_may_be_in_capitals(tmp_path: Path) -> None:
    path = tmp_path / "NET.JSON"
    path.write_text('{"sites": [{"name": "a"}], "links": []}')
    assert load_network(str(path)).names == ("a",)


def test_errors(tmp_path: Path) -> None:
    (tmp_path / "geant.json").write_text("{}")
    (tmp_path / "net.csv").write_text("")
    (tmp_path / "bare").write_text("")
    with pytest.raises(NetworkError, match=r"gaent.json: there is no such file.\n  Did you mean 'geant.json'\?"):
        load_network(tmp_path / "gaent.json")
    with pytest.raises(NetworkError, match=r"situ reads no network from a .csv file.\n.*.graphml, .json, .parquet"):
        load_network(tmp_path / "net.csv")
    with pytest.raises(NetworkError, match="from a file without a suffix"):
        load_network(tmp_path / "bare")
    with pytest.raises(NetworkError, match="is a directory"):
        load_network(tmp_path)
