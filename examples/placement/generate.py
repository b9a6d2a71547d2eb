"""An hour of events as `rates.json` says: three Parquet tables, in which `country` names the site, and a folder for
each of them with the events of each country by themselves.

python examples/placement/generate.py out/placement
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from situ.network.statistics import Statistics, read_statistics

HERE = Path(__file__).parent
SECONDS, HOSTS, SEED = 3_600, 20, 7


def tables(statistics: Statistics, seconds: float = SECONDS, seed: int = SEED) -> dict[str, pa.Table]:
    """Poisson processes at each site. The share of failed logins and of large flows, and how often two events are of
    one host, give the selectivities of the file."""
    rng = np.random.default_rng(seed)
    made = {}
    for stream, by_site in statistics.rates.items():
        counts = rng.poisson(np.array([*by_site.values()]) * seconds)
        countries = np.repeat([*by_site], counts)
        times_us = rng.integers(0, round(seconds * 1e6), len(countries))
        hosts = rng.integers(0, HOSTS, len(countries))
        chance = rng.uniform(size=len(countries))
        columns = {
            "country": pa.array(countries),
            "host": pa.array([f"host{host}" for host in hosts]),
            "ts": pa.array(times_us).cast(pa.timestamp("us", tz="UTC")),
        }
        columns |= {
            "Alert": {"rule": pa.array(np.where(chance < 0.5, "scan", "exploit"))},
            "Login": {"failed": pa.array(chance < statistics.selectivity["Intrusion.login"])},
            "Flow": {"megabytes": pa.array(100 * statistics.selectivity["Exfiltration.flow"] / chance)},
        }[stream]
        made[stream] = pa.table(columns).sort_by("ts")
    return made


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for stream, table in tables(read_statistics(HERE / "rates.json")).items():
        pq.write_table(table, directory / f"{stream}.parquet")
        (directory / stream).mkdir(exist_ok=True)
        for country in pc.unique(table.column("country")).to_pylist():
            of_country = table.filter(pc.equal(table.column("country"), country))
            pq.write_table(of_country, directory / stream / f"{country}.parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
