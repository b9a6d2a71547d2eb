"""Small files that situ keeps beside a query's state: JSON with a version, and a checksum over all that it says."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from situ.core.errors import StateError

_VERSION, _CHECKSUM = "version", "checksum"


def seal(fields: Mapping[str, Any], version: int) -> str:
    """Fields as JSON that `unseal` reads.

    >>> unseal(seal({"shards": 2}, version=1).encode(), version=1, place="query.json")
    {'shards': 2}
    """
    return json.dumps({_VERSION: version, _CHECKSUM: _checksum(fields), **fields}, indent=1)


def unseal(content: bytes, version: int, place: str) -> dict[str, Any]:
    """What was sealed. StateError if it is of another version, and ValueError if nobody sealed it so: the caller knows
    what is lost then.

    >>> unseal(seal({"shards": 2}, version=1).replace("2", "3").encode(), version=1, place="query.json")
    Traceback (most recent call last):
    ...
    ValueError: the checksum is another one
    """
    stored = json.loads(content)
    if not isinstance(stored, dict):
        raise ValueError("no object")
    stored_version, checksum = stored.pop(_VERSION, None), stored.pop(_CHECKSUM, None)
    if stored_version != version:
        raise StateError(
            f"this has version {stored_version}, this situ reads version {version}",
            place=place,
            remedy="Run it with the situ that wrote it, or with a new --checkpoint.",
        )
    if checksum != _checksum(stored):
        raise ValueError("the checksum is another one")
    return stored


def _checksum(fields: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(fields, sort_keys=True).encode())
