"""Certificates of a network: its own authority, one certificate for each site, and one for whoever controls it.

    DIR/authority.crt  authority.key     the key signs further certificates: keep it where no site runs
    DIR/sites/<site>/  network.crt  site.crt  site.key      a site needs this folder, and no other
    DIR/producers/<producer>/  as those of sites: for a process that pushes events to a site
    DIR/control/       network.crt  site.crt  site.key      for `situ deploy`, `situ status` and `situ stop`

A certificate has one alternative name, which says for which site it is. Servers read it to know who talks to them, and
clients ask for it, so that a site is known by its certificate and not by the address at which it happens to be.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

from situ.core.errors import InputError
from situ.io.permissions import PRIVATE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, CertificateBuilder, KeyUsage, Name

#: Who may deploy, ask and stop. No site can have this name: in those of sites is a digest.
CONTROL = "control.situ"
AUTHORITY_FILES = ("authority.crt", "authority.key")
NETWORK_FILE, CERTIFICATE_FILE, KEY_FILE = "network.crt", "site.crt", "site.key"
DAYS = 365
#: Clocks differ: a certificate holds from a little before it was made.
_BEFORE = timedelta(minutes=5)


def identity_of(site: str) -> str:
    """The name in a site's certificate. Sites may be named in any letters, hosts may not: so it is a digest.

    >>> identity_of("Garching") == identity_of("Garching"), len(identity_of("München")) < 64
    (True, True)
    """
    return f"{hashlib.sha256(site.encode()).hexdigest()[:32]}.site.situ"


def producer_identity(producer: str) -> str:
    """The name in a producer's certificate: no site's, whatever the producer is called."""
    return f"{hashlib.sha256(producer.encode()).hexdigest()[:32]}.producer.situ"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a process shows, and by what it judges others: three PEM texts. `identity` is the name in its own one."""

    network: bytes
    certificate: bytes
    key: bytes = field(repr=False)
    identity: str
    expires: datetime

    @classmethod
    def read(cls, folder: Path, identity: str, now: datetime | None = None) -> Self:
        """The credentials in a folder that `situ keys` made; InputError if they are not for this identity, not of one
        network, or not valid now."""
        require_cryptography()
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        network, certificate, key = (_content(folder / name) for name in (NETWORK_FILE, CERTIFICATE_FILE, KEY_FILE))
        place, again = str(folder), "Copy the folder that `situ keys` made for this site, whole."
        try:
            authority, own = x509.load_pem_x509_certificate(network), x509.load_pem_x509_certificate(certificate)
            private = load_pem_private_key(key, None)
        except (ValueError, TypeError) as error:
            raise InputError(f"these are no certificate and key: {error}", place=place, remedy=again) from None
        if _public_bytes(private.public_key()) != _public_bytes(own.public_key()):
            raise InputError("key and certificate do not belong together", place=place, remedy=again)
        _require_issued_by(own, authority, place)
        names = _alternative_names(own)
        if names != [identity]:
            whose = "control" if names == [CONTROL] else _common_name(own)
            raise InputError(
                f"the certificate is that of {whose!r}, and another one is needed", place=place, remedy=again
            )
        _require_valid(own, now or datetime.now(UTC), place)
        return cls(network, certificate, key, identity, own.not_valid_after_utc)


def make_producer_keys(producers: Sequence[str], directory: Path, days: int = DAYS) -> dict[str, Path]:
    """Makes certificates for producers, by the authority in a directory; gives the folder of each."""
    require_cryptography()
    authority, authority_key = _authority(directory, days)
    folders = {name: directory / "producers" / folder_of(name) for name in producers}
    for name, folder in folders.items():
        _make_folder(folder, name, producer_identity(name), authority, authority_key, days)
    return folders


def make_keys(sites: Sequence[str], directory: Path, days: int = DAYS) -> dict[str, Path]:
    """Makes certificates for all sites and for control; gives the folder of each, by site, with "" for control.

    Where the directory has an authority already, only those that are missing are made, by the same authority: so a
    network can grow. A site's certificate that is there stays as it is.
    """
    require_cryptography()
    if not 0 < days <= 36_500:
        raise InputError(f"certificates cannot hold for {days} days", remedy="Give --days a number from 1 to 36500.")
    PRIVATE.make_directory(directory)
    authority, authority_key = _authority(directory, days)
    folders = {site: directory / "sites" / folder_of(site) for site in sites} | {"": directory / "control"}
    for site, folder in folders.items():
        identity, common_name = (identity_of(site), site) if site else (CONTROL, "control")
        _make_folder(folder, common_name, identity, authority, authority_key, days)
    return folders


def _make_folder(
    folder: Path,
    common_name: str,
    identity: str,
    authority: Certificate,
    authority_key: EllipticCurvePrivateKey,
    days: int,
) -> None:
    """A folder with certificate and key, unless it is there: whole, or not at all."""
    if folder.exists():
        return
    unfinished = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    PRIVATE.make_directory(unfinished)
    certificate, key = _issue(common_name, identity, authority, authority_key, days)
    _write(unfinished, {NETWORK_FILE: _pem(authority), CERTIFICATE_FILE: _pem(certificate), KEY_FILE: _key_pem(key)})
    unfinished.rename(folder)


def folder_of(site: str) -> str:
    """The name of a site's folder: its own where that is a plain one, with the beginning of a digest where not.

    >>> folder_of("hub-1"), folder_of("../München")
    ('hub-1', 'M_nchen-e8b277d5')
    """
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in site).lstrip("._")
    if plain == site and len(site) < 100:
        return site
    return f"{plain[:60]}-{hashlib.sha256(site.encode()).hexdigest()[:8]}"


def require_cryptography() -> None:
    """An error with the remedy, where the package is not installed."""
    if find_spec("cryptography") is None:
        raise InputError(
            "certificates need the package cryptography, which is not installed", remedy="pip install 'situ[sites]'"
        )


# ---- making


def _authority(directory: Path, days: int) -> tuple[Certificate, EllipticCurvePrivateKey]:
    """The authority that lies in the directory, or a new one."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    paths = [directory / name for name in AUTHORITY_FILES]
    if any(path.exists() for path in paths):
        try:
            authority = x509.load_pem_x509_certificate(_content(paths[0]))
            key = load_pem_private_key(_content(paths[1]), None)
        except (ValueError, TypeError) as error:
            raise InputError(
                f"these are no certificate and key of an authority: {error}",
                place=str(directory),
                remedy="Bring both back, or make keys for the whole network in another directory.",
            ) from None
        _require_valid(authority, datetime.now(UTC), str(directory))
        return authority, key  # type: ignore[return-value]  # what `_new_authority` has made
    authority, key = _new_authority(days)
    _write(directory, dict(zip(AUTHORITY_FILES, (_pem(authority), _key_pem(key)), strict=True)))
    return authority, key


def _new_authority(days: int) -> tuple[Certificate, EllipticCurvePrivateKey]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    name = _name(f"situ network {serial:x}"[:64])
    # Signs the certificates of sites, and no further authorities.
    builder = _builder(key, name, days, serial).issuer_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    return builder.sign(key, hashes.SHA256()), key


def _issue(
    common_name: str, identity: str, authority: Certificate, authority_key: EllipticCurvePrivateKey, days: int
) -> tuple[Certificate, EllipticCurvePrivateKey]:
    """A certificate with which a process may be server and client under this identity."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(key, _name(common_name[:64]), days, x509.random_serial_number())
    builder = builder.issuer_name(authority.subject)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(identity)]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
    return builder.sign(authority_key, hashes.SHA256()), key


def _builder(key: EllipticCurvePrivateKey, subject: Name, days: int, serial: int) -> CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).serial_number(serial)
    return builder.public_key(key.public_key()).not_valid_before(now - _BEFORE).not_valid_after(now + timedelta(days))


def _name(common_name: str) -> Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, signs: bool) -> KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        with PRIVATE.open_new(folder / name) as file:
            file.write(content)


def _pem(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


# ---- reading


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"a certificate or key cannot be read: {error.strerror}",
            place=str(path),
            remedy="`situ keys NETWORK --out DIR` makes them, in DIR/sites/<site> and DIR/control.",
        ) from None


def _public_bytes(key: object) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined,no-any-return]


def _require_issued_by(certificate: Certificate, authority: Certificate, place: str) -> None:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        raise InputError(
            "the certificate is of another network than the one beside it",
            place=place,
            remedy="Copy the folder that `situ keys` made for this site, whole.",
        ) from None


def _require_valid(certificate: Certificate, now: datetime, place: str) -> None:
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > last:
        raise InputError(
            f"the certificate has expired on {last:%Y-%m-%d %H:%M} UTC",
            place=place,
            remedy="Make new ones with `situ keys`, in a new directory, for all sites.",
        )
    if now < first:
        raise InputError(
            f"the certificate holds from {first:%Y-%m-%d %H:%M} UTC on, which is not yet",
            place=place,
            remedy="Set the clock of this machine.",
        )


def _alternative_names(certificate: Certificate) -> list[str]:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.DNSName)


def _common_name(certificate: Certificate) -> str:
    from cryptography.x509.oid import NameOID

    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else "nobody"
