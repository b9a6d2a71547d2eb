"""A sink that a test can wait for."""

from __future__ import annotations

import threading

from situ.runtime.sites.sinks.sink import NumberedRows, SiteSink

#: Nothing takes so long, unless it never comes.
_PATIENCE_S = 120.0


class CountingSink:
    """Hands rows on to another sink, and counts those of complex events."""

    def __init__(self) -> None:
        self.inner: SiteSink | None = None
        self._rows, self._changed = 0, threading.Condition()

    def over(self, inner: SiteSink) -> CountingSink:
        """This sink, over another one."""
        self.inner = inner
        return self

    def write(self, results: NumberedRows) -> None:
        assert self.inner is not None
        self.inner.write(results)
        with self._changed:
            self._rows += results.rows.num_rows if results.log.kind == "events" else 0
            self._changed.notify_all()

    def close(self) -> None:
        assert self.inner is not None
        self.inner.close()

    def wait_for(self, rows: int) -> None:
        """Returns when so many rows were written."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._rows >= rows, _PATIENCE_S), self._rows
