"""Sources at work: a thread for each, which reads no further than the site takes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from situ.runtime.sites.actions import RowsRead
from situ.runtime.sites.sources.source import SiteSource

#: Pieces of a source that the site has not committed, at most: one that is committed, and one that waits.
_UNTAKEN = 2


class SourceThread:
    """Reads a source from a position on, once it may, and tells what it reads; `failed` is told what ends it before its
    time."""

    def __init__(
        self,
        stream: str,
        name: str,
        source: SiteSource,
        position: str | None,
        tell: Callable[[RowsRead], None],
        failed: Callable[[Exception], None],
        may_read: threading.Event,
    ) -> None:
        self.stream, self.name, self.source = stream, name, source
        self._tell, self._failed, self._may_read = tell, failed, may_read
        self._untaken: deque[str] = deque()
        self._changed = threading.Condition()
        self._held = self._closed = False
        self.rows = 0
        self._thread = threading.Thread(target=self._run, args=(position,), name=f"situ-read-{stream}", daemon=True)
        self._thread.start()

    def taken(self, position: str) -> None:
        """All up to a position is on disk."""
        with self._changed:
            if position in self._untaken:
                while self._untaken.popleft() != position:
                    pass
            self._changed.notify()
        self.source.taken(position)

    @property
    def is_done(self) -> bool:
        """Whether the source has ended, or has nothing more for now and was to read no further, and all is taken."""
        return not self._thread.is_alive() and not self._untaken

    def hold(self, held: bool) -> None:
        """Reads on, or not."""
        with self._changed:
            self._held = held
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self.source.close()

    def _run(self, position: str | None) -> None:
        try:
            self._may_read.wait()
            for piece in self.source.read(position):
                with self._changed:
                    if piece is not None:
                        self._changed.wait_for(lambda: self._closed or self._may_go_on)
                        self._untaken.append(piece.position)
                    if self._closed:
                        return
                if piece is not None:
                    self.rows += 0 if piece.rows is None else len(piece.rows.times)
                    self._tell(RowsRead(self.stream, self.name, piece.rows, piece.position, piece.ended))
        except Exception as error:  # also what is raised because the source is closed meanwhile
            if not self._closed:
                self._failed(error)

    @property
    def _may_go_on(self) -> bool:
        return not self._held and len(self._untaken) < _UNTAKEN
