"""Producers: processes that push rows of a stream to a site, over the connection that sites have between them.

A producer says who it is and of which stream its rows are, and hears which number is to come next. It sends rows with
their numbers, and hears how many are on the site's disk.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.flight as flight

from situ.core.errors import InputError, SituError, StateError
from situ.runtime.sites.rows import plain_rows, write_rows
from situ.runtime.sites.wire.frames import SCHEMA, Frame, FrameError, json_object, to_wire
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.outgoing import FIRST_WAIT_S, LAST_WAIT_S, SiteAddress, client_of, reason_of

#: Rows of one frame, and bytes that may be on their way to a site's disk.
_FRAME_ROWS, _UNTAKEN_BYTES = 1 << 16, 64 << 20
_LOOK_S = 1.0


class NotNowError(SituError):
    """Rows cannot be taken just now. Nothing is wrong with them: they are to be sent again."""


class Pushed(Protocol):
    """Where the rows of one producer go: a source of the site. NotNowError if it takes none just now."""

    def following(self) -> int: ...

    def push(self, first: int, rows: pa.RecordBatch, ended: bool) -> None: ...

    def taken_after(self, number: int, timeout_s: float) -> int: ...


#: The source for the rows of a producer and a stream; SituError if there is none.
OpenPushed = Callable[[str, str], Pushed]


def serve_producer(pushed: Pushed, frames: Iterator[Frame], writer: Any) -> None:
    """Takes frames of a producer until its connection ends. Raises SituError for what is none of its rows."""
    begin = pushed.following()
    writer.write(json.dumps({"next": begin}).encode())
    ended = threading.Event()

    def acknowledge() -> None:
        taken = begin
        with suppress(pa.ArrowException, flight.FlightError, OSError):
            while not ended.is_set():
                if (now := pushed.taken_after(taken, _LOOK_S)) > taken:
                    taken = now
                    writer.write(json.dumps({"taken": taken}).encode())

    thread = threading.Thread(target=acknowledge, name="situ-acknowledge", daemon=True)
    thread.start()
    try:
        for frame in frames:
            first, end = frame.header.get("first"), frame.header.get("ended")
            if not isinstance(first, int) or isinstance(first, bool) or first < 0 or not isinstance(end, bool):
                raise FrameError("rows come with the number of the first of them")
            pushed.push(first, plain_rows(frame.body), end)
    except NotNowError:
        raise
    except SituError as error:  # a stream of answers that ends does not say why
        ended.set()
        thread.join()
        writer.write(json.dumps({"refused": str(error)}).encode())
        raise
    finally:
        ended.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class _Sent:
    """Rows that are not known to be on the site's disk. An end has a number, too."""

    first: int
    following: int
    rows: bytes
    ended: bool


class Producer:
    """Pushes rows of a stream to a site; each is taken once, also where the site is killed meanwhile.

    `next` is the number of the row that is to be sent next: after a producer was started again, rows before it need
    not be sent. It waits for a site that cannot be reached, and tells `say` so.
    """

    def __init__(
        self,
        identities: Identities,
        site: str,
        address: SiteAddress,
        stream: str,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._identities, self._site, self._address, self._stream = identities, site, address, stream
        self._say = say
        self._untaken: deque[_Sent] = deque()
        self._changed = threading.Condition()
        self._broken, self._is_refused = "", False
        self._writer: Any = None
        self._client: Any = None
        self.next = self.taken = self._connect()

    def send(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Sends rows. Waits while too much is on its way to the site's disk."""
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        for batch in table.combine_chunks().to_batches(_FRAME_ROWS):
            self._send(batch, ended=False)

    def end(self) -> None:
        """Says that no more rows will come, ever."""
        self._send(pa.RecordBatch.from_pylist([], schema=pa.schema([])), ended=True)

    def flush(self) -> None:
        """Returns when all that was sent is on the site's disk."""
        self._wait_until(lambda: not self._untaken)

    def close(self) -> None:
        """Ends the connection. What was not taken may be lost: `flush` before."""
        self._disconnect()

    def _send(self, batch: pa.RecordBatch, ended: bool) -> None:
        sent = _Sent(self.next, self.next + batch.num_rows + ended, write_rows(batch), ended)
        self._wait_until(lambda: sum(len(each.rows) for each in self._untaken) < _UNTAKEN_BYTES)
        with self._changed:
            self._untaken.append(sent)
        self.next = sent.following
        try:
            self._write(sent)
        except (pa.ArrowException, flight.FlightError, OSError):
            self._hearing.join()  # it hears why
            self._connect_again()

    def _write(self, sent: _Sent) -> None:
        frame = Frame({"first": sent.first, "ended": sent.ended}, sent.rows)
        self._writer.write_with_metadata(*to_wire(frame))

    def _wait_until(self, holds: Callable[[], bool]) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: holds() or bool(self._broken))
                if holds():
                    return
            self._connect_again()

    def _connect_again(self) -> None:
        """Connects, however long it takes, and sends once more what the site has not got. InputError if it was the
        rows that the site did not take."""
        if self._is_refused:
            raise InputError(f"site {self._site} takes no such rows: {self._broken}")
        self._say(f"waiting for {self._site}: {self._broken}")
        wait_s = FIRST_WAIT_S
        while True:
            self._disconnect()
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, LAST_WAIT_S)
            try:
                received = self._connect()
                with self._changed:
                    again = [sent for sent in self._untaken if sent.following > received]
                if again and again[0].first > received:
                    raise StateError(f"{self._site} wants rows from {received} on, which it has had before")
                for sent in again:
                    self._write(sent)
                self._say(f"{self._site} can be reached again")
                return
            except (InputError, pa.ArrowException, flight.FlightError, OSError):
                continue  # it is killed once more, or has no plan yet

    def _connect(self) -> int:
        """The number of the row that the site wants next. InputError if it cannot be reached, or refuses."""
        self._client = client_of(self._identities, self._site, self._address)
        hello = json.dumps({"from": self._identities.own, "stream": self._stream}).encode()
        try:
            self._writer, answers = self._client.do_put(flight.FlightDescriptor.for_command(hello), SCHEMA)
            answer = answers.read()
            if answer is None:
                self._writer.close()  # which says why
                raise ConnectionError("it ended the connection")
        except (pa.ArrowException, flight.FlightError, OSError) as error:
            raise InputError(
                f"site {self._site} at {self._address} takes no {self._stream}: {reason_of(error)}"
            ) from None
        self._broken, self._is_refused = "", False
        self._hearing = threading.Thread(target=self._hear, args=(answers, self._writer), daemon=True)
        self._hearing.start()
        return int(json_object(answer.to_pybytes())["next"])

    def _hear(self, answers: Any, writer: Any) -> None:
        """Hears how many rows are on the site's disk, until the connection ends."""
        reason, is_refused = "it ended the connection", False
        try:
            while (answer := answers.read()) is not None:
                said = json_object(answer.to_pybytes())
                if "refused" in said:
                    reason, is_refused = str(said["refused"]), True
                    break
                taken = int(said["taken"])
                with self._changed:
                    self.taken = taken
                    while self._untaken and self._untaken[0].following <= taken:
                        self._untaken.popleft()
                    self._changed.notify_all()
        except (pa.ArrowException, flight.FlightError, OSError, SituError) as error:
            reason = reason_of(error)
        with self._changed:
            if writer is self._writer:
                self._broken, self._is_refused = reason, is_refused
            self._changed.notify_all()

    def _disconnect(self) -> None:
        with suppress(pa.ArrowException, flight.FlightError, OSError):
            if self._writer is not None:
                self._writer.done_writing()
            if self._client is not None:
                self._client.close()
