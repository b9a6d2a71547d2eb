"""Sites and the links between them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from situ.core.errors import SituError, did_you_mean
from situ.kernel.arrays import I64
from situ.network import ways
from situ.network.ways import Matrices, Ways

LONGEST_MS = 86_400_000.0  # a day: sums over 100,000 links still fit into whole nanoseconds
LARGEST = 1e12  # of all other numbers: sums of hops fit as well
CACHED_BYTES = 1 << 30  # ways from single sites that are kept
FEW = 20  # names that fit into a message


class NetworkError(SituError):
    """The network, or what is said of its sites, is no use: an unknown site, a negative latency, parts apart."""


#: The engine of a site whose operators Spark runs, and how often it begins a batch, if nothing is said.
SPARK, TRIGGER_MS = "spark", 100.0


@dataclass(frozen=True, slots=True)
class Site:
    """A place where events are observed and operators may run."""

    name: str
    x: float | None = None  # metres, or degrees of longitude where geographic
    y: float | None = None
    operators: int | None = None  # at most so many operators may run here (None: no limit)
    load_per_s: float | None = None  # at most so many input events per second for its operators
    address: str | None = None  # HOST:PORT at which its process listens
    channel_per_s: float | None = None  # at most so many messages per second that it sends, receives or passes on
    engine: str | None = None  # what runs its operators: "embedded" (if nothing is said) or "spark"
    trigger_ms: float | None = None  # how often a Spark site begins a batch, if something has come

    @property
    def delay_ms(self) -> float:
        """How long, at most, events wait here until operators read them: on Spark, for the next batch."""
        return (TRIGGER_MS if self.trigger_ms is None else self.trigger_ms) if self.engine == SPARK else 0.0


@dataclass(frozen=True, slots=True)
class Link:
    """Joins two sites, in both directions."""

    a: str
    b: str
    latency_ms: float
    hops: int = 1  # 0: traffic on it costs nothing
    price: float = 1.0  # per message
    capacity_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Actor:
    """Whoever acts on what subscriptions find (`Subscription seq 1 from User1 to AirController`): the site that
    delivers to it, and where that site writes: a directory, or the address of a topic or a database."""

    name: str
    site: str
    address: str


@dataclass(frozen=True, slots=True)
class Brokers:
    """How the sites of a network decide among themselves where operators run (EdgeCEP): each tells those that are at
    most `radius` links away what it knows, once in `period_s`. A plan that is better by `margin` becomes the next
    version, which begins `lead_s` of event time after the latest event."""

    radius: int
    period_s: float = 5.0
    margin: float = 0.05
    lead_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Coordination:
    """Who moves the operators of plans that run, and when it does so by itself (TCEP): a site that looks at all others
    once in `period_s`. Without one it is the first site to which results go.

    A demand has to be broken for `patience_s`; the new version of the plan begins `lead_s` of event time after the
    latest event; nothing is decided for `settle_s` after it has come. A site that does not answer a plan for
    `timeout_s` refuses it. A transition pays if the time in which demands would be broken without it, up to
    `horizon_s`, is worth more than its own time and overhead, in KB, by their weights. The last scores of mechanisms
    count by `decay`, and the worst of N mechanisms is chosen with the probability `worst` / N.
    """

    site: str
    period_s: float = 2.0
    patience_s: float = 5.0
    lead_s: float = 2.0
    settle_s: float = 10.0
    timeout_s: float = 30.0
    horizon_s: float = 60.0
    time_weight: float = 1.0
    overhead_weight: float = 0.001
    decay: float = 0.5
    worst: float = 0.2


@dataclass(frozen=True)
class Network:
    """A connected network. Sites are known by name outside, by number (their position) inside.

    >>> links = Link("edge", "hub", latency_ms=2.5), Link("hub", "root", latency_ms=10)
    >>> network = Network((Site("edge"), Site("hub"), Site("root")), links)
    >>> ways = network.ways_from(network.number("edge"))
    >>> int(ways.latency_ns[network.number("root")]), int(ways.hops[network.number("root")])
    (12500000, 2)
    """

    sites: tuple[Site, ...]
    links: tuple[Link, ...]
    actors: tuple[Actor, ...] = ()
    brokers: Brokers | None = None
    coordinator: Coordination | None = None

    def __post_init__(self) -> None:
        _check_sites(self.sites)
        _check_links(self.links, self._numbers)
        _check_actors(self.actors, self._numbers)
        _check_brokers(self.brokers)
        _check_coordinator(self.coordinator, self._numbers)
        _check_connected(self)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(site.name for site in self.sites)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def _adjacency(self) -> ways.Adjacency:
        ends = np.array([(self._numbers[link.a], self._numbers[link.b]) for link in self.links], np.int64)
        latency_ms = np.array([link.latency_ms for link in self.links], np.float64)
        hops = np.array([link.hops for link in self.links], np.int64)
        price = np.array([link.price for link in self.links], np.float64)
        latency_ns = np.rint(latency_ms * 1e6).astype(np.int64)
        return ways.adjacency(len(self.sites), ends.reshape(-1, 2), latency_ns, hops, price)

    @cached_property
    def _ways(self) -> dict[int, Ways]:
        return {}

    @cached_property
    def _ways_among_all(self) -> Matrices:
        return ways.ways_among(range(len(self.sites)), self._adjacency)

    def number(self, name: str) -> int:
        """The site's position in `sites`."""
        try:
            return self._numbers[name]
        except KeyError:
            raise NetworkError(f"there is no site {name!r}", remedy=suggestion(name, self._numbers)) from None

    def neighbours(self, site: int) -> I64:
        """The numbers of the sites that a link joins with this one, in order."""
        links = self._adjacency
        return links.target[links.offset[site] : links.offset[site + 1]]

    def ways_from(self, site: int) -> Ways:
        """The ways from a site to all, or the other way round: links run in both directions."""
        cached = self._ways
        ways_of_site = cached.get(site)
        if ways_of_site is None:
            if len(cached) >= max(CACHED_BYTES // (32 * len(self.sites)), 1):
                del cached[next(iter(cached))]
            ways_of_site = cached[site] = ways.ways_from(site, self._adjacency)
        return ways_of_site

    def ways_among(self, sites: Sequence[int] | None = None) -> Matrices:
        """One row of ways for each of the sites; for all of them, a matrix of the square of their number."""
        return self._ways_among_all if sites is None else ways.ways_among(sites, self._adjacency)


def suggestion(name: str, names: Collection[str]) -> str:
    """The remedy line for an unknown name; lists the known ones only if they are few.

    >>> suggestion("Pariss", ["Paris", "Athens"])
    "known: Athens, Paris. Did you mean 'Paris'?"
    """
    if len(names) <= FEW:
        return did_you_mean(name, names)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean '{close[0]}'?" if close else f"Known are {', '.join(sorted(names)[:3])}, ..."
    return f"There are {len(names)} names. {hint}"


def _check_sites(sites: Sequence[Site]) -> None:
    if not sites:
        raise NetworkError("the network has no sites", remedy="Give it one site at least.")
    names: set[str] = set()
    for site in sites:
        place = f"site {site.name!r}"
        if site.name in names:
            raise NetworkError("two sites have this name", place=place, remedy="Give each site a name of its own.")
        names.add(site.name)
        if (site.x is None) != (site.y is None):
            raise NetworkError("has one coordinate only", place=place, remedy="Give both x and y, or neither.")
        if site.x is not None and site.y is not None and not (abs(site.x) <= LARGEST and abs(site.y) <= LARGEST):
            raise NetworkError(f"lies at ({site.x}, {site.y})", place=place, remedy="Coordinates are finite numbers.")
        for field, value in (("operators", site.operators), ("load_per_s", site.load_per_s)):
            if value is not None:
                _check_number(place, field, value)
        if site.channel_per_s is not None:
            _check_capacity(place, "channel_per_s", site.channel_per_s)


def _check_links(links: Sequence[Link], numbers: dict[str, int]) -> None:
    linked: set[tuple[str, str]] = set()
    for link in links:
        place = f"link {link.a!r} - {link.b!r}"
        for end in (link.a, link.b):
            if end not in numbers:
                raise NetworkError(f"there is no site {end!r}", place=place, remedy=suggestion(end, numbers))
        if link.a == link.b:
            raise NetworkError("leads from a site to itself", place=place, remedy="Leave it out.")
        ends = (link.a, link.b) if link.a < link.b else (link.b, link.a)
        if ends in linked:
            raise NetworkError("joins two sites that another link joins", place=place, remedy="Keep one of the two.")
        linked.add(ends)
        _check_number(place, "latency_ms", link.latency_ms, LONGEST_MS)
        _check_number(place, "hops", link.hops)
        _check_number(place, "price", link.price)
        if link.capacity_per_s is not None:
            _check_capacity(place, "capacity_per_s", link.capacity_per_s)


def _check_actors(actors: Sequence[Actor], numbers: dict[str, int]) -> None:
    names: set[str] = set()
    for actor in actors:
        place = f"actor {actor.name!r}"
        if actor.name in names:
            raise NetworkError("two actors have this name", place=place, remedy="Give each actor a name of its own.")
        names.add(actor.name)
        if actor.site not in numbers:
            raise NetworkError(f"there is no site {actor.site!r}", place=place, remedy=suggestion(actor.site, numbers))
        if not actor.address:
            raise NetworkError(
                "has no address", place=place, remedy="Give a directory, mqtt://HOST/TOPIC, kafka:// or postgresql://."
            )


def _check_brokers(brokers: Brokers | None) -> None:
    if brokers is None:
        return
    _check_number("brokers", "radius", brokers.radius)
    for name, value, most in (
        ("period_s", brokers.period_s, 86_400),
        ("margin", brokers.margin, 1),
        ("lead_s", brokers.lead_s, 86_400),
    ):
        if not 0 < value <= most:
            remedy = f"{name} is above 0, and at most {most:,}."
            raise NetworkError(f"{name} is {value}", place="brokers", remedy=remedy)


def _check_coordinator(coordinator: Coordination | None, numbers: dict[str, int]) -> None:
    if coordinator is None:
        return
    place, site = "coordinator", coordinator.site
    if site not in numbers:
        raise NetworkError(f"there is no site {site!r}", place=place, remedy=suggestion(site, numbers))
    for name in ("period_s", "patience_s", "lead_s", "settle_s", "timeout_s", "horizon_s"):
        if not 0 < (value := getattr(coordinator, name)) <= 86_400:
            raise NetworkError(f"{name} is {value}", place=place, remedy=f"{name} is above 0, and at most 86,400.")
    for name, least, most in (("time_weight", 0, 1e9), ("overhead_weight", 0, 1e9), ("decay", 0, 1), ("worst", 0, 1)):
        if not least <= (value := getattr(coordinator, name)) <= most:
            raise NetworkError(
                f"{name} is {value}", place=place, remedy=f"{name} is {least} at least, {most:g} at most."
            )


def _check_capacity(place: str, field: str, value: float) -> None:
    if value == 0:
        raise NetworkError(
            f"{field} is 0: nothing can pass", place=place, remedy=f"Give a {field} above 0, or leave out the {place}."
        )
    _check_number(place, field, value)


def _check_number(place: str, field: str, value: float, most: float = LARGEST) -> None:
    if not 0 <= value <= most:  # nor NaN
        raise NetworkError(f"{field} is {value}", place=place, remedy=f"{field} is a number from 0 to {most:,.0f}.")
    if field in ("hops", "operators", "radius") and value != int(value):
        raise NetworkError(f"{field} is {value}", place=place, remedy=f"{field} is a whole number.")


def _check_connected(network: Network) -> None:
    parts = [(len(part), network.names[min(part)]) for part in _parts(network)]
    if len(parts) > 1:
        parts.sort(key=lambda part: -part[0])
        named = ", ".join(f"{size} with {name!r}" for size, name in parts[:5]) + (", ..." if len(parts) > 5 else "")
        raise NetworkError(
            f"the network falls into {len(parts)} parts: {named}",
            remedy="Add links between the parts, or leave out all but one of them.",
        )


def _parts(network: Network) -> Iterator[list[int]]:
    """The sites that can reach each other, part by part."""
    links = network._adjacency
    offset, target = links.offset.tolist(), links.target.tolist()
    reached = [False] * len(network.sites)
    for start in range(len(reached)):
        if reached[start]:
            continue
        reached[start], part = True, [start]
        for site in part:  # grows while it is read
            for other in target[offset[site] : offset[site + 1]]:
                if not reached[other]:
                    reached[other] = True
                    part.append(other)
        yield part
