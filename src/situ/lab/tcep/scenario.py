"""The setting of TCEP's evaluation (section 6.1, Table 1 and Figure 8), as situ says it.

Two producers send what enters and what leaves sections of highways. For each query two window aggregates (the paper's
omega V1 and omega V2), a join of both, and a selection of what the join finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from situ.network.network import Link, Network, Site

#: The operators of one query, inputs first, and what the paper calls them.
OPERATORS: Mapping[str, str] = {"Entered": "V1", "Left": "V2", "Both": "join", "Busier": "selection"}
PRODUCERS, CONSUMER = {"V1": "p1", "V2": "p2"}, "consumer"
#: Where operators run before and after a transition: brokers next to the consumer, and next to the producers.
BEFORE, AFTER = ("b1", "b2", "b3", "b4"), ("b5", "b6", "b7", "b8")
#: A result for each highway every so many milliseconds: 50 in a second, as in the paper.
HIGHWAYS, EVERY_MS = 10, 200


@dataclass(frozen=True, slots=True)
class Moving:
    """A query, and where its operators run before and after a transition."""

    text: str
    before: Mapping[str, str]
    after: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TransitionSetting:
    """What a transition is tried in. Marked is what Table 1 says; the rest is ours.

    The paper counts 10 input events per second and query; here all queries read the same two streams.
    """

    window_s: float = 10.0  # paper: 5 to 50 s
    queries: int = 1  # paper: up to 50
    latency_ms: float = 20.0  # paper: at least 20 ms +- 10 ms, normally distributed; ours varies evenly
    jitter_ms: float = 10.0
    bytes_per_s: float = 1.25e6  # 10 Mbit/s: the paper does not say
    rows_per_s: float = 200.0  # of each producer
    pieces_per_s: float = 20.0  # as often rows leave a producer
    lead_s: float = 0.5  # from the decision about a version to its beginning, in event time


STREAMS = "\n".join(
    f"stream {stream}(highway int, section int, count int, ts int) time ts in us order section" for stream in PRODUCERS
)


def query_text(setting: TransitionSetting) -> str:
    """The query of Figure 8, so many times; queries are told apart by the section that they look at."""
    window = f"every {EVERY_MS} ms over {round(setting.window_s * 1000)} ms"
    lines = [STREAMS]
    for q in range(setting.queries):
        lines += [
            f"define Entered{q}(highway, count) aggr {window} detect V1(section = {q}) as v",
            "  assign highway = group.highway, count = sum(v.count) group by highway",
            f"define Left{q}(highway, count) aggr {window} detect V2(section = {q}) as v",
            "  assign highway = group.highway, count = sum(v.count) group by highway",
            f"define Both{q}(highway, inside) join every {EVERY_MS} ms on highway",
            f"  detect Entered{q} as a and Left{q} as b assign highway = a.highway, inside = a.count - b.count",
            f"subscribe Busier{q} detect Both{q}(inside > -1000000) as j assign highway = j.highway",
        ]
    return "\n".join(lines)


def network(setting: TransitionSetting) -> Network:
    """Ten brokers, of which two have the producers, and a consumer: every one is joined to every other, as in the
    paper's overlay network."""
    names = [*PRODUCERS.values(), *BEFORE, *AFTER, CONSUMER]
    links = [Link(a, b, setting.latency_ms) for n, a in enumerate(names) for b in names[:n]]
    return Network(tuple(map(Site, names)), tuple(links))


def moving_of(setting: TransitionSetting) -> Moving:
    """The query of Figure 8, all of whose operators of one kind move from one broker to one other."""
    before, after = (
        {f"{name}{q}": site for q in range(setting.queries) for name, site in zip(OPERATORS, brokers, strict=True)}
        for brokers in (BEFORE, AFTER)
    )
    return Moving(query_text(setting), before, after)
