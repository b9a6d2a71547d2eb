"""Sites: a source site, an operator site and a root, three processes with TLS and journals on disk.

`python -m situ.bench.sites`, part of `make bench`. The clock of a run begins when the plan begins to run, and ends when
the root has written everything.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from situ.bench.measure import Timed
from situ.core.errors import SituError
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.network import Link, Network, Site
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.process.deploying import Control
from situ.runtime.sites.process.local_sites import LocalSites, SiteArguments

SOURCE, OPERATOR, ROOT = "source", "operator", "root"
NETWORK = Network((Site(SOURCE), Site(OPERATOR), Site(ROOT)), (Link(SOURCE, OPERATOR, 0), Link(OPERATOR, ROOT, 0)))
_LOOK_S = 0.02


def time_sites(text: str, directory: Path) -> Timed:
    """Times three sites, from files at the source to files at the root."""
    graph = resolve(parse(text, "benchmark"))
    (stream,) = graph.streams
    places = {operator.name: OperatorPlace(OPERATOR) for operator in graph.operators}
    plan = DeployedPlan(1, text, {stream.name: (SOURCE,)}, places, (ROOT,), bounded=True)
    with tempfile.TemporaryDirectory(prefix="situ-bench-") as work:
        out = Path(work, "out")
        arguments = {
            SOURCE: SiteArguments({stream.name: str(directory)}),
            OPERATOR: SiteArguments(),
            ROOT: SiteArguments(out=str(out)),
        }
        sites = LocalSites(NETWORK, arguments, Path(work, "sites"), scale=0, proxied=False)
        try:
            sites.start()
            control = Control(sites.control, sites.addresses)
            control.deploy(plan, NETWORK.names)
            begun = time.perf_counter()
            while not is_over(control):
                time.sleep(_LOOK_S)
            seconds = time.perf_counter() - begun
        finally:
            sites.close()
        names = [operator.name for operator in graph.subscriptions]
        return Timed(sum(pq.read_table(out / name).num_rows for name in names if (out / name).exists()), seconds)


def is_over(control: Control) -> bool:
    """Whether all sites have done all; SituError if one of them does not answer."""
    for site, report in control.of_all(control.status, [ROOT]).items():
        if isinstance(report, SituError):
            raise SituError(f"site {site} does not answer: {report.cause}")
        if not report["versions"] or not all(version["over"] for version in report["versions"].values()):
            return False
    return True
