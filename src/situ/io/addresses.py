"""Where the events of a stream come from, and results go: the kinds of addresses."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from situ.core.errors import InputError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")

#: The schemes of sources and of outputs; a directory has none.
SOURCES = ("kafka", "mqtt")
OUTPUTS = ("kafka", "mqtt", "postgresql")


def scheme_of(address: str) -> str:
    """Which kind of address it is.

    >>> scheme_of("kafka://host:9092/cars"), scheme_of("data/cars"), scheme_of("file:///data/cars")
    ('kafka', 'directory', 'directory')
    """
    match = _SCHEME.match(address)
    scheme = match[1].lower() if match else "file"
    return {"file": "directory", "postgres": "postgresql"}.get(scheme, scheme)


def is_url(address: str) -> bool:
    """Whether an address is that of a server, and not of files."""
    return "://" in address and not address.startswith("file://")


def shown_address(address: str) -> str:
    """An address without what may be secret in it: what stands before an @, and options.

    >>> shown_address("mqtt://ann:secret@broker/city?qos=0"), shown_address("found/today")
    ('mqtt://broker/city', 'found/today')

    Where somebody forgot to encode a character of a password, nothing tells where it ends:

    >>> shown_address("mqtt://ann:se?cret@broker/city")
    'mqtt://...'
    """
    if not is_url(address):
        return address
    scheme, _, remainder = address.partition("://")
    location, _, options = remainder.partition("?")
    if "@" in options:
        return f"{scheme}://..."
    return f"{scheme}://{location.rpartition('@')[2]}"


def unknown_address(address: str, schemes: tuple[str, ...], role: str) -> InputError:
    """The error for an address of another kind. It shows the scheme only: the rest may hold a password."""
    scheme = scheme_of(address)
    cause = f"{scheme}:// is an output, and no {role}" if scheme in OUTPUTS else f"'{scheme}://' is no {role} for situ"
    return InputError(cause, remedy=f"It is a directory, {' or '.join(f'{name}://...' for name in schemes)}.")


def directory_of(address: str) -> Path:
    """The directory that an address without a scheme, or with `file://`, names."""
    if not address:
        raise InputError("the address is empty", remedy="Name a directory.")
    if _SCHEME.match(address) is None:
        return Path(address)
    parts = urlsplit(address)
    if parts.netloc not in ("", "localhost"):
        raise InputError(
            "the address is that of a directory of another machine", remedy="Write file:///PATH, or the path."
        )
    return Path(unquote(parts.path))
