"""What is known of the events before they flow: rates by site, selectivities, times between events; and how long links
take, where that was measured.

As JSON, of which only `rates` must be there:

```json
{"rates": {"Vehicle": {"edge": 3.5, "hub": 0.2}},
 "selectivity": {"HardBraking": 0.1, "HardBraking.fast": 0.5},
 "inter_arrival_s": {"Vehicle": 0.27},
 "latency_ms": {"edge": {"hub": 12.5}}}
```
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from situ.core.errors import SituError
from situ.network.json_file import JsonFile
from situ.network.network import LONGEST_MS, Network, NetworkError, suggestion


class StatisticsError(SituError):
    """The statistics are no use: a negative rate, a text for a number, an unknown field."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Rates and selectivities, measured or given.

    >>> Statistics({"Vehicle": {"edge": 3.5, "hub": 0.5}}).rate_per_s("Vehicle")
    4.0
    """

    rates: Mapping[str, Mapping[str, float]]  # event type -> site -> events per second
    # Operator -> share of the combinations that pass (1 unless given; over 1 where measured events come in bursts);
    # "Operator.alias" -> share of that input's events that pass its own filter.
    selectivity: Mapping[str, float] = field(default_factory=dict)
    inter_arrival_s: Mapping[str, float] = field(default_factory=dict)  # event type -> mean, all sites together
    latency_ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # site -> site -> of the link, measured

    def __post_init__(self) -> None:
        for type_, by_site in self.rates.items():
            for site, rate in by_site.items():
                _check_amount(f"rates of {type_!r} at site {site!r}", rate, math.inf)
        for name, share in self.selectivity.items():
            _check_amount(f"selectivity of {name!r}", share, 1.0 if "." in name else math.inf)
        for site, by_other in self.latency_ms.items():
            for other, latency in by_other.items():
                _check_amount(f"latency_ms from {site!r} to {other!r}", latency, LONGEST_MS)
        for type_, seconds in self.inter_arrival_s.items():
            _check_amount(f"inter_arrival_s of {type_!r}", seconds, math.inf)

    def rate_per_s(self, type_: str) -> float:
        """The rate of an event type at all sites together; 0 if it is not known."""
        return float(sum(self.rates.get(type_, {}).values()))


def check(statistics: Statistics, network: Network) -> None:
    """NetworkError if a rate is given for a site that the network does not have.

    >>> from situ.network.network import Link, Site
    >>> check(Statistics({"Vehicle": {"egde": 1.0}}), Network((Site("edge"), Site("hub")), (Link("edge", "hub", 1.0),)))
    Traceback (most recent call last):
    situ.network.network.NetworkError: rates of 'Vehicle': there is no site 'egde'.
      known: edge, hub. Did you mean 'edge'?
    """
    sites = set(network.names)
    for site in (site for a, others in statistics.latency_ms.items() for site in (a, *others)):
        if site not in sites:
            raise NetworkError(f"there is no site {site!r}", place="latency_ms", remedy=suggestion(site, sites))
    for type_, by_site in statistics.rates.items():
        for site in by_site:
            if site not in sites:
                raise NetworkError(
                    f"there is no site {site!r}", place=f"rates of {type_!r}", remedy=suggestion(site, sites)
                )


def with_measured_latencies(network: Network, statistics: Statistics) -> Network:
    """The network, with the latencies of links that were measured; the shorter of both directions counts.

    >>> from situ.network.network import Link, Site
    >>> network = Network((Site("a"), Site("b")), (Link("a", "b", 5.0),))
    >>> with_measured_latencies(network, Statistics({}, latency_ms={"b": {"a": 7.5}})).links[0].latency_ms
    7.5
    """
    if not statistics.latency_ms:
        return network
    check(statistics, network)
    measured_ms: dict[tuple[str, str], float] = {}
    for site, others in statistics.latency_ms.items():
        for other, latency in others.items():
            ends = min(site, other), max(site, other)
            measured_ms[ends] = min(latency, measured_ms.get(ends, math.inf))
    ends_of = [(min(link.a, link.b), max(link.a, link.b)) for link in network.links]
    links = [
        replace(link, latency_ms=measured_ms.get(ends, link.latency_ms))
        for link, ends in zip(network.links, ends_of, strict=True)
    ]
    return replace(network, links=tuple(links))


def read_statistics(path: Path | str) -> Statistics:
    """StatisticsError says what is wrong where."""
    file = JsonFile(Path(path), StatisticsError)
    top = file.read()
    file.check_fields(top, "the top", ("rates",), ("selectivity", "inter_arrival_s", "latency_ms"))
    rates = {
        type_: _numbers(file, by_site, f"rates of {type_!r}")
        for type_, by_site in file.expect_object(top["rates"], "rates").items()
    }
    shares = {name: _numbers(file, top[name], name) for name in ("selectivity", "inter_arrival_s") if name in top}
    latency_ms = {
        site: _numbers(file, others, f"latency_ms of {site!r}")
        for site, others in file.expect_object(top.get("latency_ms", {}), "latency_ms").items()
    }
    try:
        return Statistics(rates, **shares, latency_ms=latency_ms)
    except StatisticsError as error:
        raise StatisticsError(error.cause, place=f"{path}: {error.place}", remedy=error.remedy) from None


def write_statistics(statistics: Statistics, path: Path | str) -> None:
    """Writes statistics as `read_statistics` reads them.

    >>> from tempfile import TemporaryDirectory
    >>> statistics = Statistics({"Vehicle": {"edge": 3.5}}, {"HardBraking": 0.1})
    >>> with TemporaryDirectory() as directory:
    ...     write_statistics(statistics, Path(directory, "rates.json"))
    ...     read_statistics(Path(directory, "rates.json")) == statistics
    True
    """
    content: dict[str, object] = {"rates": {type_: dict(by_site) for type_, by_site in statistics.rates.items()}}
    if statistics.selectivity:
        content["selectivity"] = dict(statistics.selectivity)
    if statistics.inter_arrival_s:
        content["inter_arrival_s"] = dict(statistics.inter_arrival_s)
    if statistics.latency_ms:
        content["latency_ms"] = {site: dict(others) for site, others in statistics.latency_ms.items()}
    Path(path).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _numbers(file: JsonFile, value: object, where: str) -> dict[str, float]:
    return {
        name: file.expect_number(each, f"{where}, {name!r}") for name, each in file.expect_object(value, where).items()
    }


def _check_amount(place: str, value: float, most: float) -> None:
    if not (0 <= value <= min(most, sys.float_info.max)):
        limit = "" if math.isinf(most) else f" of at most {most:g}"
        raise StatisticsError(f"is {value}", place=place, remedy=f"Give a finite number{limit} that is not negative.")
