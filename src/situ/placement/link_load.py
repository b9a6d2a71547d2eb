"""Plan -> flows between sites -> messages on every link. A link has one capacity for both of its directions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from situ.network.network import Link, Network
from situ.placement.coverage import Coverage
from situ.placement.evaluate import traffic_of
from situ.placement.plan import Placed
from situ.placement.problem import Problem
from situ.placement.words import Words, questions_of, words_of


@dataclass(frozen=True, slots=True)
class LinkFlow:
    """Events of one type on their way from one site to another. Requests go the other way.

    `pulled`: no reader there takes them in its first step. `words`: what is said beside events and requests; costs of
    plans, and loads of links, have none of it.
    """

    event: str
    start: int
    to: int
    messages_per_s: float
    requests_per_s: float
    pulled: bool
    words: Words = field(default_factory=Words)

    @property
    def load_per_s(self) -> float:
        """Events and requests."""
        return self.messages_per_s + self.requests_per_s

    @property
    def forth_per_s(self) -> dict[str, float]:
        """What goes from the origin to the reader, by what it is, in the words of `situ status`."""
        return {"events": self.messages_per_s, "promises": self.words.promises}

    @property
    def back_per_s(self) -> dict[str, float]:
        """What goes from the reader to the origin."""
        return {
            "requests": self.requests_per_s,
            "questions": self.words.questions,
            "acknowledgements": self.words.acknowledgements,
        }


@dataclass(frozen=True, slots=True)
class LinkLoad:
    """A link, and all messages on it per second."""

    link: Link
    messages_per_s: float


def flows_of(problem: Problem, placed: Sequence[Placed]) -> tuple[LinkFlow, ...]:
    """What a plan sends from each source to each reader, results to the root included.

    Messages are those of the model `coverage` where the plan was made with `paper`, whose costs are none.
    """
    problem = replace(problem, model=Coverage()) if problem.model.name == "paper" else problem
    pushed, questions = _pushed(problem, placed), questions_of(problem, placed)
    flows: list[LinkFlow] = []
    for sent in traffic_of(problem, placed):
        together = 1.0  # the part of events that do not come with others
        if sent.event in problem.number:
            starts = [(placed[problem.number[sent.event]].site, problem.rates[sent.event])]
            together = problem.bursts[sent.event] / max(problem.rates[sent.event], 1e-300)
        else:
            sources = problem.sources[sent.event]
            starts = list(zip(sources.sites.tolist(), sources.rates_per_s.tolist(), strict=True))
        pulled = (sent.to, sent.event) not in pushed
        window_s = _window_s(problem, placed, sent.event, sent.to) if pulled else 0.0
        for start, rate in starts:
            per_s = sent.fraction * rate, sent.requests_per_s
            asked = questions.get((sent.event, start, sent.to), 0.0)
            words = words_of(together * per_s[0], per_s[1], asked, window_s)
            flows.append(LinkFlow(sent.event, start, sent.to, *per_s, pulled, words))
    return tuple(flows)


def _pushed(problem: Problem, placed: Sequence[Placed]) -> set[tuple[int, str]]:
    """Sites, and events that some operator there takes first; and what the root gets."""
    pushed = {(problem.destination(number), problem.operators[number].name) for number in problem.outputs}
    for operator, where in zip(problem.operators, placed, strict=True):
        pushed |= {(where.site, operator.inputs[number].event) for number in where.steps[0]}
    return pushed


def _window_s(problem: Problem, placed: Sequence[Placed], event: str, site: int) -> float:
    """The longest window of the operators at a site that read an event."""
    reading = [operator for operator, where in zip(problem.operators, placed, strict=True)
               if where.site == site and event in operator.events]  # fmt: skip
    return max((operator.window_s for operator in reading), default=0.0)


def way_of(network: Network, flow: LinkFlow) -> list[int]:
    """The sites that a flow passes. All flows to one site share one tree of ways."""
    return network.ways_from(flow.to).path(flow.start)[::-1]


def messages_on_links(network: Network, flows: Iterable[LinkFlow]) -> tuple[LinkLoad, ...]:
    """What each link carries, in the order of the network's links; links without traffic are left out.

    >>> from situ.network.network import Site
    >>> sites = Site("edge"), Site("hub"), Site("root")
    >>> network = Network(sites, (Link("edge", "hub", 1.0), Link("root", "hub", 1.0)))
    >>> flows = LinkFlow("A", 0, 2, 5.0, 1.0, pulled=True), LinkFlow("B", 1, 2, 2.0, 0.0, pulled=False)
    >>> [(load.link.a, load.link.b, load.messages_per_s) for load in messages_on_links(network, flows)]
    [('edge', 'hub', 6.0), ('root', 'hub', 8.0)]
    """
    messages_per_s = _between(network, flows)
    between = [(link, tuple(sorted((network.number(link.a), network.number(link.b))))) for link in network.links]
    return tuple(LinkLoad(link, messages_per_s[ends]) for link, ends in between if ends in messages_per_s)


def _between(network: Network, flows: Iterable[LinkFlow]) -> dict[tuple[int, ...], float]:
    """Messages and requests per second between neighbouring sites, the lower number first."""
    messages_per_s: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for flow in flows:
        for a, b in pairwise(way_of(network, flow)):
            messages_per_s[min(a, b), max(a, b)] += flow.load_per_s
    return messages_per_s


def overloaded_links(problem: Problem, placed: Sequence[Placed]) -> tuple[LinkLoad, ...]:
    """The links that a plan sends more over than they can carry. Mechanisms do not look at it."""
    loads = messages_on_links(problem.network, flows_of(problem, placed))
    return tuple(load for load in loads if _is_too_much(load))


def _is_too_much(load: LinkLoad) -> bool:
    return load.link.capacity_per_s is not None and load.messages_per_s > load.link.capacity_per_s
