"""What a site's core is told, and what it wants done: events in, actions out. The shell does them, the core decides.

The shell calls `Site.handle(event, now)` from one thread, one event after the other, and carries out the actions that
come back, in their order. A `Commit` may take its time, in a thread of its own; nothing that rests on it is among the
actions before `Committed` was told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from situ.io.rows.conform import Conformed
from situ.runtime.sites.batches import Offsets
from situ.runtime.sites.host import MadeRows
from situ.runtime.sites.journal import JournalCommit
from situ.runtime.sites.messages import ControlAnswer, ControlMessage, LogBatch, LogName, PeerMessage, Relayed, Way

# ---- events


@dataclass(frozen=True, slots=True)
class Received:
    """A message came from another site; the shell has made sure that it is this one."""

    sender: str
    message: PeerMessage


@dataclass(frozen=True, slots=True)
class ControlAsked:
    """Whoever may control the site asks; the answer carries the same number."""

    number: int
    message: ControlMessage


@dataclass(frozen=True, slots=True)
class RowsRead:
    """A source of a stream read rows, in the order in which they came; those that fit the stream have all attributes.

    `position` is where the source goes on after them, in its own words. `ended`: no more will come.
    """

    stream: str
    source: str
    rows: Conformed | None
    position: str
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    """The commit of this number is on disk."""

    number: int


@dataclass(frozen=True, slots=True)
class Written:
    """The sink has written all of a log before number `following`, and will know it after a restart."""

    log: LogName
    following: int


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection to another site is there, or is there again."""

    site: str


@dataclass(frozen=True, slots=True)
class Woken:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class BatchMade:
    """A query that drives the operators of a version has read its logs from some offsets to others, and made rows of
    them, with promises. It may tell its last batch again, under the same number. `figures` are those of the host."""

    version: int
    number: int
    since: Offsets
    until: Offsets
    made: tuple[MadeRows, ...]
    figures: Mapping[str, int] = field(default_factory=dict)


SiteEvent: TypeAlias = Received | ControlAsked | RowsRead | Committed | Written | Connected | Woken | BatchMade

# ---- actions


@dataclass(frozen=True, slots=True)
class Append:
    """Give this to the journal, and tell `Committed` when it is on disk. There is one at a time."""

    commit: JournalCommit


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message. If it cannot be sent it is dropped: the core repeats what matters."""

    to: str
    message: PeerMessage


@dataclass(frozen=True, slots=True)
class SendEntry:
    """Send an entry of a log made here, whose rows the journal has, as a `LogBatch`; `relayed` if there is a way
    `onward`."""

    to: str
    log: LogName
    life: str
    first: int
    following: int
    watermark: int
    request: int = 0
    is_repeat: bool = False
    onward: tuple[Way, ...] = ()

    def message(self, origin: str, rows: bytes) -> PeerMessage:
        """What is sent, by site `origin`, with the rows of the entry."""
        numbers = self.first, self.following
        batch = LogBatch(self.log, self.life, *numbers, self.watermark, self.request, rows, self.is_repeat)
        return Relayed(origin, self.onward, batch) if self.onward else batch


@dataclass(frozen=True, slots=True)
class WriteEntry:
    """Write an entry, whose rows the journal has, to the sink, and tell `Written`. A repeat has the same numbers."""

    log: LogName
    first: int
    following: int
    watermark: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the one who asked under this number."""

    number: int
    message: ControlAnswer


@dataclass(frozen=True, slots=True)
class Taken:
    """Rows of a source up to a position are on disk: a broker may forget them."""

    stream: str
    source: str
    position: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Read no more rows of a stream for now, because of this; without a reason: read on."""

    stream: str
    reason: str


@dataclass(frozen=True, slots=True)
class Readable:
    """The query that drives the operators of a version may read its logs up to here: so much is on disk."""

    version: int
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class BatchTaken:
    """What a query made in a batch is on disk."""

    version: int
    number: int


SiteAction: TypeAlias = Append | Send | SendEntry | WriteEntry | Answer | Taken | Hold | Readable | BatchTaken
