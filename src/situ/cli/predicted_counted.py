"""What a plan was expected to do, and what its sites have counted, side by side: for `situ status` and `situ up`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from situ.core.errors import InputError
from situ.runtime.sites.learned_statistics import Reports, counted_types


@dataclass(frozen=True, slots=True)
class PredictedCounted:
    """One operator, whose complex events are counted, or one link and one kind of message; both per second of event
    time. `to` is empty for an operator."""

    site: str
    to: str
    name: str
    predicted_per_s: float
    counted_per_s: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def predicted_and_counted(reports: Reports) -> list[PredictedCounted]:
    """Of the newest version, as far as its plan says what is expected; nothing before events have come."""
    version = str(max((int(number) for report in reports.values() for number in report["versions"]), default=0))
    counted = []
    with suppress(InputError):
        counted = list(counted_types(reports))
    if not counted:
        return []
    per_s = {(of.type, of.site): of.per_s for of in counted}
    longest_s = max(of.seconds for of in counted)
    seconds_at = {of.site: of.seconds for of in sorted(counted, key=lambda of: of.seconds)}
    found = []
    for site, report in sorted(reports.items()):
        predicted = report["versions"].get(version, {}).get("predicted", {"operators": {}, "links": {}})
        for name, expected in predicted["operators"].items():
            found.append(PredictedCounted(site, "", name, expected, per_s.get((name, site), 0.0)))
        for to, kinds in sorted(predicted["links"].get(site, {}).items()):
            sent: Mapping[str, int] = report["links"].get(to, {})
            for kind, expected in kinds.items():
                seen = sent.get(kind, 0) / seconds_at.get(site, longest_s)
                found.append(PredictedCounted(site, to, kind, expected, seen))
    return found


def predicted_table(rows: list[PredictedCounted]) -> Table:
    table = Table(title="predicted and counted, per s", title_justify="left", title_style="bold", box=box.SIMPLE)
    for column in ("at, or from", "to", "operator, or what is sent"):
        table.add_column(column)
    for column in ("predicted", "counted"):
        table.add_column(column, justify="right")
    for row in rows:
        if row.predicted_per_s or row.counted_per_s:
            values = f"{row.predicted_per_s:,.3g}", f"{row.counted_per_s:,.3g}"
            table.add_row(*map(Text, (row.site, row.to, row.name, *values)))
    return table
