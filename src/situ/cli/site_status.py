"""`situ status`: how the sites of a network are, and who waits for whom."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from situ.cli.controlling import control_of
from situ.cli.predicted_counted import predicted_and_counted, predicted_table
from situ.cli.show import console_for_all_columns
from situ.cli.site_options import StatusOptions
from situ.core.errors import SituError
from situ.runtime.sites.messages import LogName

#: Between the two looks that rates are made of.
_BETWEEN_S = 1.0


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """A site in the words of `situ status`. Rates are those of the last second; None where a site does not answer.

    `lag_s` is how far its operators are behind the largest event time that some source has read.
    """

    site: str
    operators: tuple[str, ...] = ()
    in_per_s: float | None = None
    out_per_s: float | None = None
    outstanding: int = 0
    lag_s: float | None = None
    memory_bytes: int = 0
    journal_bytes: int = 0
    restarts: int = 0
    waits: tuple[str, ...] = ()
    report: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        names = ("site", "in_per_s", "out_per_s", "outstanding", "lag_s", "memory_bytes", "journal_bytes", "restarts")
        values = {name: getattr(self, name) for name in (*names, "report")}
        return values | {"operators": list(self.operators), "waits": list(self.waits)}


def statuses(options: StatusOptions) -> list[SiteStatus]:
    """All sites, asked twice."""
    control = control_of(options.control)
    names = list(control.addresses)
    before, begin = control.of_all(control.status, names), time.monotonic()
    time.sleep(_BETWEEN_S)
    after, seconds = control.of_all(control.status, names), time.monotonic() - begin
    latest = max((_latest_us(report) for report in after.values() if isinstance(report, dict)), default=None)
    return [_status(site, before[site], after[site], seconds, latest) for site in names]


def _status(
    site: str, before: dict[str, Any] | SituError, after: dict[str, Any] | SituError, seconds: float, latest: int | None
) -> SiteStatus:
    if isinstance(after, SituError) or isinstance(before, SituError):
        error = after if isinstance(after, SituError) else before
        assert isinstance(error, SituError)
        return SiteStatus(site, waits=(error.cause,))
    versions = after["versions"].values()
    waits = {wait for version in versions for wait in version["waits_for"]}
    waits |= {f"{other}: {link['waits']}" for other, link in after["process"]["links"].items() if link["waits"]}
    waits |= {f"{stream} is not read: {reason}" for stream, reason in after["held"].items()}
    waits |= {f"{peer}: {words}" for peer, words in after["peers"].items() if words not in ("heard", "not heard yet")}
    passed = [p for version in versions for p in _promises(version)]
    return SiteStatus(
        site,
        tuple(dict.fromkeys(name for version in versions for name in version["operators"])),
        _events_between(before, after, "in") / seconds,
        _events_between(before, after, "out") / seconds,
        sum(
            log["events"] - min(r["committed"] for r in log["readers"].values())
            for version in versions
            for log in version["made"].values()
            if log["readers"]
        ),
        (latest - min(passed)) / 1e6 if passed and latest is not None else None,
        after["process"]["memory_bytes"],
        sum(log["bytes"] for version in versions for log in version["made"].values()),
        after["lives"] - 1,
        tuple(sorted(waits)),
        after,
    )


def _events_between(before: dict[str, Any], after: dict[str, Any], direction: str) -> int:
    """Rows that came to a site between two reports, from its sources and from other sites; or rows that it made. What
    came for a version that the site has forgotten since is not known."""
    return sum(
        _events(after, version, direction)
        - (_events(before, before["versions"][number], direction) if number in before["versions"] else 0)
        for number, version in after["versions"].items()
    )


def _events(report: dict[str, Any], version: dict[str, Any], direction: str) -> int:
    streams = report["sources"].keys()
    count = 0
    for name, log in version["made"].items():
        parsed = LogName.parse(name)
        if not parsed.selection and (parsed.type in streams) == (direction == "in"):
            count += log["events"]
    if direction == "in":
        count += sum(log["committed"] for log in version["read"].values())
    return count


def _latest_us(report: dict[str, Any]) -> int:
    times = [source["latest_us"] for source in report["sources"].values()]
    return max((t for t in times if isinstance(t, int)), default=0)


def _promises(version: dict[str, Any]) -> list[int]:
    return [log["promise_us"] for log in version["read"].values() if isinstance(log["promise_us"], int)]


def show_statuses(sites: list[SiteStatus]) -> None:
    console = console_for_all_columns()
    table = Table(box=box.SIMPLE)
    for column in ("site", "operators"):
        table.add_column(column)
    for column in ("in/s", "out/s", "outstanding", "lag", "memory", "journal", "restarts"):
        table.add_column(column, justify="right")
    for s in sites:
        cells = [
            _rate(s.in_per_s),
            _rate(s.out_per_s),
            f"{s.outstanding:,}",
            "" if s.lag_s is None else f"{s.lag_s:,.1f} s",
        ]
        cells += [f"{s.memory_bytes / 1e6:,.0f} MB", f"{s.journal_bytes:,}", str(s.restarts)]
        table.add_row(*map(Text, (s.site, ", ".join(s.operators), *cells)))
    console.print(table)
    show_links(console, sites)
    if rows := predicted_and_counted({s.site: s.report for s in sites if s.report}):
        console.print(predicted_table(rows))
    for s in sites:
        show_coordinator(console, s.site, s.report.get("coordinator"))
        for words in batches_in_words(s.report):
            console.print(Text(f"{s.site}: {words}"))
        for wait in s.waits:
            console.print(Text(f"{s.site} waits for {wait}", style="yellow"))


def show_coordinator(console: Console, site: str, coordinator: dict[str, Any] | None) -> None:
    """Demands that are kept and broken, and what the site that coordinates has decided."""
    if coordinator is None or not (coordinator["demands"] or coordinator["adapts"] or coordinator["transition"]):
        return
    for demand in coordinator["demands"]:
        console.print(Text(demand["words"], style="red" if demand["kept"] is False else ""))
    how = "by itself" if coordinator["adapts"] else "when it is told to"
    done = f"{coordinator['transitions']} transitions so far"
    console.print(Text(f"{site} moves operators {how}: mechanism {coordinator['mechanism']}, {done}"))
    if (task := coordinator["transition"]) is not None:
        left = ", ".join(dict.fromkeys([name for step in task["steps"] for name in step["sites"]])) or "nothing"
        console.print(Text(f"{site} is moving {left}: {task['why']}", style="yellow"))
    if coordinator["deployment"] is not None:
        console.print(Text(f"{site}: {coordinator['deployment']}", style="yellow"))
    if (reason := coordinator["last"]["given_up"]) is not None:
        console.print(Text(f"{site} has given up the last transition: {reason}", style="yellow"))
    if coordinator["decisions"]:
        last = coordinator["decisions"][-1]
        console.print(Text(f"{site} decided: {last['why']}, {last['chosen'] or 'no transition pays'}"))
        for candidate in last["candidates"]:
            console.print(Text(f"  {candidate['mechanism']}: {candidate['reason']}"))


def batches_in_words(report: dict[str, Any]) -> list[str]:
    """How far the queries of a Spark site are."""
    words = []
    for version, said in report.get("versions", {}).items():
        if (batches := said["batches"]) is not None and said["operators"]:
            behind = f"{batches['behind_events']:,} events behind" if batches["behind_events"] else "nothing to read"
            words.append(f"version {version} on Spark has made {batches['taken']:,} batches, {behind}")
    if (spark := report.get("process", {}).get("spark")) is not None and not spark.get("started"):
        words.append("Spark is starting" if words else "Spark is not needed yet")
    return words


def _rate(per_s: float | None) -> str:
    return "" if per_s is None else f"{per_s:,.0f}"


def show_links(console: Console, sites: list[SiteStatus]) -> None:
    """What has crossed each link since the site at its beginning was started."""
    table = Table(title="sent", title_justify="left", box=box.SIMPLE)
    for column in ("from", "to"):
        table.add_column(column)
    columns = ("events", "requests", "questions", "promises", "acknowledgements")
    for column in columns:
        table.add_column("acks" if column == "acknowledgements" else column, justify="right")
    for s in sites:
        for to, counts in s.report.get("links", {}).items():
            table.add_row(*map(Text, (s.site, to, *(f"{counts[column]:,}" for column in columns))))
    if table.row_count:
        console.print(table)
