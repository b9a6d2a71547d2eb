"""Traces of traffic that SUMO simulates: how they are read, and how the one of a town of rings is made.

`python -m situ.lab.sumo_trace vehicles.parquet` simulates it, with PyPI's `eclipse-sumo`, which nothing else needs.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from situ.core.errors import SituError

#: Columns in hundredths, as SUMO rounds them, by the names that they have in metres.
HUNDREDTHS = {"x": "x_cm", "y": "y_cm", "speed": "speed_cm_per_s", "acceleration": "acceleration_cm_per_s2"}
SEED, SECONDS, SECONDS_BETWEEN_CARS = 1, 1200, 0.6
#: So great a part of the trips leads to roads that begin within so many metres of the middle of the town.
COMMUTERS, MIDDLE_M = 0.75, 400.0


def read_trace(file: Path) -> pa.Table:
    """A trace by time, then vehicle: time_us, vehicle, x, y (m), speed (m/s), acceleration (m/s2), lane."""
    rows = pq.read_table(file, partitioning=None)
    table = pa.table(
        {
            "time_us": rows["time_s"].to_numpy().astype(np.int64) * 1_000_000,
            "vehicle": rows["vehicle"].cast(pa.string()),
            **{name: rows[column].to_numpy() / 100.0 for name, column in HUNDREDTHS.items()},
            "lane": rows["lane"].cast(pa.string()),
        }
    )
    return table.sort_by([("time_us", "ascending"), ("vehicle", "ascending")])


def write_trace(simulated: pa.Table, file: Path) -> None:
    """Write rows of SUMO's floating car data as a small file: by vehicle and time, places from (0, 0) on."""
    rows = simulated.filter(pc.is_valid(simulated["vehicle_id"]))  # a second without vehicles is a row, too
    columns = {"time_s": np.round(rows["timestep_time"].to_numpy()).astype(np.int32)}
    for name, column in HUNDREDTHS.items():
        hundredths = np.round(100 * rows[f"vehicle_{name}"].to_numpy()).astype(np.int32)
        columns[column] = hundredths - hundredths.min() if name in ("x", "y") else hundredths
    names = {name: rows[f"vehicle_{column}"] for name, column in (("vehicle", "id"), ("lane", "lane"))}
    table = pa.table(columns | names).select(["time_s", "vehicle", *HUNDREDTHS.values(), "lane"])
    table = table.sort_by([("vehicle", "ascending"), ("time_s", "ascending")])
    encoding = dict.fromkeys(("time_s", *HUNDREDTHS.values()), "DELTA_BINARY_PACKED")
    pq.write_table(
        table, file, compression="zstd", compression_level=19, use_dictionary=[*names], column_encoding=encoding
    )


def simulate() -> pa.Table:
    """Floating car data of 20 minutes of a morning in a town of seven rings and ten roads that lead outwards, as SUMO
    writes it."""
    try:
        home = Path(str(importlib.import_module("sumo").SUMO_HOME))
    except ImportError as error:
        raise SituError("SUMO is not installed", remedy="pip install eclipse-sumo==1.28.0") from error
    with tempfile.TemporaryDirectory() as directory:
        roads, trips, output = (Path(directory) / name for name in ("roads.xml", "trips.xml", "out.csv"))
        _run(home / "bin" / "netgenerate", "--spider", "--spider.arm-number", 10, "--spider.circle-number", 7,
             "--spider.space-radius", 180, "--default.lanenumber", 2, "--default-junction-type", "traffic_light",
             "--tls.default-type", "actuated", "--no-turnarounds", "true", "--seed", SEED, "-o", roads)  # fmt: skip
        _write_destinations(roads, Path(directory) / "to.dst.xml")
        _run(sys.executable, home / "tools" / "randomTrips.py", "-n", roads, "-o", trips, "-e", SECONDS, "-p",
             SECONDS_BETWEEN_CARS, "--seed", SEED, "--fringe-factor", 10, "--min-distance", 500, "--validate", "-r",
             Path(directory) / "routes.xml", "--weights-prefix", Path(directory) / "to")  # fmt: skip
        _run(home / "bin" / "sumo", "-n", roads, "-r", Path(directory) / "routes.xml", "-e", SECONDS, "--seed", SEED,
             "--fcd-output", output, "--fcd-output.acceleration", "true", "--no-step-log")  # fmt: skip
        texts = csv.ConvertOptions(
            column_types={"vehicle_id": pa.string(), "vehicle_lane": pa.string()}, strings_can_be_null=True
        )
        return csv.read_csv(output, parse_options=csv.ParseOptions(delimiter=";"), convert_options=texts)


def _write_destinations(roads: Path, file: Path) -> None:
    """Write how likely a trip leads to each road."""
    begins = {
        edge.attrib["id"]: tuple(map(float, lane.attrib["shape"].split()[0].split(",")))
        for edge in ElementTree.parse(roads).iter("edge")
        if edge.get("function") != "internal" and (lane := edge.find("lane")) is not None
    }
    away_m = np.hypot(*(np.array([*begins.values()]) - np.mean([*begins.values()], axis=0)).T)
    likely = np.where(away_m <= MIDDLE_M, COMMUTERS / np.count_nonzero(away_m <= MIDDLE_M), 0.0)
    likely += (1 - COMMUTERS) / len(begins)
    lines = [f'<edge id="{name}" value="{share:.6f}"/>' for name, share in zip(begins, likely, strict=True)]
    text = f'<edgedata><interval begin="0" end="{SECONDS}">{"".join(lines)}</interval></edgedata>'
    file.write_text(text, encoding="utf-8")


def _run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 1
    write_trace(simulate(), Path(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
