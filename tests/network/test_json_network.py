"""Networks as JSON."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from situ.network.generate import antennas
from situ.network.json_network import read_json_network, write_json_network
from situ.network.load import load_network
from situ.network.network import Link, Network, NetworkError, Site

SITES = '"sites": [{"name": "a"}, {"name": "b"}]'


def test_fields(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text("""{"sites": [{"name": "a", "x": 1, "y": 2.5, "operators": 2, "load_per_s": 100},
      {"name": "b", "x": null, "y": null}],
      "links": [{"a": "a", "b": "b", "latency_ms": 3, "hops": 0, "price": 0.5, "capacity_per_s": 9}]}""")
    assert read_json_network(path) == Network(
        (Site("a", 1, 2.5, operators=2, load_per_s=100), Site("b")),
        (Link("a", "b", 3, hops=0, price=0.5, capacity_per_s=9),),
    )


@pytest.mark.parametrize(
    "network",
    [
        antennas(50, np.random.default_rng(1)),
        Network((Site("Zürich", 0.1, 0.2, 0, 0.0), Site('"')), (Link('"', "Zürich", 1 / 3, 0, 0.0, 0.5),)),
    ],
)
def test_what_is_written_is_read_again(network: Network, tmp_path: Path) -> None:
    write_json_network(network, tmp_path / "net.json")
    assert load_network(tmp_path / "net.json") == network


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"sites": [\n{"name": "a",}]}', r"net.json:2:\d+: is not JSON"),
        ("", "net.json:1:1: is not JSON"),
        ("[]", "net.json: the top: is a list, not an object"),
        (f"{{{SITES}}}", "the top: has no 'links'"),
        (f'{{{SITES}, "link": []}}', r"unknown field 'link'.\n.*Did you mean 'links'\?"),
        (f'{{{SITES}, "links": {{}}}}', "links: is an object, not a list"),
        (f'{{{SITES}, "links": [3]}}', r"links\[0\]: is the number 3, not an object"),
        (f'{{{SITES}, "links": [{{"a": "a", "b": "b"}}]}}', r"links\[0\]: has no 'latency_ms'"),
        (
            f'{{{SITES}, "links": [{{"a": "a", "b": "b", "latency": 1}}]}}',
            r"unknown field 'latency'.\n.*Did you mean 'latency_ms'\?",
        ),
        (
            f'{{{SITES}, "links": [{{"a": "a", "b": "b", "latency_ms": "1"}}]}}',
            r"links\[0\].latency_ms: is the text '1', not a number",
        ),
        (f'{{{SITES}, "links": [{{"a": "a", "b": "b", "latency_ms": true}}]}}', "is true, not a number"),
        (
            f'{{{SITES}, "links": [{{"a": "a", "b": "b", "latency_ms": NaN}}]}}',
            "net.json: link 'a' - 'b': latency_ms is",
        ),
        (f'{{{SITES}, "links": [{{"a": "a", "b": "b", "latency_ms": 1, "hops": 1.5}}]}}', "hops is 1.5"),
        (
            f'{{{SITES}, "links": [{{"a": "a", "b": "c", "latency_ms": 1}}]}}',
            "net.json: link 'a' - 'c': there is no site",
        ),
        (f'{{{SITES}, "links": []}}', "net.json: the network falls into 2 parts"),
        ('{"sites": [{"name": 7}], "links": []}', r"sites\[0\].name: is the number 7, not a text"),
        ('{"sites": [{"name": "a", "name": "b"}], "links": []}', "an object has 'name' twice"),
        (f'{{{SITES}, "links": [{{"a": "a", "b": "b", "latency_ms": 1, "hops": 1{"0" * 400}}}]}}', "hops is 1000"),
        (f'{{"sites": [{{"name": "a", "x": 1{"0" * 400}, "y": 0}}], "links": []}}', "site 'a': lies at"),
        ('{"sites": [], "links": []}', "net.json: the network has no sites"),
        ('{"sites": ' + "[" * 100_000, "is not JSON"),
    ],
)
def test_errors(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "net.json"
    path.write_text(text)
    with pytest.raises(NetworkError, match=message) as error:
        load_network(path)
    assert error.value.remedy


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(NetworkError, match="is not UTF-8"):
        load_network(path)


def test_sites_on_spark(tmp_path: Path) -> None:
    network = Network((Site("a", engine="spark", trigger_ms=250), Site("b", engine="spark"), Site("c")),
                      (Link("a", "b", 1), Link("b", "c", 1)))  # fmt: skip
    write_json_network(network, tmp_path / "net.json")
    again = read_json_network(tmp_path / "net.json")
    assert again.sites == network.sites
    assert [site.delay_ms for site in again.sites] == [250, 100, 0]
    (tmp_path / "net.json").write_text('{"sites": [{"name": "a", "engine": "flink"}], "links": []}')
    with pytest.raises(NetworkError, match=r"sites\[0\].engine: is 'flink', and there is no such engine"):
        read_json_network(tmp_path / "net.json")
