"""All sites of a network on one machine: a process for each, and between them proxies as slow as the network.

DIR/keys/                 certificates, made for this network
DIR/network.json          with the addresses of the processes, for `situ status`, `situ deploy` and `situ stop`
DIR/sites/<site>/         the site's directory, what it says (log.txt), and the network as it sees it
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from situ.core.errors import SituError
from situ.io.permissions import PRIVATE
from situ.network.json_network import write_json_network
from situ.network.network import Network
from situ.runtime.sites.process.site_process import ADDRESS_FILE
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.outgoing import SiteAddress
from situ.runtime.sites.wire.proxy import LinkQuality, Proxies
from situ.service.certificates import CONTROL, Credentials, folder_of, make_keys

HOST = "127.0.0.1"
#: A way without jitter that carries as much as the machine does.
AS_IT_IS = LinkQuality()
#: How long a process may take to listen. The first one of an installation compiles.
_START_S = 120.0
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class SiteArguments:
    """What one site is given: its sources by stream, and where results go."""

    sources: Mapping[str, str] = field(default_factory=dict)
    out: str | None = None
    further: Sequence[str] = ()


@dataclass
class LocalSite:
    """A site's process, as this one sees it."""

    name: str
    directory: Path
    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    @property
    def last_words(self) -> str:
        """The end of what it said."""
        text = (self.directory / "log.txt").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.strip().splitlines()[-8:])


class LocalSites:
    """Starts sites, and ends them. `scale` stretches the latencies of the network; 0 has none. `link` says how much
    they vary, and how many bytes a way carries.

    Without proxies (`proxied`) nothing can be cut, and sites listen at ports that are chosen before they start.
    `joined` are the pairs of sites that send to each other, if not all do.
    """

    def __init__(
        self,
        network: Network,
        sites: Mapping[str, SiteArguments],
        directory: Path,
        *,
        insecure: bool = False,
        scale: float = 1.0,
        link: LinkQuality = AS_IT_IS,
        proxied: bool = True,
        joined: Collection[tuple[str, str]] | None = None,
    ) -> None:
        self.network, self.directory = network, directory
        PRIVATE.make_directory(directory)
        self._keys = None if insecure else make_keys(list(sites), directory / "keys")
        credentials = Credentials.read(self._keys[""], CONTROL) if self._keys else None
        self.control = Identities.of("", network.names, credentials)
        self._proxies = Proxies()
        self.links = {
            (a, b): self._proxies.open(SiteAddress(HOST, 1), _quality(network, a, b, scale, link))
            for a in sites
            for b in sites
            if a != b and proxied and (joined is None or (a, b) in joined)
        }
        self._ports = {} if proxied else dict(zip(sites, free_ports(len(sites)), strict=True))
        self.sites = {name: self._site(name, arguments) for name, arguments in sites.items()}
        self.addresses: dict[str, SiteAddress] = {}

    def _site(self, name: str, arguments: SiteArguments) -> LocalSite:
        directory = self.directory / "sites" / folder_of(name)
        PRIVATE.make_directory(directory)
        seen = {b: proxy.address for (a, b), proxy in self.links.items() if a == name}
        seen |= {site: SiteAddress(HOST, port) for site, port in self._ports.items()}
        write_json_network(with_addresses(self.network, seen), directory / "network.json")
        command = [sys.executable, "-m", "situ.cli.app", "site", name]
        command += [
            "--network",
            str(directory / "network.json"),
            "--dir",
            str(directory),
            "--listen",
            f"{HOST}:{self._ports.get(name, 0)}",
        ]
        command += ["--insecure"] if self._keys is None else ["--keys", str(self._keys[name])]
        for stream, address in arguments.sources.items():
            command += ["--source", f"{stream}={address}"]
        if arguments.out is not None:
            command += ["--out", arguments.out]
        # Its standard input is a pipe from here: nobody is left alone when this process is killed.
        return LocalSite(name, directory, [*command, "--until-eof", *arguments.further])

    def start(self, names: Sequence[str] | None = None) -> None:
        """Starts sites (all that do not run), and returns when they listen."""
        chosen = [self.sites[name] for name in (self.sites if names is None else names)]
        for site in chosen:
            (site.directory / ADDRESS_FILE).unlink(missing_ok=True)
            with open(site.directory / "log.txt", "ab", opener=PRIVATE.opener) as log:
                # A session of its own: Ctrl-C is for whoever started the sites, who then stops them.
                site.process = subprocess.Popen(
                    site.command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
                )
            site.starts += 1
        for site in chosen:
            self.addresses[site.name] = address = self._wait_for_address(site)
            for (_, to), proxy in self.links.items():
                if to == site.name:
                    proxy.target = address
        write_json_network(with_addresses(self.network, self.addresses), self.directory / "network.json")

    def _wait_for_address(self, site: LocalSite) -> SiteAddress:
        deadline = time.monotonic() + _START_S
        while not (site.directory / ADDRESS_FILE).exists():
            assert site.process is not None
            if site.process.poll() is not None:
                raise SituError(f"site {site.name} has ended at once:\n{site.last_words}")
            if time.monotonic() > deadline:
                raise SituError(f"site {site.name} does not listen after {_START_S:.0f} s:\n{site.last_words}")
            time.sleep(_LOOK_S)
        return SiteAddress.parse((site.directory / ADDRESS_FILE).read_text().strip())

    def ended(self) -> list[str]:
        """The sites that were started, and do not run any more."""
        return [name for name, site in self.sites.items() if site.process and site.process.poll() is not None]

    def exit_code(self, name: str) -> int | None:
        """How a site's process has ended (below 0: by a signal); None while it runs."""
        process = self.sites[name].process
        return None if process is None else process.poll()

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Ends a site's process, and returns when it is gone."""
        process = self.sites[name].process
        assert process is not None
        process.send_signal(number)
        process.wait()

    def close(self) -> None:
        """Asks all sites to end, and takes those that do not."""
        running = [site.process for site in self.sites.values() if site.process and site.process.poll() is None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + 10.0
        for process in running:
            try:
                process.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._proxies.close()


def _quality(network: Network, a: str, b: str, scale: float, link: LinkQuality) -> LinkQuality:
    """That of the way of least latency: sites that no link joins are reached over others."""
    latency_ns = int(network.ways_from(network.number(a)).latency_ns[network.number(b)])
    return replace(link, latency_ms=scale * latency_ns / 1e6)


def with_addresses(network: Network, addresses: Mapping[str, SiteAddress]) -> Network:
    """The network with addresses of sites; what others had is left out."""
    sites = [
        replace(site, address=str(addresses[site.name]) if site.name in addresses else None) for site in network.sites
    ]
    return replace(network, sites=tuple(sites))


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at, just now."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
