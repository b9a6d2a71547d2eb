"""A plan that sites run: which operator where, where streams have sources, who wants the results. JSON, never code.

```json
{"version": 1, "query": "stream Vehicle(...) ... subscribe HardBraking ...",
 "sources": {"Vehicle": ["north", "south"]}, "operators": {"HardBraking": {"site": "north"}}, "results": ["town"]}
```

Version v holds for event times from its `starts_us` to that of version v + 1. An operator that is the same in both is
carried on (`"from": "south"`, the site where it ran): it goes on with its state; `"by"` says how it comes there.

What a subscription finds that delivers to an actor (`Subscription seq 1 from User1 to AirController`) goes to the site
that `"actors": {"AirController": "hall"}` names, and there to the address that the site's network file has.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

from situ.core.errors import SituError
from situ.core.time import BEGINNING, END
from situ.graph.query import Subscription
from situ.runtime.sites.messages import LONGEST_DOCUMENT


class PlanError(SituError):
    """A plan that sites cannot run: it names what is not there, or says what none says."""


@dataclass(frozen=True, slots=True)
class NamedFunction:
    """A user's function, which every site imports: its name in the query, its type, and `module:qualname`."""

    name: str
    returns: str
    path: str


#: How an operator that is carried on comes to its new site. `naive`: its state, when it has read all of the version
#: before. `mfgs`: its state at once, then what it reads meanwhile. `sms`: it finishes at the old site what began there.
Strategy = Literal["naive", "mfgs", "sms"]


@dataclass(frozen=True, slots=True)
class OperatorPlace:
    """Where an operator runs. `steps` are those of push and pull, by event type; none: all inputs are pushed.

    `carried_from`: the site at which it ran in the version before, and from which it takes its state over, by a
    strategy; without one, it begins without state.
    """

    site: str
    steps: tuple[tuple[str, ...], ...] = ()
    carried_from: str | None = None
    strategy: Strategy = "naive"

    @property
    def finished_at(self) -> str | None:
        """The site at which an instance with the state of the version before finishes what began before the cut, if
        there is one; the instance at `site` then begins without state."""
        return self.carried_from if self.strategy == "sms" else None

    @property
    def sites(self) -> tuple[str, ...]:
        """All sites at which an instance of it runs."""
        return (self.site,) if self.finished_at is None else (self.site, self.finished_at)

    @property
    def state_goes_to(self) -> str:
        """The site that takes over the state of the version before."""
        return self.finished_at or self.site


@dataclass(frozen=True, slots=True)
class PredictedRates:
    """What a plan is expected to do: complex events per second by operator, and messages per second by link, from one
    site to another, and by what they are."""

    operators: Mapping[str, float] = field(default_factory=dict)
    links: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)

    def at(self, site: str, here: Iterable[str] = ()) -> PredictedRates:
        """What concerns one site: what it sends, and these operators."""
        operators = {name: self.operators[name] for name in here if name in self.operators}
        return PredictedRates(operators, {site: self.links[site]} if site in self.links else {})

    def to_json(self) -> dict[str, Any]:
        links = {a: {b: dict(kinds) for b, kinds in to.items()} for a, to in self.links.items()}
        return {"operators": dict(self.operators), "links": links}


@dataclass(frozen=True)
class DeployedPlan:
    """What `situ deploy` gives to all sites.

    `live` streams happen now, so their sources answer questions about time by the clock. `bounded`: all sources end,
    so rules without a window are allowed. `silent_since_us`: when silences that come first begin. `ways`: by site that
    is written to, which site comes after which on the way there; sites without one are joined to all. `predicted`: what
    whoever made the plan expects; sites do not look at it, and `situ status` holds it against what they count.
    `actors`: by actor, the site that delivers to it; what others find goes to `results`.
    """

    version: int
    query: str
    sources: Mapping[str, tuple[str, ...]]
    operators: Mapping[str, OperatorPlace]
    results: tuple[str, ...]
    functions: tuple[NamedFunction, ...] = ()
    live: frozenset[str] = frozenset()
    bounded: bool = False
    starts_us: int = BEGINNING
    silent_since_us: int | None = None
    ways: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    predicted: PredictedRates = field(default_factory=PredictedRates)
    actors: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """All sites that have a part in it, relays included."""
        named = {site for of_stream in self.sources.values() for site in of_stream}
        named |= {site for to, onward in self.ways.items() for site in (to, *onward)}
        named |= {place.site for place in self.operators.values()} | {*self.results, *self.actors.values()}
        named |= {place.carried_from for place in self.operators.values() if place.carried_from is not None}
        return tuple(sorted(named))

    @cached_property
    def digest(self) -> str:
        """A short hash of all that it says."""
        return hashlib.sha256(plan_to_json(self).encode()).hexdigest()[:16]

    def way(self, start: str, to: str) -> tuple[str, ...]:
        """The sites on the way from one to another, without the first."""
        onward, way = self.ways.get(to, {}), [start]
        while way[-1] in onward and len(way) <= len(onward):
            way.append(onward[way[-1]])
        return tuple(way[1:]) if way[-1] == to else (to,)

    @property
    def joined(self) -> set[tuple[str, str]] | None:
        """The pairs of sites of which the first sends to the second; None where there are no ways, and all may."""
        return {hop for onward in self.ways.values() for hop in onward.items()} if self.ways else None

    def wanted_at(self, subscription: Subscription | None) -> tuple[str, ...]:
        """The sites to which the complex events of a rule go: that of its actor, or those that want all results;
        nowhere, if it is no subscription."""
        if subscription is None:
            return ()
        site = self.actors.get(subscription.actor or "")
        return self.results if site is None else (site,)

    def starting_at(self, starts_us: int) -> DeployedPlan:
        return replace(self, starts_us=starts_us)


def plan_to_json(plan: DeployedPlan) -> str:
    """The plan as a text; `plan_of_json` reads it back."""
    operators = {
        name: {"site": place.site}
        | ({"steps": [list(step) for step in place.steps]} if place.steps else {})
        | ({"from": place.carried_from} if place.carried_from is not None else {})
        | ({"by": place.strategy} if place.strategy != "naive" else {})
        for name, place in plan.operators.items()
    }
    functions = [{"name": f.name, "returns": f.returns, "path": f.path} for f in plan.functions]
    said = {
        "version": plan.version,
        "query": plan.query,
        "sources": {stream: list(sites) for stream, sites in plan.sources.items()},
        "operators": operators,
        "results": list(plan.results),
        "functions": functions,
        "live": sorted(plan.live),
        "bounded": plan.bounded,
        "starts_us": None if plan.starts_us == BEGINNING else plan.starts_us,
        "silent_since_us": plan.silent_since_us,
        "ways": {to: dict(onward) for to, onward in plan.ways.items()},
    }
    if plan.actors:
        said["actors"] = dict(plan.actors)
    if plan.predicted != PredictedRates():
        said["predicted"] = plan.predicted.to_json()
    return json.dumps(said, indent=1, ensure_ascii=False)


_NEEDED = ("version", "query", "sources", "operators", "results")
_OPTIONAL = ("functions", "live", "bounded", "starts_us", "silent_since_us", "ways", "predicted", "actors")


def plan_of_json(text: str, place: str = "the plan") -> DeployedPlan:
    """The plan that a text says; PlanError if it says none.

    >>> plan_of_json('{"version": 1}')
    Traceback (most recent call last):
    situ.runtime.sites.deployed_plan.PlanError: the plan: has no 'query'.
      Make it with `situ plan ... --out plan.json`.
    """
    reader = _Reader(place)
    if len(text) > LONGEST_DOCUMENT:
        raise reader.wrong(f"has {len(text):,} characters, and at most {LONGEST_DOCUMENT:,} are taken")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise reader.wrong(f"is no JSON: {error}") from None
    said = reader.expect_object(said, "it", _NEEDED, _OPTIONAL)
    operators = {
        name: reader.operator(value, f"operators.{name}")
        for name, value in reader.expect_object(said["operators"], "operators").items()
    }
    starts_us = said.get("starts_us")
    return DeployedPlan(
        version=reader.whole(said["version"], "version", 1),
        query=reader.text(said["query"], "query"),
        sources={
            stream: tuple(reader.texts(sites, f"sources.{stream}"))
            for stream, sites in reader.expect_object(said["sources"], "sources").items()
        },
        operators=operators,
        results=tuple(reader.texts(said["results"], "results")),
        functions=tuple(reader.function(each) for each in reader.expect_list(said.get("functions", []), "functions")),
        live=frozenset(reader.texts(said.get("live", []), "live")),
        bounded=reader.truth(said.get("bounded", False), "bounded"),
        starts_us=BEGINNING if starts_us is None else reader.whole(starts_us, "starts_us", BEGINNING),
        silent_since_us=None
        if said.get("silent_since_us") is None
        else reader.whole(said["silent_since_us"], "silent_since_us", BEGINNING),
        ways={
            to: {site: reader.text(after, "ways") for site, after in reader.expect_object(onward, f"ways.{to}").items()}
            for to, onward in reader.expect_object(said.get("ways", {}), "ways").items()
        },
        predicted=reader.predicted(said.get("predicted", {})),
        actors={
            actor: reader.text(site, f"actors.{actor}")
            for actor, site in reader.expect_object(said.get("actors", {}), "actors").items()
        },
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads values, and says of what is wrong where it is."""

    place: str

    def wrong(self, cause: str) -> PlanError:
        return PlanError(cause, place=self.place, remedy="Make it with `situ plan ... --out plan.json`.")

    def expect_object(
        self, value: object, where: str, needed: Iterable[str] = (), optional: Iterable[str] = ()
    ) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong(f"{where} is no object")
        for name in needed:
            if name not in value:
                raise self.wrong(f"has no {name!r}")
        allowed = {*needed, *optional}
        if allowed and (others := sorted({*value} - allowed)):
            raise self.wrong(f"{where} has {others[0]!r}, which nobody knows")
        return value

    def expect_list(self, value: object, where: str) -> list[Any]:
        if not isinstance(value, list):
            raise self.wrong(f"{where} is no list")
        return value

    def text(self, value: object, where: str) -> str:
        if not isinstance(value, str):
            raise self.wrong(f"{where} is no text")
        return value

    def texts(self, value: object, where: str) -> list[str]:
        texts = [self.text(each, where) for each in self.expect_list(value, where)]
        if len({*texts}) < len(texts):
            raise self.wrong(f"{where} names one twice")
        return texts

    def whole(self, value: object, where: str, least: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= END:
            raise self.wrong(f"{where} is {value!r}")
        return value

    def predicted(self, value: object) -> PredictedRates:
        said = self.expect_object(value, "predicted", (), ("operators", "links"))
        links = self.expect_object(said.get("links", {}), "predicted.links")
        return PredictedRates(
            self.numbers(said.get("operators", {}), "predicted.operators"),
            {
                a: {
                    b: self.numbers(kinds, "predicted.links")
                    for b, kinds in self.expect_object(to, "predicted.links").items()
                }
                for a, to in links.items()
            },
        )

    def numbers(self, value: object, where: str) -> dict[str, float]:
        numbers = self.expect_object(value, where)
        for number in numbers.values():
            if not isinstance(number, int | float) or isinstance(number, bool) or not 0 <= number < math.inf:
                raise self.wrong(f"{where} has {number!r}, which is no rate")
        return {name: float(number) for name, number in numbers.items()}

    def truth(self, value: object, where: str) -> bool:
        if not isinstance(value, bool):
            raise self.wrong(f"{where} is neither true nor false")
        return value

    def operator(self, value: object, where: str) -> OperatorPlace:
        said = self.expect_object(value, where, ("site",), ("steps", "from", "by"))
        steps = tuple(tuple(self.texts(step, where)) for step in self.expect_list(said.get("steps", []), where))
        carried_from = self.text(said["from"], where) if "from" in said else None
        site, strategy = self.text(said["site"], where), said.get("by", "naive")
        if strategy not in get_args(Strategy):
            raise self.wrong(f"{where} moves by {strategy!r}, and not by one of {', '.join(get_args(Strategy))}")
        if strategy != "naive" and carried_from in (None, site):
            raise self.wrong(f"{where} moves by {strategy}, and not from another site")
        return OperatorPlace(site, steps, carried_from, strategy)

    def function(self, value: object) -> NamedFunction:
        said = self.expect_object(value, "functions", ("name", "returns", "path"), ())
        return NamedFunction(*(self.text(said[name], "functions") for name in ("name", "returns", "path")))
