"""A mobile fraud case study like PaNORAMA's (section 7.3). Its data are not public: this one is made up.

A group of customers is watched, who telephone from some antennas near one another. Five primitive events occur there,
as shares of their calls; the shares are drawn anew for each case, around those below, and so is the window.

| event | what | calls |
| --- | --- | --- |
| PE1 | to a premium location | 1 in 10,000 |
| PE2 | longer than an hour | 1 in 200 |
| PE3 | dearer than 100 units | 1 in 500 |
| PE4 | longer than is usual for this customer, by two standard deviations | 1 in 22 |
| PE5 | dearer than is usual for this customer, by two standard deviations | 1 in 22 |

A call to a premium location with one that is dearer than usual after it (PE1, PE5) is suspicious; with calls that are
long, and longer than usual (PE2, PE4), it is alarming; and with a dear one (PE3) it is fraud.
"""

from __future__ import annotations

import numpy as np

from situ.lab.panorama.experiments.cases import PlacementCase, selectivities
from situ.lab.panorama.experiments.scatter import scatter
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.network import Network
from situ.network.statistics import Statistics

CALLS_PER_S = 60.0
SHARES = {"PE1": 1 / 10_000, "PE2": 1 / 200, "PE3": 1 / 500, "PE4": 1 / 22, "PE5": 1 / 22}
SPREAD = 0.5  # of the logarithm of a share
WINDOWS_S = (2.0, 10.0)
ANTENNAS = 10
DIAMETER_HOPS = 50
SKEW = 0.5  # some antennas see more calls than others

QUERY = """
stream PE1(ts timestamp) time ts
stream PE2(ts timestamp) time ts
stream PE3(ts timestamp) time ts
stream PE4(ts timestamp) time ts
stream PE5(ts timestamp) time ts

define Suspicious(ts)
  detect PE1 as premium then each PE5 as dearer within {window_us} us
  assign ts = premium.ts
define Alarming(ts)
  detect Suspicious as suspicious and PE2 as long and PE4 as longer within {window_us} us
  assign ts = suspicious.ts
subscribe Fraud
  detect Alarming as alarming and PE3 as dear within {window_us} us
  assign ts = alarming.ts
"""


def fraud_case(network: Network, rng: np.random.Generator, antennas: int = ANTENNAS) -> PlacementCase:
    """One group of customers. All events occur at the same antennas.

    >>> from situ.network.generate import random_geometric
    >>> case = fraud_case(random_geometric(50, np.random.default_rng(1)), np.random.default_rng(2))
    >>> list(case.statistics.rates["PE1"]) == list(case.statistics.rates["PE5"])
    True
    """
    window_us = round(float(np.exp(rng.uniform(*np.log(WINDOWS_S)))) * 1e6)
    text = QUERY.format(window_us=window_us)
    graph = resolve(parse(text))
    calls = scatter(network, CALLS_PER_S, rng, antennas, DIAMETER_HOPS, SKEW)
    shares = {event: share * float(np.exp(rng.normal(0.0, SPREAD))) for event, share in SHARES.items()}
    rates = {event: {site: share * rate for site, rate in calls.items()} for event, share in shares.items()}
    root = network.names[int(rng.integers(len(network.sites)))]
    return PlacementCase(text, graph, Statistics(rates, selectivities(graph, rates)), network, root)
