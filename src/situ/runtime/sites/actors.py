"""Actors: whoever acts on what a subscription finds (EdgeCEP, section III-C: the outputs of subscription tasks are
delivered to the destination broker).

The network file says at which site an actor is, and at which address that site writes to it. A plan names the site
alone: no plan makes a site write where its own network file does not say.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType

from situ.core.errors import InputError, did_you_mean
from situ.graph.query import Query
from situ.lang.parse import parse
from situ.network.network import Network
from situ.runtime.sites.deployed_plan import DeployedPlan, PlanError


def actors_of(query: Query) -> dict[str, str]:
    """By subscription that delivers to an actor, its name."""
    return {each.name: each.actor for each in query.subscriptions if each.actor is not None}


def actor_sites(query: Query, network: Network) -> dict[str, str]:
    """By actor of a query, its site; InputError if the network does not say where one is."""
    sites = {actor.name: actor.site for actor in network.actors}
    for subscription, actor in actors_of(query).items():
        if actor not in sites:
            raise InputError(
                f"subscription {subscription} delivers to {actor}, and the network does not say where that is",
                remedy=did_you_mean(actor, sites)
                if sites
                else f'Write into the network file: "actors": [{{"name": "{actor}", "site": "{network.names[0]}", '
                '"address": "mqtt://HOST/TOPIC"}].',
            )
    return {actor: sites[actor] for actor in actors_of(query).values()}


def require_actors(plan: DeployedPlan, query: Query) -> None:
    """PlanError if a plan has a site for an actor whom no subscription names."""
    named = {*actors_of(query).values()}
    for actor in sorted({*plan.actors} - named):
        raise PlanError(
            f"the plan delivers to actor {actor!r}, whom no subscription names", remedy=did_you_mean(actor, named)
        )


def require_address(plan: DeployedPlan, site: str, network: Network) -> None:
    """InputError if a plan delivers from a site to an actor of whom that site's network file says nothing."""
    here = {actor.name for actor in network.actors if actor.site == site}
    for actor, at in plan.actors.items():
        if at == site and actor not in here:
            raise InputError(
                f"the plan delivers to {actor} from {site}, which does not know at which address",
                remedy="Write into its network file: "
                f'"actors": [{{"name": "{actor}", "site": "{site}", "address": "mqtt://HOST/TOPIC"}}].',
            )


@lru_cache(maxsize=16)
def delivered_in(query: str) -> MappingProxyType[str, str]:
    """The same as `actors_of`, of a query that is given as a text."""
    return MappingProxyType(actors_of(parse(query)))
