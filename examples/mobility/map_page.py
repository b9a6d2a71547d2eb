"""A page that plays what happened: one HTML file that needs nothing else, neither a server nor a network.

`page.html` is the page without data. Places are whole decimetres: two bytes each, instead of seven digits.
"""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
from scene import LIFETIME_S, SQUARE_M, Scene

HERE = Path(__file__).resolve().parent
ROADS = HERE.parent / "traffic" / "roads.json"
PLACE_OF_DATA = "__DATA__"


def page_of(scene: Scene) -> str:
    page = (HERE / "page.html").read_text(encoding="utf-8")
    data = json.dumps(data_of(scene), separators=(",", ":"))
    assert page.count(PLACE_OF_DATA) == 1
    return page.replace(PLACE_OF_DATA, data.replace("</", "<\\/"))


def data_of(scene: Scene) -> dict[str, Any]:
    """What the page's script reads. Cars, drivers and waves are numbers in the order of their lists."""
    tracks = scene.tracks
    places = np.stack([tracks.x, tracks.y], axis=1)
    return {
        "square": round(SQUARE_M * 10),
        "lifetime": LIFETIME_S,
        "seconds": max(map(tracks.last_s, range(len(tracks.names)))),
        "roads": [
            [road["lanes"], *decimetres(road["shape"]).ravel().tolist()] for road in json.loads(ROADS.read_text())
        ],
        "cars": tracks.names,
        "first": tracks.first_s.tolist(),
        "begins": tracks.begins.tolist(),
        "places": in_base64(decimetres(places).astype("<i2")),
        "braking": in_base64(np.packbits(tracks.braking, bitorder="little")),
        "drivers": [driver.car for driver in scene.drivers],
        "interests": [
            [[interest.start_s, *decimetres((interest.x, interest.y)).tolist()] for interest in driver.interests]
            for driver in scene.drivers
        ],
        "waves": [[w.second, *decimetres((w.x, w.y)).tolist(), w.road, *w.cars] for w in scene.waves],
        "told": [[t.driver, t.interest, t.wave, t.second, int(t.first)] for t in scene.told],
    }


def decimetres(metres: Any) -> np.ndarray:
    return np.rint(np.asarray(metres) * 10).astype(int)


def in_base64(values: np.ndarray) -> str:
    return b64encode(values.tobytes()).decode("ascii")
