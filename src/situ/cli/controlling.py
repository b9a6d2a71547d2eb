"""What `situ deploy`, `situ status` and `situ stop` have in common: which sites, and by what right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from situ.cli.site_options import ControlOptions
from situ.core.errors import InputError

if TYPE_CHECKING:
    from situ.network.network import Network
    from situ.runtime.sites.process.deploying import Control


def network_of(options: ControlOptions) -> Network:
    """The network whose sites the options name."""
    from situ.network.load import load_network

    if options.directory is not None:
        return load_network(options.directory / "network.json")
    assert options.network is not None, "control_of has asked for it"
    return load_network(options.network)


def control_of(options: ControlOptions) -> Control:
    """Whoever may control the sites that the options name."""
    from situ.network.load import load_network
    from situ.runtime.sites.process.deploying import Control
    from situ.runtime.sites.wire.identity import Identities
    from situ.runtime.sites.wire.outgoing import SiteAddress
    from situ.service.certificates import CONTROL, Credentials

    network_file, keys, insecure = options.network, options.keys, options.insecure
    if options.directory is not None:
        if network_file or keys or insecure:
            raise InputError("--dir says where the sites are", remedy="Leave out --network, --keys and --insecure.")
        network_file, keys = options.directory / "network.json", options.directory / "keys" / "control"
        insecure = not keys.exists()
    if network_file is None:
        raise InputError("which sites?", remedy="Give --network NET and --keys DIR/control, or the --dir of `situ up`.")
    if keys is None and not insecure:
        raise InputError(
            "sites listen to those who have a certificate for control",
            remedy="Give --keys DIR/control, a folder that `situ keys` made; or, on one machine, say --insecure.",
        )
    network = load_network(network_file)
    credentials = None if insecure or keys is None else Credentials.read(keys, CONTROL)
    addresses = {site.name: SiteAddress.parse(site.address) for site in network.sites if site.address}
    if not addresses:
        raise InputError("no site has an `address`", place=str(network_file), remedy='Write "address": "HOST:PORT".')
    return Control(Identities.of("", network.names, credentials), addresses)
