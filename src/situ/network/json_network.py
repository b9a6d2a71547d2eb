"""Networks as JSON.

```json
{"sites": [{"name": "edge", "x": 0, "y": 0}, {"name": "hub"}],
 "links": [{"a": "edge", "b": "hub", "latency_ms": 2.5}]}
```

Sites may have `x` and `y`, `operators`, `load_per_s`, `channel_per_s`, `address` (HOST:PORT of its process), `engine`
("spark", if Spark runs its operators) and `trigger_ms` (how often it then begins a batch); links may have `hops`,
`price` and `capacity_per_s`, as the fields of `Site` and `Link`. Those to whom subscriptions deliver are
`"actors": [{"name": "AirController", "site": "hub", "address": "mqtt://127.0.0.1/air"}]`.
Sites that decide among themselves where operators run say so with `"brokers": {"radius": 2, "period_s": 5}`,
and who moves operators of plans that run, with `"coordinator": {"site": "hub"}`, with the fields of `Coordination`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from situ.network.json_file import JsonFile, Object
from situ.network.network import SPARK, Actor, Brokers, Coordination, Link, Network, NetworkError, Site

_WHOLE = ("operators", "hops", "radius")
ENGINES = ("embedded", SPARK)
_TEXTS = ("name", "a", "b", "address", "engine", "site")
_MAY_BE_NULL = (
    "x",
    "y",
    "operators",
    "load_per_s",
    "capacity_per_s",
    "address",
    "channel_per_s",
    "engine",
    "trigger_ms",
)


def read_json_network(path: Path) -> Network:
    """Reads a network that `write_json_network` wrote; NetworkError says what is wrong, and where."""
    file = JsonFile(path, NetworkError)
    top = file.read()
    file.check_fields(top, "the top", ("sites", "links"), ("actors", "brokers", "coordinator"))
    sites, links, actors = (
        [_item(file, kind, each, f"{name}[{n}]") for n, each in enumerate(file.expect_objects(top.get(name, []), name))]
        for name, kind in (("sites", Site), ("links", Link), ("actors", Actor))
    )
    brokers, coordinator = (
        _item(file, kind, file.expect_object(top[name], name), name) if name in top else None
        for name, kind in (("brokers", Brokers), ("coordinator", Coordination))
    )
    return Network(tuple(sites), tuple(links), tuple(actors), brokers, coordinator)


def write_json_network(network: Network, path: Path) -> None:
    """One site, link or actor a line; fields that have their default are left out.

    >>> from tempfile import TemporaryDirectory
    >>> network = Network((Site("edge", 0.0, 0.0), Site("hub")), (Link("edge", "hub", 2.5),))
    >>> with TemporaryDirectory() as directory:
    ...     write_json_network(network, Path(directory, "net.json"))
    ...     print(Path(directory, "net.json").read_text())
    ...     read_json_network(Path(directory, "net.json")) == network
    {"sites": [
      {"name": "edge", "x": 0.0, "y": 0.0},
      {"name": "hub"}
    ], "links": [
      {"a": "edge", "b": "hub", "latency_ms": 2.5}
    ]}
    <BLANKLINE>
    True
    """
    parts: dict[str, Sequence[Site | Link | Actor]] = {"sites": network.sites, "links": network.links}
    if network.actors:
        parts["actors"] = network.actors
    lists = [f'"{name}": [\n' + ",\n".join(f"  {_text(item)}" for item in of) + "\n]" for name, of in parts.items()]
    for name, settings in (("brokers", network.brokers), ("coordinator", network.coordinator)):
        if settings is not None:
            lists.append(f'"{name}": {_text(settings)}')
    path.write_text(f"{{{', '.join(lists)}}}\n", encoding="utf-8")


def _item(file: JsonFile, kind: type[Any], value: Object, where: str) -> Any:
    needed = [field.name for field in fields(kind) if field.default is MISSING]
    file.check_fields(value, where, needed, [field.name for field in fields(kind) if field.name not in needed])
    return kind(**{name: _value(file, name, each, f"{where}.{name}") for name, each in value.items()})


def _value(file: JsonFile, name: str, value: object, where: str) -> object:
    if value is None and name in _MAY_BE_NULL:
        return None
    if name in _TEXTS:
        text = file.expect_text(value, where)
        if name == "engine" and text not in ENGINES:
            raise file.wrong(where, f"is {text!r}, and there is no such engine", f"It is {' or '.join(ENGINES)}.")
        return text
    number = file.expect_number(value, where)
    return int(number) if name in _WHOLE and isinstance(number, float) and number.is_integer() else number


def _text(item: Site | Link | Actor | Brokers | Coordination) -> str:
    values = {field.name: (getattr(item, field.name), field.default) for field in fields(item)}
    stated = {name: value for name, (value, default) in values.items() if value != default}
    return json.dumps(stated, ensure_ascii=False)
