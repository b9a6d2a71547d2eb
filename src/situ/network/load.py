"""Reads a network from a file, by its suffix."""

from __future__ import annotations

import difflib
from pathlib import Path

from situ.network.graphml import read_graphml
from situ.network.json_network import read_json_network
from situ.network.network import Network, NetworkError
from situ.network.round_trips import read_round_trips

READERS = {".graphml": read_graphml, ".json": read_json_network, ".parquet": read_round_trips}


def load_network(path: Path | str) -> Network:
    """GraphML (graphml.py), JSON (json_network.py), or a matrix of round trips in Parquet (round_trips.py).

    >>> load_network("nowhere/net.txt")
    Traceback (most recent call last):
    situ.network.network.NetworkError: nowhere/net.txt: there is no such file.
      Networks are .graphml, .json, .parquet files.
    """
    path = Path(path)
    kinds = f"Networks are {', '.join(READERS)} files."
    if not path.is_file():
        beside = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, beside, n=1)
        remedy = f"Did you mean '{close[0]}'?" if close else kinds
        raise NetworkError(
            "is a directory" if path.is_dir() else "there is no such file", place=str(path), remedy=remedy
        )
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        kind = f"{path.suffix} file" if path.suffix else "file without a suffix"
        raise NetworkError(f"situ reads no network from a {kind}", place=str(path), remedy=kinds)
    try:
        return reader(path)
    except NetworkError as error:
        if str(path) in str(error.place):
            raise
        place = f"{path}: {error.place}" if error.place else str(path)
        raise NetworkError(error.cause, place=place, remedy=error.remedy) from None
