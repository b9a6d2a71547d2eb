"""Progress of streaming queries, and what Prometheus reads of it."""

from __future__ import annotations

import re
import socket
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row

from situ.core.errors import InputError
from situ.reuse.totals import Totals
from situ.runtime.spark.follow import serve_metrics as serve_metrics_module
from situ.runtime.spark.follow.progress import ProgressFeed, micro_batch
from situ.runtime.spark.follow.serve_metrics import serve_metrics
from situ.service.figures import MicroBatch, StreamTotals
from situ.service.prometheus import MetricsServer, metrics_address, metrics_text

#: As Spark 4 gives them, classic; on Spark Connect the same comes from JSON.
OBSERVED = Row(
    input=4,
    candidates=3,
    complex_events=2,
    timed_out=1,
    late=5,
    rejected=1,
    failed_calls=7,
    duplicates=6,
    **{f"reuse_{f.name}": number for number, f in enumerate(fields(Totals), 1)},
    state_bytes=9368,
    largest_shard_bytes=5048,
    largest_shard_candidates=2,
    mean_shard_candidates=1.5,
    slowest_shard_ms=21.5,
    watermark="1970-01-01 00:00:25",
    mean_latency_s=0.5,
    max_latency_s=2.5,
)
FIELDS = list(OBSERVED.asDict())
NOTHING = dict.fromkeys(FIELDS, 0) | dict.fromkeys(
    ["largest_shard_bytes", "largest_shard_candidates", "mean_shard_candidates", "slowest_shard_ms", "watermark",
     "mean_latency_s", "max_latency_s"]
)  # fmt: skip


def progress(batch: int, observed: Any = OBSERVED, ms: int = 700, *, ran: bool = True) -> dict[str, Any]:
    durations = {"triggerExecution": ms, "getBatch": 3} | ({"addBatch": ms - 50} if ran else {})
    timestamp = datetime.fromtimestamp(1_772_359_200 + batch, UTC).isoformat().replace("+00:00", ".250Z")
    metrics = {} if observed is None else {"situ": observed, "theirs": Row(n=1)}
    return {"batchId": batch, "timestamp": timestamp, "durationMs": durations, "observedMetrics": metrics}


def batch(number: int, observed: Any = OBSERVED, ms: int = 700) -> MicroBatch:
    found = micro_batch(progress(number, observed, ms))
    assert found is not None
    return found


# ---- progress


def test_a_micro_batch() -> None:
    found = batch(3)
    said = {name: value for name, value in OBSERVED.asDict().items() if not name.startswith("reuse_")}
    said |= {"watermark": 25.0, "reuse": Totals(*range(1, 12))}
    assert found == MicroBatch(number=3, begun=1_772_359_203.25, seconds=0.7, **said)
    assert found.skew == pytest.approx(4 / 3)


def test_a_micro_batch_on_spark_connect() -> None:
    """There a row is its values and its schema, and times are milliseconds."""
    types = {"watermark": "timestamp", "mean_latency_s": "double"}
    fields = [{"name": name, "type": types.get(name, "long"), "nullable": True, "metadata": {}} for name in FIELDS]
    values = list((OBSERVED.asDict() | {"watermark": 25_000}).values())
    row = Row("values", "schema")(values, {"type": "struct", "fields": fields})
    assert batch(3, row) == batch(3)
    nothing = Row("values", "schema")(list(NOTHING.values()), {"type": "struct", "fields": fields})
    assert batch(3, nothing) == batch(3, NOTHING)


def test_a_micro_batch_in_which_no_shard_had_work() -> None:
    found = batch(3, NOTHING)
    assert (found.watermark, found.skew, found.largest_shard_bytes, found.mean_latency_s) == (None, None, None, None)
    assert found.complex_events == 0


def test_progress_that_says_only_that_spark_waits_is_none() -> None:
    assert micro_batch(progress(3, ran=False)) is None


def test_a_query_without_figures_of_situ() -> None:
    found = micro_batch(progress(3, None))
    assert found is not None
    assert (found.number, found.input) == (3, 0)


@pytest.mark.parametrize(
    "watermark",
    [25_500_000, "1970-01-01 00:00:25.5", "1970-01-01T00:00:25.5Z", datetime(1970, 1, 1, 0, 0, 25, 500_000, UTC)],
)
def test_times_in_all_forms(watermark: object) -> None:
    assert batch(0, OBSERVED.asDict() | {"watermark": watermark}).watermark == 25.5


def test_totals_add_up_and_gauges_keep_their_last_value() -> None:
    totals = StreamTotals()
    totals.add(batch(0))
    totals.add(batch(1, OBSERVED.asDict() | {"max_latency_s": 1.0, "mean_latency_s": 1.0, "complex_events": 6}))
    totals.add(batch(2, NOTHING, ms=100))
    assert (totals.counts.input, totals.counts.complex_events, totals.counts.late, totals.micro_batches) == (
        8,
        8,
        10,
        3,
    )
    assert totals.seconds == pytest.approx(1.5)
    assert totals.watermark == 25.0
    assert totals.last_with_state == batch(1, totals.last_with_latency and OBSERVED.asDict() | {
        "max_latency_s": 1.0, "mean_latency_s": 1.0, "complex_events": 6
    })  # fmt: skip
    assert totals.last == batch(2, NOTHING, ms=100)
    assert totals.mean_latency_s == pytest.approx((2 * 0.5 + 6 * 1.0) / 8)
    assert totals.max_latency_s == 2.5


@dataclass
class FakeQuery:
    """A `StreamingQuery` that says what it is told to; counts how often it is asked for all that it remembers."""

    remembered: list[dict[str, Any]] = field(default_factory=list)
    isActive: bool = True
    fails: bool = False
    asked: int = 0
    given: int = -1
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        if self.fails:
            raise ConnectionError
        if not self.remembered:
            return None
        last = self.remembered[-1]
        with self.changed:
            self.given = last["batchId"]
            self.changed.notify_all()
        return last

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        self.asked += 1
        return self.remembered[-100:]


def test_each_micro_batch_is_told_once() -> None:
    query = FakeQuery()
    feed = ProgressFeed(query, after=4)
    told = []
    for number in range(5, 300):
        query.remembered.append(progress(number))
        if number % 7 == 0 or number < 20:
            told += feed.new()
    told += feed.new()
    assert feed.new() == []
    assert [found.number for found in told] == list(range(5, 300))
    assert query.asked < 45  # only where several came at once


def test_a_query_that_waits_is_not_asked_for_everything_again() -> None:
    query = FakeQuery([progress(5), progress(6, ran=False)])
    feed = ProgressFeed(query, after=4)
    assert [found.number for found in feed.new()] == [5]
    assert (feed.new(), feed.new()) == ([], [])
    assert query.asked == 1
    query.remembered.append(progress(6) | {"timestamp": "2026-03-01T11:00:00.000Z"})
    assert [found.number for found in feed.new()] == [6]


# ---- the text


_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*) ([-+]?[0-9.]+(?:e[-+]?[0-9]+)?|[+-]Inf|NaN)")


def parsed(text: str) -> dict[str, float]:
    """The samples, after checks that Prometheus's own parser and linter make."""
    assert text.endswith("\n")
    samples: dict[str, float] = {}
    helped: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, about = line.removeprefix("# HELP ").split(" ", 1)
            assert name not in helped
            assert about.endswith(".")
            helped[name] = about
            continue
        if line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert name in helped
            assert kind in ("counter", "gauge", "summary")
            kinds[name] = kind
            continue
        found = _LINE.fullmatch(line)
        assert found, line
        sample = found[1]
        family = sample if sample in kinds else sample.removesuffix("_sum").removesuffix("_count")
        assert family in kinds, line
        assert list(kinds)[-1] == family, "samples of a family stand together"
        assert (kinds[family] == "counter") == sample.endswith("_total"), sample
        assert sample not in samples
        samples[sample] = float(found[2])
    return samples


def test_the_text_before_the_first_micro_batch() -> None:
    samples = parsed(metrics_text(StreamTotals()))
    assert samples["situ_input_rows_total"] == 0
    assert samples["situ_micro_batch_duration_seconds_count"] == 0
    assert "situ_watermark_timestamp_seconds" not in samples
    assert "situ_state_bytes" not in samples


def test_the_text_of_a_run() -> None:
    totals = StreamTotals(rule_changes=2)
    totals.add(batch(0))
    totals.add(batch(1, ms=300))
    assert parsed(metrics_text(totals, running=False)) == {
        "situ_input_rows_total": 8,
        "situ_candidates_total": 6,
        "situ_complex_events_total": 4,
        "situ_timed_out_total": 2,
        "situ_late_events_total": 10,
        "situ_rejected_rows_total": 2,
        "situ_failed_calls_total": 14,
        "situ_duplicates_total": 12,
        "situ_interests_total": 2,
        "situ_covered_interests_total": 4,
        "situ_regions_total": 6,
        "situ_interest_events_total": 8,
        "situ_region_events_total": 10,
        "situ_regions_tried_total": 12,
        "situ_untried_interests_total": 14,
        "situ_spans_alone_total": 18,
        "situ_span_precision_sum": 20,
        "situ_span_precision_count": 16,
        "situ_span_recall_sum": 22,
        "situ_span_recall_count": 16,
        "situ_micro_batches_total": 2,
        "situ_rule_changes_total": 2,
        "situ_micro_batch_duration_seconds_sum": 1.0,
        "situ_micro_batch_duration_seconds_count": 2,
        "situ_running": 0,
        "situ_last_micro_batch_duration_seconds": 0.3,
        "situ_state_bytes": 9368,
        "situ_largest_shard_state_bytes": 5048,
        "situ_shard_skew_ratio": pytest.approx(4 / 3),
        "situ_watermark_timestamp_seconds": 25.0,
        "situ_detection_latency_mean_seconds": 0.5,
        "situ_detection_latency_max_seconds": 2.5,
    }


# ---- over HTTP


def read(url: str) -> tuple[int, str, str]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


def test_figures_of_a_query_of_a_user() -> None:
    query = FakeQuery([progress(7)])
    with serve_metrics(query, 0) as server:
        assert server.url == f"http://127.0.0.1:{server.port}/metrics"
        status, content_type, text = read(server.url)
        assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert parsed(text)["situ_input_rows_total"] == 4
        query.remembered.append(progress(8))
        assert parsed(read(server.url)[2])["situ_input_rows_total"] == 8
        assert parsed(read(server.url)[2])["situ_running"] == 1
        query.isActive = False
        assert parsed(read(server.url)[2])["situ_running"] == 0
        query.fails = True  # its session is gone
        gone = parsed(read(server.url)[2])
        assert (gone["situ_input_rows_total"], gone["situ_running"]) == (8, 0)
    with pytest.raises(urllib.error.URLError):
        read(server.url)


def test_micro_batches_are_counted_also_when_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark remembers a hundred of them."""
    monkeypatch.setattr(serve_metrics_module, "PERIOD_S", 0.001)
    query = FakeQuery([progress(0)])
    with serve_metrics(query, 0) as server:
        for number in range(1, 251):
            query.remembered.append(progress(number))
            if number % 50 == 0:
                with query.changed:
                    assert query.changed.wait_for(lambda number=number: query.given == number, timeout=60)
        assert parsed(read(server.url)[2])["situ_micro_batches_total"] == 251


def test_only_metrics_are_served() -> None:
    with MetricsServer(lambda: "x 1\n", 0) as server:
        base = server.url.removesuffix("/metrics")
        assert read(f"{base}/metrics?name=x")[2] == "x 1\n"
        with pytest.raises(urllib.error.HTTPError) as caught:
            read(f"{base}/")
        assert caught.value.code == 404
        caught.value.close()
        with urllib.request.urlopen(urllib.request.Request(server.url, method="HEAD"), timeout=30) as answer:
            assert (answer.headers["Content-Length"], answer.read()) == ("4", b"")


def test_a_port_that_is_taken_is_an_error_with_a_remedy() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1:{port}") as caught:
            MetricsServer(lambda: "", port)
        assert "--metrics" in caught.value.remedy


@pytest.mark.parametrize("text", ["", "x", "99999", "host:", ":9400", "-1", "9400 ", "1.5", "²"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(InputError, match="--metrics"):
        metrics_address(text)
