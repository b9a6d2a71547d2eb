"""Who talks: the names of a network's sites and of its control, and how certificates say them."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from situ.core.errors import InputError
from situ.service.certificates import CONTROL, Credentials, identity_of, producer_identity

#: What `Peer` says of whoever has the certificate of control.
CONTROL_PEER = ""
#: What a site asks another to see how far away it is.
PING = "ping"


@dataclass(frozen=True, slots=True)
class Identities:
    """The identities that a network's certificates have, by name of site; control is the empty name.

    `own` is the site of this process, `credentials` are None where it talks without TLS.
    """

    own: str
    sites: frozenset[str]
    credentials: Credentials | None = None

    @classmethod
    def of(cls, own: str, sites: Iterable[str], credentials: Credentials | None) -> Identities:
        return cls(own, frozenset(sites), credentials)

    def peer(self, certified: bytes, said: str) -> str:
        """The name of whoever has connected: what the certificate says, and the same as it says itself.

        InputError if the two differ, or nobody of the network is named so. Without TLS there is only what it says.
        """
        if said != CONTROL_PEER and said not in self.sites:
            raise InputError(f"{said!r} is no site of this network")
        if self.credentials is not None and certified.decode(errors="replace") != certified_name(said):
            raise InputError(f"the certificate is not that of {said or 'control'!r}")
        return said

    def producer(self, certified: bytes, said: str) -> str:
        """The name of the producer that has connected, which its certificate says, too; InputError if it does not."""
        if self.credentials is not None and certified.decode(errors="replace") != producer_identity(said):
            raise InputError(f"the certificate is not that of producer {said!r}")
        return said


def certified_name(site: str) -> str:
    """What the certificate of a site, or of control, is made out to."""
    return CONTROL if site == CONTROL_PEER else identity_of(site)


def require_loopback(host: str) -> None:
    """InputError, unless a host is this machine alone: without TLS nothing may leave it.

    >>> require_loopback("127.0.0.1")
    >>> require_loopback("0.0.0.0")
    Traceback (most recent call last):
    situ.core.errors.InputError: --insecure is for this machine alone, and '0.0.0.0' can be reached from others.
      Listen at 127.0.0.1, or make certificates with `situ keys` and give --keys.
    """
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise InputError(f"there is no host {host!r}: {error.strerror or error}") from None
    if not all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in addresses):
        raise InputError(
            f"--insecure is for this machine alone, and {host!r} can be reached from others",
            remedy="Listen at 127.0.0.1, or make certificates with `situ keys` and give --keys.",
        )
