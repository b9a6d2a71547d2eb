"""`situ keys`: certificates for the sites of a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from situ.network.load import load_network
from situ.service.certificates import DAYS, make_keys, make_producer_keys


@dataclass(frozen=True, slots=True)
class Keys:
    """The folders that were made, by site, and the one for control."""

    directory: Path
    sites: dict[str, Path]
    control: Path
    days: int
    producers: dict[str, Path]

    def to_json(self) -> dict[str, Any]:
        folders = {site: str(folder) for site, folder in self.sites.items()}
        producers = {name: str(folder) for name, folder in self.producers.items()}
        made = {"authority": str(self.directory), "sites": folders, "control": str(self.control)}
        return made | {"producers": producers, "days": self.days}

    def __str__(self) -> str:
        pushing = f", for producers in {self.directory / 'producers'}" if self.producers else ""
        return "\n".join(
            [
                f"certificates for {len(self.sites)} sites in {self.directory / 'sites'}{pushing}, one for control in "
                f"{self.control}; they hold for {self.days} days",
                f"copy to each site its own folder, and nothing else; {self.directory / 'authority.key'} can make "
                "more: keep it where no site runs",
            ]
        )


def keys_of_network(network: Path, out: Path, days: int = DAYS, producers: Sequence[str] = ()) -> Keys:
    """Makes certificates for the sites in a network file, and for producers."""
    folders = make_keys(load_network(network).names, out, days)
    control = folders.pop("")
    return Keys(out, folders, control, days, make_producer_keys(producers, out, days))
