"""Plans that sites run, from a query, a placement and where events occur."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from situ.core.errors import InputError
from situ.core.functions import default as registered
from situ.graph.operators import OperatorGraph
from situ.io.addresses import shown_address
from situ.lang.parse import parse
from situ.lang.query_files import read_text
from situ.lang.resolve import resolve
from situ.network.network import Network
from situ.placement.link_load import flows_of, way_of
from situ.placement.plan import Plan
from situ.placement.problem import Problem
from situ.runtime.given import given_by_stream
from situ.runtime.sites.actors import actor_sites
from situ.runtime.sites.deployed_plan import (
    DeployedPlan,
    NamedFunction,
    OperatorPlace,
    PredictedRates,
    plan_of_json,
    plan_to_json,
)
from situ.runtime.sites.operator_places import operator_places
from situ.runtime.sites.ways import with_ways

#: stream -> site -> address
SiteSources = dict[str, dict[str, str]]


def site_sources(graph: OperatorGraph, network: Network, sources: Sequence[str]) -> SiteSources:
    """`["Vehicle@north=cars.parquet"]` -> {"Vehicle": {"north": "cars.parquet"}}, for every stream of the query.

    `Vehicle@*=cars/*.parquet` has the sites whose names, in the place of the star, give a file that is there.
    """
    addresses: SiteSources = {}
    for source in [each for given in sources for each in _at_all_sites(given, network)]:
        where, equals, address = source.partition("=")
        stream, at, site = where.partition("@")
        if not (equals and at and stream and site and address) or "://" in where:
            raise InputError(
                f"--source '{shown_address(source)}' does not say which stream, at which site, from where",
                remedy="Write it as Type@SITE=PATH: --source Vehicle@north=north.parquet",
            )
        network.number(site)
        if site in addresses.setdefault(stream, {}):
            raise InputError(f"two sources of stream '{stream}' at {site}", remedy="Put the files into one directory.")
        addresses[stream][site] = address
    return given_by_stream(graph, addresses, "source", "--source {}@SITE=PATH")


def _at_all_sites(source: str, network: Network) -> list[str]:
    stream, at, pattern = source.partition("@*=")
    if not at or "*" not in pattern:
        return [source]
    found = [(name, pattern.replace("*", name)) for name in network.names if Path(pattern.replace("*", name)).exists()]
    if not found:
        raise InputError(
            f"--source '{source}': there is no such file for any site of the network",
            remedy=f"The star stands for the name of a site: {pattern.replace('*', network.names[0])}",
        )
    return [f"{stream}@{name}={path}" for name, path in found]


def central_site(network: Network, sites: Sequence[str]) -> str:
    """The site to which these have the least latency together; of several, the first by name.

    >>> from situ.network.network import Link, Site
    >>> links = Link("edge", "hub", latency_ms=2), Link("hub", "root", latency_ms=10)
    >>> central_site(Network((Site("edge"), Site("hub"), Site("root")), links), ["edge", "root"])
    'edge'
    """
    latencies = np.sum([network.ways_from(network.number(site)).latency_ns for site in sites], axis=0)
    return min(network.names, key=lambda name: (int(latencies[network.number(name)]), name))


def functions_of(names: Sequence[str] | None = None) -> tuple[NamedFunction, ...]:
    """The users' functions that are registered here, as plans name them."""
    functions = [registered.lookup(name) for name in (registered.names if names is None else names)]
    return tuple(NamedFunction(f.name, str(f.returns), f.path) for f in functions if f is not None)


def gathered_plan(
    query: Path, graph: OperatorGraph, sources: SiteSources, network: Network, root: str, bounded: bool
) -> DeployedPlan:
    """All operators at one site, which gets all events and has the results, but for those of actors elsewhere."""
    operators = {operator.name: OperatorPlace(root) for operator in graph.operators}
    return deployed(query, sources, operators, network, root, bounded)


def placed_plan(
    query: Path, sources: SiteSources, problem: Problem, plan: Plan, bounded: bool, live: Sequence[str] = ()
) -> DeployedPlan:
    """What a mechanism says: where operators run, and in which steps they take their inputs."""
    operators = operator_places(problem, plan.placed, live)
    network = problem.network
    plain = deployed(query, sources, operators, network, network.names[problem.root], bounded)
    return replace(plain, predicted=_predicted(problem, plan))


def _predicted(problem: Problem, plan: Plan) -> PredictedRates:
    """What the cost model expects of a plan, for `situ status` to hold against what sites count."""
    names = problem.network.names
    links: dict[str, dict[str, dict[str, float]]] = {}
    for flow in flows_of(problem, plan.placed):
        way = [names[site] for site in way_of(problem.network, flow)]
        for path, kinds in ((way, flow.forth_per_s), (way[::-1], flow.back_per_s)):
            for a, b in pairwise(path):
                of_link = links.setdefault(a, {}).setdefault(b, {})
                for kind, per_s in kinds.items():
                    of_link[kind] = of_link.get(kind, 0.0) + per_s
    return PredictedRates({operator.name: problem.rates[operator.name] for operator in problem.operators}, links)


def write_placed_plan(query: Path, problem: Problem, plan: Plan, out: Path) -> None:
    """Writes what a mechanism says to a file that `situ deploy` takes. Sources are where the rates say that events
    occur."""
    graph, names = resolve(parse(query)), problem.network.names
    sources: SiteSources = {}
    for stream in graph.streams:
        if stream.name not in problem.sources:
            raise InputError(
                f"no operator reads stream {stream.name}, and no rate says where it occurs",
                place=str(query),
                remedy="Take it out of the query.",
            )
        sources[stream.name] = {names[site]: "" for site in problem.sources[stream.name].sites.tolist()}
    placed = with_ways(placed_plan(query, sources, problem, plan, bounded=False), problem.network)
    out.write_text(plan_to_json(placed) + "\n", encoding="utf-8")


def deployed(
    query: Path,
    sources: Mapping[str, Mapping[str, str]],
    operators: dict[str, OperatorPlace],
    network: Network,
    root: str,
    bounded: bool,
) -> DeployedPlan:
    text = read_text(query)
    return DeployedPlan(
        version=1,
        query=text,
        sources={stream: tuple(sorted(sites)) for stream, sites in sources.items()},
        operators=operators,
        results=(root,),
        functions=functions_of(),
        bounded=bounded,
        actors=actor_sites(parse(text), network),
    )


def plan_in_file(file: Path) -> DeployedPlan:
    """The plan that `situ plan --out` wrote."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"the plan cannot be read: {cause}", place=str(file)) from None
    return plan_of_json(text, str(file))


def with_live(plan: DeployedPlan, streams: Sequence[str]) -> DeployedPlan:
    """The plan, in which further streams happen now: their sources answer questions about time by their clocks."""
    for stream in streams:
        if stream not in plan.sources:
            raise InputError(
                f"--live {stream}: the query has no such stream", remedy=f"It has {', '.join(sorted(plan.sources))}."
            )
    if streams and plan.bounded:
        raise InputError("--live is for streams that happen now, and --once reads files", remedy="Leave out one.")
    return replace(plan, live=plan.live | {*streams})
