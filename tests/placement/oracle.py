"""Cost and latency of a plan, straight from the words of the definition: loops over dicts, and networkx for ways.

Of situ it reads the data of a problem only. What is defined (see the docstrings of `coverage`, `paper_costs` and
`evaluate`):

- A pushed input costs, for each of its sources, rate x hops; a complex event's only source is its operator's site.
- coverage: of an input of a later step the fraction phi is sent, the product over the inputs of the earlier steps,
  rarest first (j = 1, 2, ...), of 1 - exp(-rate_j L_j), L_j = W (1 + 1 / j) for AND and W / j for SEQ. Requests begin
  lambda = -ln(1 - phi) / L times a second, L = 2 W for AND and W for SEQ; one is sent to every source where none is
  under way, so (1 - phi) of them.
- paper: state cost (hops x rate x 2 W) x state reachability (rates of this step, summed, x rate W of all before).
- Events that nobody reads go to the root, or to the destination that they have. A filter is applied at the source.
- Readers of a type at one site share what is sent. Those with one filter want the same events; otherwise they are
  independent. An operator that reads a type twice is one reader, whose filter is "one or the other".
- Latency: step 1 max(way + own), step k max(way + max(own, way + step k - 1)).
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

DIGITS = 10**30


class Way(NamedTuple):
    latency_ns: int
    hops: int
    price: float


class Told(NamedTuple):
    cost: float
    latency_ns: int
    output_ns: dict[str, int]
    load_per_s: dict[int, float]


def ways_of(problem: Any) -> dict[tuple[int, int], Way]:
    """The fastest way, of these the one of fewest hops, of these the cheapest: one number tells them apart."""
    network = problem.network
    numbers = {site.name: number for number, site in enumerate(network.sites)}
    graph = nx.Graph()
    graph.add_nodes_from(numbers.values())
    for link in network.links:
        latency_ns = round(link.latency_ms * 1e6)
        key = (latency_ns * DIGITS + link.hops) * DIGITS + round(link.price * 10**12)
        graph.add_edge(numbers[link.a], numbers[link.b], key=key, ns=latency_ns, hops=link.hops, price=link.price)
    ways = {}
    for start, paths in nx.all_pairs_dijkstra_path(graph, weight="key"):
        for end, path in paths.items():
            edges = [graph.edges[pair] for pair in itertools.pairwise(path)]
            ways[start, end] = Way(*(sum(edge[what] for edge in edges) for what in ("ns", "hops", "price")))
    return ways


def message_cost(problem: Any, way: Way) -> float:
    return way.price if problem.weight == "price" else way.hops


# ---- rates


def follow(rates: list[float], each: list[bool], window_s: float) -> float:
    """Expected number of ways in which events of these rates follow in order: nested Gauss-Legendre quadrature."""
    points, weights = np.polynomial.legendre.leggauss(40)

    def within(number: int, span: Any) -> Any:
        if number == len(rates):
            return np.ones_like(span)
        at = span[..., None] * (points + 1) / 2
        density = rates[number] * (1.0 if each[number] else np.exp(-rates[number] * at))
        return (density * within(number + 1, span[..., None] - at) * weights).sum(axis=-1) * span / 2

    return float(within(0, np.array(window_s)))


def output_rate(model: str, operator: Any, rates: list[float]) -> float:
    window_s, kind, size = operator.window_s, operator.kind.value, len(rates)
    if kind in ("OR", "other"):
        found = sum(rates) if operator.every_s is None else 1 / operator.every_s
    elif model == "paper":
        found = math.prod(rates) * window_s ** (size - 1)
    elif kind == "AND":
        found = size * window_s ** (size - 1) * math.prod(rates)
    elif all(operator.each):
        found = window_s ** (size - 1) / math.factorial(size - 1) * math.prod(rates)
    else:
        found = rates[0] * follow(rates[1:], list(operator.each), window_s)
    return found * operator.selectivity


def all_rates(problem: Any) -> dict[str, float]:
    rates = {event: float(sum(sources.rates_per_s)) for event, sources in problem.sources.items()}
    for operator in problem.operators:
        read = [rates[i.event] * i.share for i in operator.inputs]
        rates[operator.name] = output_rate(problem.model.name, operator, read)
    return rates


# ---- what is sent


def sent(model: str, operator: Any, rates: list[float], earlier: list[int], step: list[int]) -> tuple[float, float]:
    """Fraction, and how often requests begin."""
    window_s, kind = operator.window_s, operator.kind.value
    if kind not in ("SEQ", "AND"):
        return 1.0, 0.0
    if model == "paper":
        reach = 1.0
        for number in earlier:
            reach *= rates[number] * window_s
        return 2 * window_s * reach * sum(rates[number] for number in step), 0.0
    if not earlier:
        return 1.0, 0.0
    phi = 1.0
    for j, rate in enumerate(sorted(rates[number] for number in earlier), 1):
        length = window_s * (1 + 1 / j) if kind == "AND" else window_s / j
        phi *= 1 - math.exp(-rate * length)
    if phi == 1.0:
        return 1.0, 0.0
    return phi, -math.log(1 - phi) / (2 * window_s if kind == "AND" else window_s)


def either(fractions: list[float]) -> float:
    """1 - the product of (1 - fraction); fractions above 1, of which only `paper` has some, count as they are."""
    together = 1.0
    for fraction in fractions:
        together *= 1 - min(fraction, 1.0)
    return max([1 - together, *fractions])


def tell(problem: Any, placed: Any) -> Told:
    ways, rates, model = ways_of(problem), all_rates(problem), problem.model.name
    site_of = {operator.name: where.site for operator, where in zip(problem.operators, placed, strict=True)}
    sources = {e: list(zip(map(int, s.sites), s.rates_per_s, strict=True)) for e, s in problem.sources.items()}
    sources |= {name: [(site, rates[name])] for name, site in site_of.items()}
    wanted: dict[tuple[str, int], dict[str, list[tuple[float, float, float]]]] = {}
    load: dict[int, float] = {}
    own: dict[str, int] = {}
    for operator, where in zip(problem.operators, placed, strict=True):
        read = [rates[i.event] * i.share for i in operator.inputs]
        earlier: list[int] = []
        reached = 0
        for order, step in enumerate(where.steps):
            fraction, begin = sent(model, operator, read, earlier, list(step))
            for event in {operator.inputs[number].event for number in step}:
                shares = {i.filter: i.share for i in operator.inputs if i.event == event}
                passing = 1 - math.prod(1 - share for share in shares.values())
                by_filter = wanted.setdefault((event, where.site), {})
                by_filter.setdefault(" or ".join(sorted(shares)), []).append((passing, fraction, begin))
            arrivals = []
            for number in step:
                i = operator.inputs[number]
                load[where.site] = load.get(where.site, 0.0) + min(fraction, 1.0) * read[number]
                way = max(ways[site, where.site].latency_ns for site, _ in sources[i.event])
                before = own.get(i.event, 0)
                arrivals.append(way + before if order == 0 else way + max(before, way + reached))
            reached = max(arrivals)
            earlier += step
        own[operator.name] = reached
    cost = 0.0
    for (event, site), by_filter in wanted.items():
        fractions, requests = [], 0.0
        for readers in by_filter.values():
            covered = either([fraction for _, fraction, _ in readers])
            fractions.append(readers[0][0] * covered)
            requests += sum(begin for _, _, begin in readers) * max(0.0, 1 - covered)
        for source, rate in sources[event]:
            cost += message_cost(problem, ways[source, site]) * (rate * either(fractions) + requests)
    read_by_some = {i.event for operator in problem.operators for i in operator.inputs}
    outputs = [name for name in site_of if name not in read_by_some]
    home = {name: ways[site_of[name], problem.destinations.get(name, problem.root)] for name in outputs}
    output_ns = {name: own[name] + home[name].latency_ns for name in outputs}
    cost += sum(message_cost(problem, home[name]) * rates[name] for name in outputs)
    return Told(cost, max(output_ns.values()), output_ns, load)
