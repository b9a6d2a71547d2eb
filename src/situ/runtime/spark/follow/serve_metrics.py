"""`serve_metrics`: the figures of a streaming query of Spark's for Prometheus, served over HTTP.

query = detection.events.writeStream...start()
with serve_metrics(query, 9400): ...        # http://127.0.0.1:9400/metrics
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Protocol

from situ.runtime.spark.follow.progress import ProgressFeed, ProgressingQuery
from situ.service.figures import StreamTotals
from situ.service.prometheus import HOST, MetricsServer, metrics_text

#: How often a query of a user's own is asked for its micro-batches: Spark remembers the last hundred.
PERIOD_S = 1.0


class RunningQuery(ProgressingQuery, Protocol):
    """A `StreamingQuery`, classic or of Spark Connect, as far as it is asked here."""

    @property
    def isActive(self) -> bool: ...


def serve_metrics(query: RunningQuery, port: int, host: str = HOST) -> MetricsServer:
    """The figures of a streaming query of yours, at http://HOST:PORT/metrics; counters begin with 0 here and now.

    Spark remembers the last hundred micro-batches, which are counted if they are of this run. Close the server, or use
    it in a `with`. Port 0 is any that is free; the server's `port` says which.
    """
    totals, feed, lock = StreamTotals(), ProgressFeed(query), threading.Lock()

    def collect() -> bool:
        """Whether the query runs. Its session may be gone, in many ways: then the figures stay as they are."""
        with lock, suppress(Exception):
            for batch in feed.new():
                totals.add(batch)
            return bool(query.isActive)
        return False

    def text() -> str:
        running = collect()
        with lock:
            return metrics_text(totals, running)

    server = MetricsServer(text, port, host)
    server.every(PERIOD_S, collect)
    return server
