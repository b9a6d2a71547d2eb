"""The rules of a query that runs on: what its file and a directory of further files say, compared and committed.

A rule is a definition or a subscription. Rules come and go while streams are read; what is in force lies in numbered
files beside the checkpoint, so that after a crash the query goes on with the rules that it had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from situ.core.errors import InputError, QueryError, SituError, StateError
from situ.graph.query import Definition, Query, Subscription
from situ.io.permissions import PRIVATE, Permissions
from situ.io.sealed_json import seal, unseal
from situ.io.whole_file import write_whole
from situ.lang.parse import parse

#: Of the files in DIR/rules.
VERSION = 2

_SUFFIX = ".situ"


Rule: TypeAlias = Definition | Subscription


@dataclass(frozen=True, slots=True)
class Change:
    """Names of rules. Those in `kept` are replaced, too, but go on with their state: what they look for is the same."""

    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def __str__(self) -> str:
        """
        >>> str(Change(added=("Rise",), replaced=("Fall", "Calm"), kept=("Calm",)))
        'added Rise; replaced Fall, Calm (goes on with its state)'
        """
        replaced = [f"{name} (goes on with its state)" if name in self.kept else name for name in self.replaced]
        parts = {"added": self.added, "replaced": replaced, "removed": self.removed}
        return "; ".join(f"{what} {', '.join(names)}" for what, names in parts.items() if names) or "nothing"


def rules_of(query: Query) -> tuple[Rule, ...]:
    return (*query.definitions, *query.subscriptions)


@dataclass(frozen=True, slots=True)
class Texts:
    """Where rules stand: in the query file, which declares the streams, too, and in files of the control directory,
    by their paths."""

    file: str
    main: str
    control: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rules:
    """The rules in force. `order` has their names as they came: new ones come last, so that they do not move others.
    `changed` has all names whose state may be gone: those that were ever replaced or removed."""

    number: int
    texts: Texts
    order: tuple[str, ...]
    changed: tuple[str, ...] = ()
    change: Change = field(default_factory=Change)
    since: str = ""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], place: str) -> Rules:
        """Rules as they were stored; StateError if these are none."""
        try:
            return cls(
                number=stored["number"],
                texts=Texts(**stored["texts"]),
                order=tuple(stored["order"]),
                changed=tuple(stored["changed"]),
                change=Change(**{name: tuple(names) for name, names in stored["change"].items()}),
                since=stored["since"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise _damaged(place) from error


def _damaged(place: str) -> StateError:
    return StateError(
        "these are no rules that situ wrote",
        place=place,
        remedy="Restore the file from a backup, or begin with a new --checkpoint.",
    )


class RuleStore:
    """DIR/rules: a file for each change, 0.json with the rules that the query began with. The last one is in force."""

    def __init__(self, directory: Path, permissions: Permissions = PRIVATE) -> None:
        self._directory, self._permissions = directory, permissions

    def last(self) -> Rules | None:
        """The rules in force; None before the first start."""
        numbers = [int(path.stem) for path in self._directory.glob("*.json") if path.stem.isdigit()]
        if not numbers:
            return None
        path = self._directory / f"{max(numbers)}.json"
        try:
            stored = unseal(path.read_bytes(), VERSION, str(path))
        except ValueError as error:  # no JSON, no UTF-8, or not as it was written
            raise _damaged(str(path)) from error
        return Rules.from_json(stored, str(path))

    def commit(self, rules: Rules) -> None:
        """From now on these are in force, also after a crash at any moment."""
        self._permissions.make_directory(self._directory)
        text = seal(asdict(rules), VERSION)
        write_whole(self._directory / f"{rules.number}.json", text, self._permissions)

    def clear(self) -> None:
        """Forget all: the query has not begun."""
        for path in self._directory.glob("*.json"):
            path.unlink()


# ---- the control directory


def read_control(directory: Path) -> dict[str, bytes]:
    """What lies in the control directory: all files NAME.situ, by their paths."""
    texts = {}
    try:
        for path in sorted(directory.iterdir()):
            if path.suffix == _SUFFIX and not path.name.startswith("."):
                with suppress(FileNotFoundError, IsADirectoryError):  # it is gone since it was listed
                    texts[str(path)] = path.read_bytes()
        return texts
    except OSError as error:
        raise InputError(
            f"cannot read the rules in the control directory: {error.strerror}",
            place=str(error.filename or directory),
            remedy="The rules stay as they are until it can be read.",
        ) from error


@dataclass
class ControlWatch:
    """Looks for changes of the control directory. A content counts when two looks have found the same: a file that
    somebody is writing differs from one look to the next."""

    directory: Path
    taken: Mapping[str, bytes] | None = None
    _before: Mapping[str, bytes] | None = None
    _failed: str = ""

    def look(self) -> Mapping[str, bytes] | None:
        """A content that is new, once; None where nothing has changed. InputError, once, if it cannot be read."""
        try:
            content = read_control(self.directory)
        except InputError as error:
            if str(error) == self._failed:
                return None
            self._failed = str(error)
            raise
        self._failed = ""
        settled, self._before = content == self._before, content
        if not settled or content == self.taken:
            return None
        self.taken = content
        return content


def texts_with(texts: Texts, found: Mapping[str, bytes]) -> tuple[Texts, list[SituError]]:
    """The texts with the control directory as it was found, and what is wrong with single files. Of a file that is no
    query (it may be half written), the text that is in force stays, if there is one."""
    control: dict[str, str] = {}
    wrong: list[SituError] = []
    for path, content in found.items():
        try:
            control[path] = _rules_text(path, content)
        except SituError as error:
            wrong.append(error)
            if path in texts.control:
                control[path] = texts.control[path]
    return replace(texts, control=control), wrong


def _rules_text(path: str, content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InputError("the file with rules is not text in UTF-8", place=path) from error
    parsed = _parsed(text, path)
    if parsed.streams:
        raise QueryError(
            f"stream {parsed.streams[0].name} is declared here, and a running query cannot take in another stream",
            place=parsed.streams[0].place,
            remedy="Files in the control directory have `define` and `subscribe` only. Streams are for the query file.",
        )
    return text


# ---- from texts to plans


@lru_cache(maxsize=1 << 15)
def _parsed(text: str, file: str) -> Query:
    """What a file says: the same objects for as long as it says the same, so that what was made of them holds."""
    return parse(text, file)


def query_of(texts: Texts, order: Sequence[str] = ()) -> Query:
    """All that the texts say; rules whose names are in `order` first, as they stand there."""
    parts = [_parsed(texts.main, texts.file), *(_parsed(text, path) for path, text in texts.control.items())]
    rank = {name: number for number, name in enumerate(order)}

    def place(item: Definition | Subscription) -> int:
        return rank.get(item.name, len(rank))

    return Query(
        parts[0].streams,
        tuple(sorted((d for part in parts for d in part.definitions), key=place)),
        tuple(sorted((s for part in parts for s in part.subscriptions), key=place)),
    )
