"""Which names a sink can hold: results are named by whoever wrote a rule, and become folders or tables.

A sink says so for one name (`SinkNames`); `require_names` asks it for all results of a query, when the query or a
change of its rules is read. So nothing is written under a name that means another place, or that mixes two results.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from situ.core.errors import Place, QueryError
from situ.graph.operators import OperatorGraph

#: By the kind of result, the folder in which each name has a folder. Those of complex events lie beside these.
KIND_FOLDERS = {"rejected": "_rejected", "late": "_late", "timed out": "_timed_out"}

#: Bytes of a name that Linux, macOS and Windows hold.
FOLDER_NAME_BYTES = 255
#: What some file system or some reader of files takes for something else than a part of a name.
_NO_FOLDER_CHARACTERS = frozenset('/\\:*?"<>|')
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))})

#: PostgreSQL cuts longer names off, and goes on.
TABLE_NAME_BYTES = 63
LATE_TABLE, REJECTED_TABLE, TIMED_OUT_TABLES = "_late", "_rejected", "_timed_out_"


class SinkNames(Protocol):
    """What a kind of sink makes of the names of results."""

    @property
    def becomes(self) -> str:
        """What a name becomes: "a folder"."""
        ...

    def fault(self, kind: str, name: str) -> str:
        """Why the sink cannot hold a name, as the end of a sentence that begins with it; empty if it can."""
        ...

    def same(self, name: str) -> str:
        """A form that is equal for names between which the sink does not distinguish."""
        ...


@dataclass(frozen=True, slots=True)
class FolderNames:
    """Folders on any file system.

    >>> FolderNames().fault("complex event", "../Jam"), FolderNames().fault("complex event", "Stau auf A 9")
    ("has the character '/'", '')
    """

    becomes: str = "a folder"

    def fault(self, kind: str, name: str) -> str:
        if not _is_text(name):
            return "is empty, or has characters that cannot be printed"
        if forbidden := [character for character in name if character in _NO_FOLDER_CHARACTERS]:
            return f"has the character {forbidden[0]!r}"
        if name.startswith(".") or name.endswith((".", " ")):
            return "begins with a dot, or ends with a dot or a space"
        if len(name.encode()) > FOLDER_NAME_BYTES:
            return f"has {len(name.encode())} bytes, and {FOLDER_NAME_BYTES} are possible"
        if self.same(name).partition(".")[0] in _DEVICES:
            return "is a device on Windows"
        if kind == "complex event" and self.same(name) in KIND_FOLDERS.values():
            return "is where situ puts other results"
        return ""

    def same(self, name: str) -> str:
        """The name as file systems may see it: some keep the case of letters without telling it apart, some compose
        accents."""
        return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


@dataclass(frozen=True, slots=True)
class TableNames:
    """Tables of PostgreSQL. Names are quoted, so that `%` and capitals are possible. A dot is not: it looks like
    the name of a schema wherever somebody forgets to quote it.

    >>> TableNames().fault("complex event", "other.schema"), TableNames().fault("complex event", "100%")
    ('has a dot, as if it named a schema', '')
    """

    becomes: str = "a table of PostgreSQL"

    def fault(self, kind: str, name: str) -> str:
        if kind in ("late", "rejected"):  # one table for all streams, whose names are values there
            return ""
        if not _is_text(name):
            return "is empty, or has characters that cannot be printed"
        if "." in name:
            return "has a dot, as if it named a schema"
        if kind == "complex event" and (name in (LATE_TABLE, REJECTED_TABLE) or name.startswith(TIMED_OUT_TABLES)):
            return "is where situ puts other results"
        if len(self.table(kind, name).encode()) > TABLE_NAME_BYTES:
            return f"makes {self.table(kind, name)!r} of more than {TABLE_NAME_BYTES} bytes"
        return ""

    def same(self, name: str) -> str:
        return name

    @staticmethod
    def table(kind: str, name: str) -> str:
        """The table of a result. Late and rejected rows of all streams share one each.

        >>> TableNames.table("timed out", "Jam"), TableNames.table("late", "Car")
        ('_timed_out_Jam', '_late')
        """
        shared = {"late": LATE_TABLE, "rejected": REJECTED_TABLE}
        return shared.get(kind) or (TIMED_OUT_TABLES + name if kind == "timed out" else name)


def require_names(graph: OperatorGraph, sink: SinkNames) -> None:
    """QueryError, with the place in the query, if the sink cannot hold the name of some result, or mixes two."""
    earlier: dict[tuple[str, str], str] = {}
    for kind, role, name, place in _results(graph):
        if fault := sink.fault(kind, name):
            cause = f"{role} {_short(name)} cannot be {sink.becomes}, where its results go: the name {fault}"
            raise QueryError(cause, place=place, remedy="Give it another name.")
        other = earlier.setdefault((kind, sink.same(name)), name)
        if other != name:
            raise QueryError(
                f"{role} {_short(name)} and {_short(other)} would be one folder where letters differ in case only",
                place=place,
                remedy="Give one of them another name.",
            )


def require_stream_folders(graph: OperatorGraph) -> None:
    """QueryError, if a stream cannot have a folder of its name, in which a checkpoint keeps what is the stream's."""
    for stream in graph.streams:
        if fault := FolderNames().fault("late", stream.name):
            cause = f"stream {_short(stream.name)} cannot be a folder of the checkpoint: the name {fault}"
            raise QueryError(cause, place=stream.place, remedy="Give it another name.")


def _results(graph: OperatorGraph) -> Iterator[tuple[str, str, str, Place | None]]:
    """Kind, what has the name, the name, and where it stands, of all that a sink may be given."""
    places = {definition.name: definition.place for definition in graph.query.definitions}
    places |= {subscription.name: subscription.place for subscription in graph.query.subscriptions}
    for operator in graph.operators:
        role = "definition" if operator.subscription is None else "subscription"
        place = places.get(operator.name)
        if operator.subscription is not None:
            yield "complex event", role, operator.name, place
        if operator.rule.timed_out:
            yield "timed out", role, operator.name, place
    for stream in graph.streams:
        yield "late", "stream", stream.name, stream.place
        yield "rejected", "stream", stream.name, stream.place


def _is_text(name: str) -> bool:
    """Whether a name can be written in UTF-8, in one line."""
    return bool(name) and not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name)


def _short(name: str, length: int = 60) -> str:
    return repr(name if len(name) <= length else f"{name[:length]}...")
