"""What a run with --follow has read and found, and how it says so: as text and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from situ.core.time import format_time
from situ.service.figures import MicroBatch, StreamCounts, StreamTotals
from situ.service.told import RulesChanged


def moment(seconds: float | None) -> str:
    """A time in UTC.

    >>> moment(1772359200.5), moment(None)
    ('2026-03-01 10:00:00.500', 'none yet')
    """
    if seconds is None:
        return "none yet"
    text = format_time(round(seconds * 1e3) * 1000)
    return text[:-3] if "." in text else text


def size(count: float) -> str:
    """
    >>> size(900), size(1_234_567), size(2.5e9)
    ('900 B', '1.2 MB', '2.5 GB')
    """
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"


def lasting(seconds: float) -> str:
    """A duration in a few characters.

    >>> lasting(1.5), lasting(7200)
    ('1.50 s', '120 min')
    """
    if seconds < 120:
        return f"{seconds:.2f} s"
    for unit, length in (("min", 60), ("h", 3600)):
        if seconds < 180 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds / 86400:,.0f} days"


def latency_of(batch: MicroBatch) -> str:
    """The mean and the largest latency of a micro-batch, in words."""
    return f"{lasting(batch.mean_latency_s or 0.0)}, at most {lasting(batch.max_latency_s or 0.0)}"


def counted(count: int, singular: str, plural: str) -> str:
    """
    >>> counted(1, "change", "changes"), counted(1200, "change", "changes")
    ('1 change', '1,200 changes')
    """
    return f"{count:,} {singular if count == 1 else plural}"


def change_line(changed: RulesChanged) -> str:
    """A change of rules in a line."""
    after = "" if changed.watermark is None else f", after {moment(changed.watermark)}"
    pause = "" if changed.pause_s is None else f", pause {changed.pause_s:.2f} s"
    return f"rules {changed.number}: {changed.change}; from micro-batch {changed.batch} on{after}{pause}"


def unusual(counts: StreamCounts) -> list[str]:
    """What there need not be any of, if there is.

    >>> unusual(StreamCounts(input=9, late=2, failed_calls=1))
    ['2 late', '1 failed call']
    """
    named = [
        (counts.rejected, "rejected", "rejected"),
        (counts.late, "late", "late"),
        (counts.timed_out, "timed out", "timed out"),
        (counts.failed_calls, "failed call", "failed calls"),
        (counts.duplicates, "duplicate", "duplicates"),
    ]
    return [counted(count, singular, plural) for count, singular, plural in named if count]


def shared(counts: StreamCounts) -> list[str]:
    """What consumers share, if they do.

    >>> from situ.reuse.totals import Totals
    >>> shared(StreamCounts(reuse=Totals(40, 36, 4, 1000, 250, 36, 0, 99, 1)))
    ['36 of 40 interests covered', 'regions read 25% of 1,000 events', '1 of 100 spans processed alone']
    """
    reuse = counts.reuse
    if not reuse.interests:
        return []
    return [
        f"{reuse.covered:,} of {reuse.interests:,} interests covered",
        f"regions read {reuse.share_read:.0%} of {reuse.events_asked:,} events",
        f"{reuse.fallbacks:,} of {reuse.spans + reuse.fallbacks:,} spans processed alone",
    ]


def figures_line(totals: StreamTotals, rate: float) -> str:
    """How it goes, in a line: totals of this run, and the last micro-batch."""
    counts = totals.counts
    parts = [f"{counts.input:,} events", f"{rate:,.0f} events/s", f"{counts.complex_events:,} complex events"]
    parts += shared(counts)
    parts += unusual(counts)
    if totals.last is not None:
        parts.append(f"micro-batch {totals.last.number} in {totals.last.seconds:.2f} s")
    if totals.last_with_state is not None:
        parts.append(f"state {size(totals.last_with_state.state_bytes)}")
    parts.append(f"watermark {moment(totals.watermark)}")
    if (latency := totals.last_with_latency) is not None:
        parts.append(f"latency {latency_of(latency)}")
    parts += map(str, totals.demands)
    return ", ".join(parts)


def batch_to_json(batch: MicroBatch) -> dict[str, Any]:
    return {
        "number": batch.number,
        "begun": moment(batch.begun),
        "seconds": batch.seconds,
        "events": batch.input,
        "events_per_s": round(batch.input / batch.seconds, 1) if batch.seconds else None,
        "candidates": batch.candidates,
        "complex_events": batch.complex_events,
        "timed_out": batch.timed_out,
        "late": batch.late,
        "rejected": batch.rejected,
        "failed_calls": batch.failed_calls,
        "duplicates": batch.duplicates,
        "reuse": batch.reuse.to_json(),
        "state_bytes": batch.state_bytes if batch.largest_shard_bytes is not None else None,
        "skew": batch.skew,
        "watermark": None if batch.watermark is None else moment(batch.watermark),
        "mean_latency_s": batch.mean_latency_s,
        "max_latency_s": batch.max_latency_s,
    }


def change_to_json(changed: RulesChanged) -> dict[str, Any]:
    return {
        "number": changed.number,
        "added": list(changed.change.added),
        "replaced": list(changed.change.replaced),
        "removed": list(changed.change.removed),
        "with_their_state": list(changed.change.kept),
        "micro_batch": changed.batch,
        "after": None if changed.watermark is None else moment(changed.watermark),
        "pause_s": None if changed.pause_s is None else round(changed.pause_s, 3),
        "warnings": list(changed.warnings),
    }


@dataclass(frozen=True)
class FollowSummary:
    """The whole run."""

    totals: StreamTotals
    changes: tuple[RulesChanged, ...]
    refused: int
    seconds: float
    out: str | None
    checkpoint: Path
    counts: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        totals, counts = self.totals, self.totals.counts
        return {
            "events": counts.input,
            "rejected": counts.rejected,
            "late": counts.late,
            "complex_events": counts.complex_events,
            "timed_out": counts.timed_out,
            "failed_calls": counts.failed_calls,
            "duplicates": counts.duplicates,
            "reuse": counts.reuse.to_json(),
            "micro_batches": totals.micro_batches,
            "watermark": None if totals.watermark is None else moment(totals.watermark),
            "mean_latency_s": totals.mean_latency_s,
            "max_latency_s": totals.max_latency_s,
            "demands": [demand.to_json() for demand in totals.demands],
            "seconds": round(self.seconds, 3),
            "rule_changes": [change_to_json(change) for change in self.changes],
            "rules_refused": self.refused,
            "out": self.out,
            "checkpoint": str(self.checkpoint),
        }

    def __str__(self) -> str:
        counts = self.totals.counts
        rate = counts.input / self.seconds if self.seconds else 0.0
        text = (
            f"{counts.input:,} events, {counts.complex_events:,} complex events in "
            f"{counted(self.totals.micro_batches, 'micro-batch', 'micro-batches')} and {self.seconds:.2f} s "
            f"({rate:,.0f} events/s)"
        )
        text = ", ".join([text, *unusual(counts), *map(str, self.totals.demands)])
        if self.refused:
            text += f", {counted(self.refused, 'change', 'changes')} of rules refused"
        lines = [text, *(f"  {count:>12,}  {name}" for name, count in self.counts.items())]
        lines += str(counts.reuse).splitlines() if counts.reuse.interests else []
        lines += map(change_line, self.changes)
        if self.out is not None:
            lines.append(f"results are in {self.out}")
        lines.append(f"the same command goes on from here: --checkpoint {self.checkpoint}")
        return "\n".join(lines)
