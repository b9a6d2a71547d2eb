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
    found = _SCHEME.match(address)
    scheme = found[1].lower() if found else "file"
    return {"file": "directory", "postgres": "postgresql"}.get(scheme, scheme)


def unknown_address(address: str, known: tuple[str, ...], what: str) -> InputError:
    """The error for an address of another kind. It shows the scheme only: the rest may hold a password."""
    scheme = scheme_of(address)
    cause = f"{scheme}:// is an output, and no {what}" if scheme in OUTPUTS else f"'{scheme}://' is no {what} for situ"
    return InputError(cause, remedy=f"It is a directory, {' or '.join(f'{name}://...' for name in known)}.")


def directory_of(address: str) -> Path:
    """The directory that an address without a scheme, or with `file://`, names."""
    if not address:
        raise InputError("the address is empty", remedy="Name a directory.")
    if _SCHEME.match(address) is None:
        return Path(address)
    parts = urlsplit(address)
    if parts.netloc not in ("", "localhost"):
        raise InputError(f"'{address}' is a directory of another machine", remedy="Write file:///PATH, or the path.")
    return Path(unquote(parts.path))
