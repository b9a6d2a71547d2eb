"""The directory of a query that runs on: whose it is, and that one process at a time uses it.

DIR/query.json      which query this is, and what cannot change any more
DIR/starts.json     when the query was started
DIR/rules/          the rules in force, and those before them
DIR/spark/          Spark's checkpoint: how far sources were read, and the state
DIR/sources/        what sources keep, a folder for each stream
DIR/lock            held while a process runs the query

All of it is private, as results are. Spark makes its files with the modes that it likes, in a folder that is private.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from situ.core.errors import InputError, StateError
from situ.core.time import format_time
from situ.graph.query import Query, Stream
from situ.io.addresses import directory_of, scheme_of
from situ.io.permissions import PRIVATE, Permissions
from situ.io.sealed_json import seal, unseal
from situ.io.whole_file import write_whole
from situ.lang.unparse import unparse

#: Of DIR/query.json.
VERSION = 2

_LOCK, _QUERY, _SOURCES, _SPARK, _STARTS = "lock", "query.json", "sources", "spark", "starts.json"
#: So many starts are remembered: enough for a micro-batch that fails again and again.
_MOST_STARTS = 100


@dataclass(frozen=True, slots=True)
class Manifest:
    """What stays as it is for as long as a checkpoint lives: the query's id, the streams with their sources, how the
    state is divided, and the start that the query was told."""

    query: str
    streams: Mapping[str, str]
    sources: Mapping[str, str]
    shards: int
    partitions: int
    levels: int
    start_us: int | None = None

    @classmethod
    def new(
        cls,
        streams: Sequence[Stream],
        addresses: Mapping[str, str],
        shards: int,
        partitions: int,
        levels: int,
        start_us: int | None = None,
    ) -> Manifest:
        return cls(str(uuid.uuid4()), declarations(streams), origins(addresses), shards, partitions, levels, start_us)


def declarations(streams: Sequence[Stream]) -> dict[str, str]:
    """Every stream as the language says it, in one spelling."""
    return {stream.name: unparse(Query(streams=(stream,))).strip() for stream in streams}


def origins(addresses: Mapping[str, str]) -> dict[str, str]:
    """Where streams come from, as far as it matters to a checkpoint: the directory or the topic. Not which server has
    the topic, which may move, and nothing that may be secret.

    >>> origins({"Car": "kafka://one:9092,two:9092/cars?startingOffsets=earliest", "Bus": "/data/../data/bus"})
    {'Car': 'kafka cars', 'Bus': '/data/bus'}
    """
    return {stream: _origin(address) for stream, address in addresses.items()}


def _origin(address: str) -> str:
    scheme = scheme_of(address)
    if scheme == "directory":
        return str(directory_of(address).resolve())
    return f"{scheme} {address.partition('://')[2].partition('?')[0].partition('/')[2]}"


@dataclass(frozen=True)
class Checkpoint:
    """A query's directory, and who may read what situ makes in it."""

    directory: Path
    permissions: Permissions = PRIVATE

    @property
    def spark(self) -> str:
        """For Spark, which may have another file system than this machine's in mind."""
        return f"file://{self.directory.absolute() / _SPARK}"

    @property
    def source_logs(self) -> Path:
        """Where Spark notes which files it has read, in a folder for each source."""
        return self.directory / _SPARK / "sources"

    @property
    def rules(self) -> Path:
        return self.directory / "rules"

    def of_source(self, stream: str) -> Path:
        return self.directory / _SOURCES / stream

    @property
    def has_begun(self) -> bool:
        """Whether there is anything that a later start must go on from."""
        return self._last("offsets") >= 0

    @property
    def next_batch(self) -> int:
        """The micro-batch that comes next: the first that has not been committed."""
        return 1 + self._last("commits")

    @property
    def is_in_a_batch(self) -> bool:
        """Whether a micro-batch has been planned and not been committed."""
        return self._last("offsets") > self._last("commits")

    def _last(self, log: str) -> int:
        names = (path.name for path in (self.directory / _SPARK / log).glob("[0-9]*"))
        return max((int(name) for name in names if name.isdigit()), default=-1)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """For one process at a time; the operating system ends the lock with the process, however that ends."""
        self._require_a_place()
        with open(self.directory / _LOCK, "a+", opener=self.permissions.opener) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                lock.seek(0)
                holder = lock.read().strip()
                raise StateError(
                    "another process runs the query of this checkpoint" + (f": number {holder}" if holder else ""),
                    place=str(self.directory),
                    remedy="Stop that one first, or give this one a --checkpoint of its own.",
                ) from error
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            yield

    def _require_a_place(self) -> None:
        if self.directory.exists() and not self.directory.is_dir():
            raise InputError("this is a file, and a checkpoint is a directory", place=str(self.directory))
        self.permissions.make_directory(self.directory)
        names = {path.name for path in self.directory.iterdir()}
        if names - {_LOCK, _STARTS, "rules", _SOURCES} and _QUERY not in names:
            raise InputError(
                "this directory is not empty, and no checkpoint of situ's",
                place=str(self.directory),
                remedy="Give --checkpoint an empty directory, or one that does not exist yet.",
            )
        # The directory itself may have been there, and be open to others.
        for folder in (self.rules, self.directory / _SOURCES):
            self.permissions.make_directory(folder)

    def manifest(self) -> Manifest | None:
        """What DIR/query.json says; None if nothing has begun."""
        path = self.directory / _QUERY
        if not path.exists() or not self.has_begun:
            return None
        try:
            return Manifest(**unseal(path.read_bytes(), VERSION, str(path)))
        except (ValueError, TypeError) as error:
            raise StateError(
                "this says nothing about a checkpoint of situ's, or is damaged",
                place=str(path),
                remedy="Restore it from a backup, or begin with a new --checkpoint.",
            ) from error

    def write(self, manifest: Manifest) -> None:
        write_whole(self.directory / _QUERY, seal(asdict(manifest), VERSION), self.permissions)
        self.permissions.make_directory(self.directory / _SPARK)

    def starts_with(self, now: float) -> tuple[float, ...]:
        """When the query was started, in seconds since the epoch, the last time `now`; remembered from here on.

        Silence does not count while the query does not run. A micro-batch that is done again must see the starts that
        lay before it, so it does not suffice to know the last one.
        """
        self.permissions.make_directory(self.directory)
        path = self.directory / _STARTS
        try:
            before = [float(start) for start in json.loads(path.read_text(encoding="utf-8"))]
        except (FileNotFoundError, ValueError, TypeError):
            before = []  # of a checkpoint that did not know of it
        starts = (*before[1 - _MOST_STARTS :], now)
        write_whole(path, json.dumps(starts), self.permissions)
        return starts


def require_the_same(
    manifest: Manifest,
    streams: Sequence[Stream],
    addresses: Mapping[str, str],
    shards: int | None,
    levels: int | None,
    place: str,
    start_us: int | None = None,
) -> None:
    """StateError, if a checkpoint is that of another query."""
    kept_streams, declared_streams = manifest.streams, declarations(streams)
    cause = ""
    if [*kept_streams] != [*declared_streams]:
        cause = f"has the streams {', '.join(kept_streams)}, and the query {', '.join(declared_streams) or 'none'}"
    elif differing := [name for name in kept_streams if kept_streams[name] != declared_streams[name]]:
        cause = f"was made with another declaration of stream {differing[0]}:\n  {kept_streams[differing[0]]}\n "
    elif moved := [name for name, origin in origins(addresses).items() if manifest.sources.get(name) != origin]:
        cause = f"has read {manifest.sources.get(moved[0])} for stream {moved[0]}, not {origins(addresses)[moved[0]]}"
    elif shards is not None and shards != manifest.shards:
        cause = f"keeps its state in {manifest.shards} shards, not in {shards}"
    elif levels is not None and levels != manifest.levels:
        cause = f"has {manifest.levels} level{'s' * (manifest.levels > 1)}, not {levels}"
    elif start_us is not None and start_us != manifest.start_us:
        begun = "without --start" if manifest.start_us is None else f"with --start {format_time(manifest.start_us)}"
        cause = f"was begun {begun}, not with --start {format_time(start_us)}"
    if cause:
        raise StateError(f"the checkpoint {cause}", place=place, remedy="Run it as before, or with a new --checkpoint.")
