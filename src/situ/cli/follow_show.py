"""How a run with --follow shows how it goes: on a terminal, in lines, or as JSON."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, Self, assert_never

import typer
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from situ.cli.follow_summary import (
    FollowSummary,
    batch_to_json,
    change_line,
    change_to_json,
    figures_line,
    latency_of,
    moment,
    shared,
    size,
)
from situ.cli.recent_events import Recent, RecentEvents, latest
from situ.cli.show import cell, complex_event_table, rows_of
from situ.core.errors import SituError
from situ.service.figures import StreamTotals
from situ.service.told import Began, Progressed, RulesChanged, RulesRefused, TimePassed, Told, Warned

#: Between two lines of figures.
LINE_S = 5.0
#: Changes of rules that a terminal shows.
_CHANGES = 5

Clock = Callable[[], float]


class Show(AbstractContextManager["Show"], Protocol):
    """Shows what happens."""

    refused: int
    counts: Counter[str]

    def serving(self, url: str) -> None: ...

    def tell(self, news: Told) -> None: ...

    def end(self, summary: FollowSummary) -> None: ...


class _Shown:
    """What all ways of showing have in common."""

    def __init__(self, totals: StreamTotals, recent: Recent | None) -> None:
        self.totals, self.recent = totals, recent
        self.refused = 0
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def take_recent(self) -> dict[str, RecentEvents]:
        """Complex events that came since the last call."""
        recent = self.recent.take() if self.recent else {}
        self.counts.update({name: new.count for name, new in recent.items()})
        return recent


class JsonLines(_Shown):
    """One object per line; `event` says what happened."""

    def __init__(
        self, totals: StreamTotals, recent: Recent | None, error_to_json: Callable[[SituError], dict[str, Any]]
    ):
        super().__init__(totals, recent)
        self._error_to_json = error_to_json

    def serving(self, url: str) -> None:
        self._print("metrics", {"url": url})

    def tell(self, news: Told) -> None:
        match news:
            case Began(query, rules, batch, shards, levels, warnings):
                about = {"query": query, "rules": rules, "micro_batch": batch, "shards": shards, "levels": levels}
                self._print("began", about | {"warnings": list(warnings)})
            case Progressed(batch):
                self._print("micro-batch", batch_to_json(batch))
                for name, new in self.take_recent().items():
                    rows = [{key: _plain(value) for key, value in row.items()} for row in rows_of(new.last)]
                    self._print("complex events", {"name": name, "count": new.count, "last": rows})
            case RulesChanged():
                self._print("rules changed", change_to_json(news))
            case RulesRefused(error):
                self.refused += 1
                self._print("rules refused", {"error": self._error_to_json(error)})
            case Warned(warning):
                self._print("warning", {"warning": warning})
            case TimePassed():
                pass
            case _:
                assert_never(news)

    def end(self, summary: FollowSummary) -> None:
        self.take_recent()  # counts along
        self._print("end", summary.to_json())

    def _print(self, event: str, values: dict[str, Any]) -> None:
        typer.echo(json.dumps({"event": event} | values))


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else str(value)


class Lines(_Shown):
    """A line when something happens, and figures every few seconds, if there is anything new."""

    def __init__(self, totals: StreamTotals, recent: Recent | None, clock: Clock = time.monotonic) -> None:
        super().__init__(totals, recent)
        self._clock = clock
        self._rate = Rate(clock)
        self._shown_at = clock() - LINE_S
        self._news = False

    def serving(self, url: str) -> None:
        self._print(f"figures for Prometheus are at {url}")

    def tell(self, news: Told) -> None:
        match news:
            case Began(_, _, batch, _, _, warnings):
                self._print(f"following, from micro-batch {batch} on")
                self._warn(warnings)
            case Progressed():
                self._rate.see(self.totals.counts.input)
                self._news = True
            case TimePassed():
                if self._news and self._clock() - self._shown_at >= LINE_S:
                    self._figures()
            case RulesChanged(warnings=warnings):
                self._print(change_line(news))
                self._warn(warnings)
            case RulesRefused(error):
                self.refused += 1
                typer.secho(f"the rules stay as they are: {error}", fg=typer.colors.RED, err=True)
            case Warned(warning):
                self._warn((warning,))
            case _:
                assert_never(news)

    def _figures(self) -> None:
        self._shown_at, self._news = self._clock(), False
        self._print(figures_line(self.totals, self._rate.now()))
        self._recent()

    def _recent(self) -> None:
        for name, new in self.take_recent().items():
            for row in rows_of(new.last):
                values = ", ".join(f"{key} {cell(value)}" for key, value in row.items() if not key.startswith("_"))
                self._print(f"  {name} at {cell(row['_time'])}: {values}")

    def end(self, summary: FollowSummary) -> None:
        self._recent()
        typer.echo(str(summary))

    def _print(self, text: str) -> None:
        typer.echo(f"{moment(float(int(time.time())))}  {text}")

    def _warn(self, warnings: tuple[str, ...]) -> None:
        for warning in warnings:
            self._print(f"warning: {warning}")


class Screen(_Shown):
    """Figures and the last complex events in place, changes of rules below them."""

    def __init__(self, totals: StreamTotals, recent: Recent | None) -> None:
        super().__init__(totals, recent)
        self._rate = Rate(time.monotonic)
        self._last: dict[str, RecentEvents] = {}
        self._changes: deque[str] = deque(maxlen=_CHANGES)
        self._console = Console()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def serving(self, url: str) -> None:
        self._console.print(Text(f"figures for Prometheus are at {url}"))

    def tell(self, news: Told) -> None:
        match news:
            case Began(warnings=warnings):
                self._warn(warnings)
            case Progressed():
                self._rate.see(self.totals.counts.input)
                self._take()
            case RulesChanged(warnings=warnings):
                self._changes.append(change_line(news))
                self._warn(warnings)
            case RulesRefused(error):
                self.refused += 1
                self._console.print(Text(f"the rules stay as they are: {error}", style="red"))
            case Warned(warning):
                self._warn((warning,))
            case TimePassed():
                pass  # but the rate goes down
            case _:
                assert_never(news)
        self._live.update(self._picture(), refresh=True)

    def end(self, summary: FollowSummary) -> None:
        self._take()
        self._live.stop()
        self._console.print(*self._tables(), Text(str(summary)), sep="\n")

    def _take(self) -> None:
        for name, new in self.take_recent().items():
            earlier = self._last.get(name)
            assert self.recent is not None
            same = earlier is not None and earlier.last.schema == new.last.schema
            last = latest([earlier.last, new.last], self.recent.limit) if earlier and same else new.last
            self._last[name] = RecentEvents(self.counts[name], last)

    def _tables(self) -> list[Table]:
        return [recent_table(name, recent) for name, recent in self._last.items()]

    def _picture(self) -> Group:
        return Group(*self._tables(), figures_table(self.totals, self._rate.now()), *map(Text, self._changes))

    def _warn(self, warnings: tuple[str, ...]) -> None:
        for warning in warnings:
            self._console.print(Text(f"warning: {warning}", style="yellow"))


def recent_table(name: str, recent: RecentEvents) -> Table:
    table = complex_event_table(name, recent.count, recent.last)
    if recent.last.num_rows < recent.count:
        table.title = f"{name}: {recent.count:,}, the last {recent.last.num_rows:,}"
    return table


class Rate:
    """Events per second, over the last few seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque([(clock(), 0)])

    def see(self, events: int) -> None:
        now_s = self._clock()
        self._seen.append((now_s, events))
        while len(self._seen) > 2 and now_s - self._seen[1][0] >= LINE_S:
            self._seen.popleft()

    def now(self) -> float:
        (begun, before), (_, events) = self._seen[0], self._seen[-1]
        passed = self._clock() - begun
        return (events - before) / passed if passed > 0 else 0.0


def figures_table(totals: StreamTotals, rate: float) -> Table:
    """The figures, with a word for each."""
    table = Table(box=box.SIMPLE, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    counts = totals.counts
    rows = {
        "events": f"{counts.input:,}, {rate:,.0f} per second now",
        "complex events": f"{counts.complex_events:,}" + (f", {counts.timed_out:,} timed out" * bool(counts.timed_out)),
        "not read": f"{counts.late:,} late, {counts.rejected:,} rejected, {counts.duplicates:,} duplicates",
        "watermark": moment(totals.watermark),
    }
    if shared_by := shared(counts):
        rows["sharing"] = ", ".join(shared_by)
    if counts.failed_calls:
        rows["failed calls"] = f"{counts.failed_calls:,}"
    if totals.last is not None:
        rows["micro-batch"] = f"{totals.last.number}, in {totals.last.seconds:.2f} s"
    if (state := totals.last_with_state) is not None:
        skew = f", the largest shard has {state.skew:.1f} times the mean" if state.skew else ""
        rows["state"] = f"{size(state.state_bytes)}{skew}"
    if (latency := totals.last_with_latency) is not None:
        rows["latency"] = latency_of(latency)
    if totals.demands:
        rows["demands"] = "\n".join(map(str, totals.demands))
    for word, value in rows.items():
        table.add_row(word, Text(value))
    return table
