"""EdgeCEP's laboratory (section V-C): six brokers, a camera, 16 sensors, and the three subscriptions of its Table I.

What the paper does not say was written down here before anything was run. Six brokers are joined b1-b2-b5 and
b1-b3-b4-b6; in each room stands one. The camera is at b6 (20 frames per second of 35,208 bytes: 422.5 MB in 10 minutes,
Table III). The 16 sensors of temperature and humidity stand 3, 1, 3, 4, 2 and 3 at b1 to b6, as the base costs of Table
III are, and sense once a minute, 100 bytes each. Somebody goes from one room to a neighbouring one every 60 s on
average, 100 bytes; a tracking sensor between two rooms belongs to the broker that is further from b1. The air
controller is at b1 and the gateway at b2. A complex event has 150 bytes; anything else that sites say, 96. In the
simulation a frame is a label that stands for its bytes; one in four shows a face.

All tasks begin at b1. Brokers see all others and look once a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import situ
from situ.network.network import Actor, Brokers, Link, Network, Site

ROOMS = ("b1", "b2", "b3", "b4", "b5", "b6")
JOINED = (("b1", "b2"), ("b2", "b5"), ("b1", "b3"), ("b3", "b4"), ("b4", "b6"))
NETWORK = Network(
    tuple(map(Site, ROOMS)),
    tuple(Link(a, b, 2.0) for a, b in JOINED),
    (Actor("AirController", "b1", "air"), Actor("Gateway", "b2", "gateway")),
    Brokers(5, period_s=60.0),
)
SENSORS = dict(zip(ROOMS, (3, 1, 3, 4, 2, 3), strict=True))
CAMERA, FRAMES_PER_S = "b6", 20
WINDOW_S, RUN_S, MOVES_EVERY_S, SENSES_EVERY_S = 600.0, 7_200.0, 60.0, 60.0
BYTES = {"Video": 35_208, "Temperature": 100, "Humidity": 100, "Tracking": 100}
COMPLEX_EVENT_BYTES, WORD_BYTES = 150, 96
#: Rows of a stream that a source hands on together cover so many seconds.
_PIECE_S = 10.0


def query() -> str:
    """The query, with the subscriptions as printed."""
    return (Path(__file__).parent / "laboratory.situ").read_text()


@situ.function(returns="string", name="FaceDetect")
def face_detect(video: dict[str, Any]) -> str | None:
    """Whose face is in a frame.

    >>> face_detect({"frame": b"face: Anna"})
    'Anna'
    """
    label, _, name = video["frame"].decode().partition(": ")
    return name if label == "face" else None


@dataclass(frozen=True, slots=True)
class Occurring:
    """Rows of a stream that occur at a broker, in pieces, and when each piece is there, in seconds from the first."""

    stream: str
    broker: str
    pieces: list[pa.Table]
    due_s: list[float]


def occurring(seed: int, run_s: float, begin_s: float) -> Iterator[Occurring]:
    """All that sensors and the camera see in so many seconds from a time on."""
    rng = np.random.default_rng(seed)
    moves: dict[str, list[dict[str, Any]]] = {}
    for second in np.sort(rng.uniform(0, run_s, int(run_s / MOVES_EVERY_S))):
        left, right = JOINED[int(rng.integers(len(JOINED)))]
        direction = int(rng.integers(2))
        row = {"left": left, "right": right, "direction": direction, "timestamp": _us(begin_s + second)}
        moves.setdefault(right, []).append(row)
    for broker, rows in moves.items():
        yield _in_pieces("Tracking", broker, rows, begin_s, run_s)
    for broker, sensors in SENSORS.items():
        for stream, mean, spread in (("Temperature", 22.0, 4.0), ("Humidity", 40.0, 12.0)):
            rows = [
                {"location": broker, "val": float(rng.normal(mean, spread)), "timestamp": _us(begin_s + second)}
                for second in np.arange(SENSES_EVERY_S / 2, run_s, SENSES_EVERY_S)
                for _ in range(sensors)
            ]
            yield _in_pieces(stream, broker, rows, begin_s, run_s)
    shows = rng.random(int(run_s * FRAMES_PER_S)) < 0.25
    frames = [
        {
            "location": CAMERA,
            "frame": b"face: Anna" if face else b"nobody",
            "timestamp": _us(begin_s + number / FRAMES_PER_S),
        }
        for number, face in enumerate(shows)
    ]
    yield _in_pieces("Video", CAMERA, frames, begin_s, run_s)


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _in_pieces(stream: str, broker: str, rows: list[dict[str, Any]], begin_s: float, run_s: float) -> Occurring:
    """Every piece has what occurs within some seconds, and comes at their end."""
    ends = np.arange(begin_s + _PIECE_S, begin_s + run_s + _PIECE_S, _PIECE_S)
    table = pa.Table.from_pylist(rows)
    times = np.array([row["timestamp"] for row in rows], np.int64)
    at = table.column_names.index("timestamp")
    table = table.set_column(at, "timestamp", pa.array(times).cast(pa.timestamp("us", "UTC")))
    cuts = np.searchsorted(times, [_us(end) for end in ends])
    begins = [0, *cuts[:-1].tolist()]
    filled = [(b, e, end) for b, e, end in zip(begins, cuts.tolist(), ends.tolist(), strict=True) if e > b]
    return Occurring(stream, broker, [table.slice(b, e - b) for b, e, _ in filled], [end for _, _, end in filled])
