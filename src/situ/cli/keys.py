"""`situ keys`: certificates for the sites of a network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from situ.network.load import load_network
from situ.service.certificates import DAYS, make_keys


@dataclass(frozen=True, slots=True)
class Keys:
    """The folders that were made, by site, and the one for control."""

    directory: Path
    sites: dict[str, Path]
    control: Path
    days: int

    def to_json(self) -> dict[str, Any]:
        folders = {site: str(folder) for site, folder in self.sites.items()}
        return {"authority": str(self.directory), "sites": folders, "control": str(self.control), "days": self.days}

    def __str__(self) -> str:
        return "\n".join(
            [
                f"certificates for {len(self.sites)} sites in {self.directory / 'sites'}, one for control in "
                f"{self.control}; they hold for {self.days} days",
                f"copy to each site its own folder, and nothing else; {self.directory / 'authority.key'} can make "
                "more: keep it where no site runs",
            ]
        )


def keys_of_network(network: Path, out: Path, days: int = DAYS) -> Keys:
    """Makes certificates for the sites in a network file."""
    folders = make_keys(load_network(network).names, out, days)
    control = folders.pop("")
    return Keys(out, folders, control, days)
