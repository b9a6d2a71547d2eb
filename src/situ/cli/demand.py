"""`situ demand` and `situ adapt`: what is demanded of sites that run, and whether they see to it by themselves."""

from __future__ import annotations

from typing import Any

from situ.cli.controlling import control_of
from situ.cli.site_options import AdaptOptions, DemandOptions
from situ.lang.demands import parse_demands
from situ.lang.unparse import unparse_demand
from situ.runtime.sites.messages import Adapt, ChangeDemands


def change_demands(options: DemandOptions) -> dict[str, Any]:
    """Has the coordinator hold a subscription to other demands."""
    demands = parse_demands(options.demands, options.subscription)  # a slip is said before anybody is asked
    site = control_of(options.control).tell_coordinator(ChangeDemands(options.subscription, options.demands))
    said = [unparse_demand(demand) for demand in demands]
    words = f"{options.subscription} demands {', '.join(said) or 'nothing'}: {site} sees to it"
    return {"subscription": options.subscription, "demands": said, "coordinator": site, "words": words}


def adapt_sites(options: AdaptOptions) -> dict[str, Any]:
    """Lets the coordinator move operators by itself, or no longer."""
    is_on = options.how == "on"
    site = control_of(options.control).tell_coordinator(Adapt(is_on))
    what = "moves operators where demands are broken" if is_on else "moves operators no longer by itself"
    return {"adapts": is_on, "coordinator": site, "words": f"{site} {what}"}
