"""Four quarters of Ingolstadt and the town hall, five processes: one is killed, nothing is lost, and a picture.

    python examples/sites/sites.py            prints what it does, and writes out/sites.svg

The query looks for vehicles that brake hard in all four quarters within six seconds. It runs twice: once with all
events sent to town, once as `situ plan` places it, with hard braking found where it happens.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from situ.network.load import load_network
from situ.network.network import Network
from situ.runtime.embedded import Engine
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.process.deploying import Control
from situ.runtime.sites.process.local_sites import LocalSites, SiteArguments

HERE = Path(__file__).parent
QUERY = HERE / "town.situ"
STREAMS = {"north-west": "NorthWest", "north-east": "NorthEast", "south-west": "SouthWest", "south-east": "SouthEast"}
ROOT = "town"
KILLED = "north-east"
OUT = Path("out/sites.svg")


def gathered() -> DeployedPlan:
    """All operators in town."""
    names = [*(f"Braking{stream}" for stream in STREAMS.values()), "AllOverTown"]
    return plan_with({name: OperatorPlace(ROOT) for name in names})


def placed() -> DeployedPlan:
    """Hard braking is found where it happens: what `situ plan` says with the rates in rates.json."""
    braking = {f"Braking{stream}": OperatorPlace(site) for site, stream in STREAMS.items()}
    return plan_with(braking | {"AllOverTown": OperatorPlace(ROOT)})


def plan_with(operators: dict[str, OperatorPlace]) -> DeployedPlan:
    sources = {stream: (site,) for site, stream in STREAMS.items()}
    return DeployedPlan(1, QUERY.read_text(), sources, operators, (ROOT,), bounded=True)


def run(plan: DeployedPlan, kill: str | None) -> tuple[pa.Table, dict[str, int]]:
    """Runs a plan to its end: the complex events in town, and the bytes that each quarter has sent there."""
    network = load_network(HERE / "town.json")
    with tempfile.TemporaryDirectory(prefix="situ-town-") as work:
        out = Path(work, "out")
        arguments = {site: SiteArguments({stream: str(HERE / f"{site}.parquet")}) for site, stream in STREAMS.items()}
        sites = LocalSites(network, arguments | {ROOT: SiteArguments(out=str(out))}, Path(work, "sites"))
        try:
            sites.start()
            control = Control(sites.control, sites.addresses)
            print(f"  {control.deploy(plan, plan.sites).words()}")
            if kill is not None:
                sites.kill(kill)
                print(f"  {kill} is killed, and started again")
                sites.start([kill])
            while not is_over(control, network):
                pass
            sent = {site: sites.links[site, ROOT].bytes for site in STREAMS}
        finally:
            sites.close()
        return pq.read_table(out / "AllOverTown"), sent


def is_over(control: Control, network: Network) -> bool:
    reports = control.of_all(control.status, list(network.names)).values()
    return all(
        isinstance(report, dict) and report["versions"] and all(v["over"] for v in report["versions"].values())
        for report in reports
    )


def in_one_process() -> pa.Table:
    files = {stream: HERE / f"{site}.parquet" for site, stream in STREAMS.items()}
    return pa.concat_tables([output.complex_events["AllOverTown"] for output in Engine(QUERY).run(files)])


def draw(runs: dict[str, dict[str, int]], file: Path) -> None:
    """A star for each run; a link is as wide as what it carried."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    network = load_network(HERE / "town.json")
    places = {site.name: (site.x or 0.0, site.y or 0.0) for site in network.sites}
    most = max(count for sent in runs.values() for count in sent.values())
    figure, axes = plt.subplots(1, len(runs), figsize=(9, 4.2))
    for axis, (title, sent) in zip(axes, runs.items(), strict=True):
        for site, count in sent.items():
            (x, y), (town_x, town_y) = places[site], places[ROOT]
            axis.plot([x, town_x], [y, town_y], color="tab:blue", linewidth=1 + 14 * count / most, alpha=0.5)
            axis.annotate(f"{count / 1000:,.0f} KB", ((x + town_x) / 2, (y + town_y) / 2), ha="center", va="center")
        for name, (x, y) in places.items():
            axis.scatter([x], [y], s=90, color="black" if name == ROOT else "tab:orange", zorder=3)
            axis.annotate(name, (x, y), xytext=(0, 9), textcoords="offset points", ha="center")
        axis.set_title(f"{title}: {sum(sent.values()) / 1000:,.0f} KB", fontsize=11)
        axis.set(xlim=(-0.5, 2.5), ylim=(-0.3, 2.5))
        axis.axis("off")
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})


def same_rows(a: pa.Table, b: pa.Table) -> bool:
    order = [(name, "ascending") for name in a.column_names]
    return a.sort_by(order).equals(b.sort_by(order))


def main() -> None:
    expected = in_one_process()
    print(f"one process finds {expected.num_rows:,}")
    runs: dict[str, dict[str, int]] = {}
    for title, plan, kill in (
        ("all events to town", gathered(), None),
        ("braking found on the spot", placed(), KILLED),
    ):
        print(f"{title}:")
        found, runs[title] = run(plan, kill)
        assert same_rows(found, expected), "sites find something else than one process"
        print(f"  {found.num_rows:,} found, the same; {sum(runs[title].values()):,} bytes were sent to town")
    draw(runs, OUT)
    print(f"the picture is {OUT}")


if __name__ == "__main__":
    main()
