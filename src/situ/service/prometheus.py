"""Figures of a query that runs on, for Prometheus, served over HTTP."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from situ.core.errors import InputError
from situ.service.figures import StreamTotals

HOST = "127.0.0.1"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


_Value: TypeAlias = float | int | None
_Kind: TypeAlias = Literal["counter", "gauge", "summary"]
#: Name, kind, what it is, and its samples, by what follows the name.
Metric: TypeAlias = tuple[str, _Kind, str, dict[str, _Value]]


def metrics_text(totals: StreamTotals, running: bool = True) -> str:
    """The figures in Prometheus's text format. What nobody knows yet is left out.

    >>> from situ.service.figures import StreamCounts
    >>> print(metrics_text(StreamTotals(StreamCounts(input=3))).splitlines()[2])
    situ_input_rows_total 3
    """
    return metrics_to_text(_metrics(totals, running))


def metrics_to_text(metrics: Iterable[Metric]) -> str:
    """Metrics in Prometheus's text format.

    >>> print(metrics_to_text([("cars", "counter", "Cars.", {'{lane="a"}': 3, '{lane="b"}': None})]), end="")
    # HELP cars Cars.
    # TYPE cars counter
    cars{lane="a"} 3
    """
    lines: list[str] = []
    for name, kind, about, samples in metrics:
        measured = {suffix: value for suffix, value in samples.items() if value is not None}
        if measured:
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{suffix} {_number(value)}" for suffix, value in measured.items()]
    return "\n".join(lines) + "\n"


def _metrics(totals: StreamTotals, running: bool) -> Iterator[Metric]:
    last, state, latency = totals.last, totals.last_with_state, totals.last_with_latency
    counts, reuse = totals.counts, totals.counts.reuse
    counters: dict[str, tuple[str, int]] = {
        "situ_input_rows_total": ("Rows read from all streams.", counts.input),
        "situ_candidates_total": ("Events that some rule asked for.", counts.candidates),
        "situ_complex_events_total": ("Complex events found.", counts.complex_events),
        "situ_timed_out_total": ("Partial matches reported because their window passed.", counts.timed_out),
        "situ_late_events_total": ("Events that came too late for rules that would have read them.", counts.late),
        "situ_rejected_rows_total": ("Rows that did not fit the declaration of their stream.", counts.rejected),
        "situ_failed_calls_total": ("Calls of functions of your own that failed and gave null.", counts.failed_calls),
        "situ_duplicates_total": ("Events dropped because they were delivered before.", counts.duplicates),
        "situ_interests_total": ("Interests of subscriptions whose consumers share.", reuse.interests),
        "situ_covered_interests_total": ("Interests that began in the regions of others.", reuse.covered),
        "situ_untried_interests_total": ("Interests that went their own ways: reuse did not pay.", reuse.untried),
        "situ_regions_total": ("Regions that were processed for those who share.", reuse.regions),
        "situ_regions_tried_total": ("Regions that were judged for an interest.", reuse.tried),
        "situ_region_events_total": ("Events that regions read.", reuse.events_read),
        "situ_interest_events_total": ("Events that interests would have read, each alone.", reuse.events_asked),
        "situ_spans_alone_total": ("Spans below what was asked, and processed alone.", reuse.fallbacks),
        "situ_micro_batches_total": ("Micro-batches done.", totals.micro_batches),
        "situ_rule_changes_total": ("Changes of rules that took effect.", totals.rule_changes),
    }
    for name, (about, value) in counters.items():
        yield name, "counter", about, {"": value}
    yield (
        "situ_micro_batch_duration_seconds",
        "summary",
        "How long micro-batches took.",
        {"_sum": totals.seconds, "_count": totals.micro_batches},
    )
    for measure, total in (("precision", reuse.precision), ("recall", reuse.recall)):
        about = f"The {measure} of the spans that the regions of others served."
        yield f"situ_span_{measure}", "summary", about, {"_sum": total, "_count": reuse.spans}
    gauges: dict[str, tuple[str, _Value]] = {
        "situ_running": ("Whether the streaming query runs.", int(running)),
        "situ_last_micro_batch_duration_seconds": ("The last micro-batch.", last.seconds if last else None),
        "situ_state_bytes": ("State of all shards of all stages.", state.state_bytes if state else None),
        "situ_largest_shard_state_bytes": ("State of the largest shard.", state.largest_shard_bytes if state else None),
        "situ_shard_skew_ratio": (
            "Candidates of the largest shard, in those of the mean one.",
            state.skew if state else None,
        ),
        "situ_watermark_timestamp_seconds": ("Event time that has passed on all streams.", totals.watermark),
        "situ_detection_latency_mean_seconds": (
            "From the time of complex events to the moment when they were found, in the last micro-batch with any.",
            latency.mean_latency_s if latency else None,
        ),
        "situ_detection_latency_max_seconds": (
            "The same, of the slowest one.",
            latency.max_latency_s if latency else None,
        ),
    }
    for name, (about, reading) in gauges.items():
        yield name, "gauge", about, {"": reading}
    yield from demand_metrics([demand.to_json() for demand in totals.demands])


def demand_metrics(demands: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    """Demands, as the JSON of `JudgedDemand`: their limits, what was measured, and whether they are kept.

    >>> demand = {"subscription": "S", "metric": "latency", "limit": 5e5, "measured": 2e5, "kept": True}
    >>> [samples for _, _, _, samples in demand_metrics([demand])]
    [{'{subscription="S",metric="latency"}': 0.5}, {'{subscription="S",metric="latency"}': 0.2}, \
{'{subscription="S",metric="latency"}': 1}]
    """
    by_label = {f'{{subscription="{d["subscription"]}",metric="{d["metric"]}"}}': d for d in demands}
    limits: dict[str, _Value] = {label: _in_unit(d["metric"], d["limit"]) for label, d in by_label.items()}
    measured: dict[str, _Value] = {label: _in_unit(d["metric"], d["measured"]) for label, d in by_label.items()}
    kept: dict[str, _Value] = {label: None if d["kept"] is None else int(d["kept"]) for label, d in by_label.items()}
    about = "What a subscription demands: seconds, bytes, events per second, hops, events under way."
    yield "situ_demand_limit", "gauge", about, limits
    yield "situ_demand_measured", "gauge", "What was measured of a demand.", measured
    yield "situ_demand_kept", "gauge", "Whether a demand is kept.", kept


def _in_unit(metric: str, value: float | None) -> float | None:
    """Latencies in seconds, as all times for Prometheus are."""
    return value / 1e6 if metric == "latency" and value is not None else value


def _number(value: float) -> str:
    """
    >>> _number(3), _number(0.25), _number(1772359200.0)
    ('3', '0.25', '1772359200.0')
    """
    return repr(value)


class _Handler(BaseHTTPRequestHandler):
    server: _MetricsServer

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "Figures are at /metrics")
            return
        body = self.server.text().encode()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """A line for every scrape would hide what matters."""


class _MetricsServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, text: Callable[[], str]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.text = text
        super().__init__((host, port), _Handler)


class MetricsServer:
    """Answers GET /metrics with a text, in a thread of its own, until it is closed."""

    def __init__(self, text: Callable[[], str], port: int, host: str = HOST) -> None:
        try:
            self._server = _MetricsServer(host, port, text)
        except (OSError, OverflowError) as error:
            raise InputError(
                f"cannot serve metrics at {host}:{port}: {getattr(error, 'strerror', None) or error}",
                remedy="Give --metrics a port that is free, or HOST:PORT with an address of this machine.",
            ) from error
        self.host, self.port = host, int(self._server.server_address[1])
        self._closed = threading.Event()
        self._threads = [threading.Thread(target=self._server.serve_forever, name="situ-metrics", daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/metrics"

    def every(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something from time to time, until the server is closed."""

        def repeat() -> None:
            while not self._closed.wait(seconds):
                action()

        self._threads.append(threading.Thread(target=repeat, name="situ-progress", daemon=True))
        self._threads[-1].start()

    def close(self) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def metrics_address(text: str) -> tuple[str, int]:
    """Host and port of `--metrics`.

    >>> metrics_address("9400"), metrics_address("0.0.0.0:9400"), metrics_address("[::1]:9400")
    (('127.0.0.1', 9400), ('0.0.0.0', 9400), ('::1', 9400))
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (port.isascii() and port.isdigit() and int(port) < 65536) or (text.startswith(":")):
        raise InputError(f"--metrics '{text}' names no port", remedy="Write it as PORT or HOST:PORT: --metrics 9400")
    return host or HOST, int(port)
