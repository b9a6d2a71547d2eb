"""What a subscription has shared: how much was asked, how much was done, how good it was, and what that cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True, slots=True)
class Totals:
    """`covered` interests begin in another one's region. Regions are processed, for as long as somebody is served.
    `events_asked` is what interests would have read, one by one; `tried` counts regions that were judged, `untried`
    interests that went their own ways because reuse did not pay. Of the spans of covered interests, `spans` is how many
    another one's region served, `fallbacks` how many did not suffice, so that the interest went elsewhere from there
    on; `precision` and `recall` are sums over `spans`.

    >>> print(Totals(10, 8, 2, 1000, 250, 12, 0, 40, 1, 36.0, 32.0) + Totals())
    10 interests, 8 of them covered by the regions of others (1.5 tried for each)
    2 regions read 250 events, where interests would have read 1,000 (25%)
    40 spans served by the regions of others, 1 below what was asked, and processed alone
    precision 0.90, recall 0.80 on average
    """

    interests: int = 0
    covered: int = 0
    regions: int = 0
    events_asked: int = 0
    events_read: int = 0
    tried: int = 0
    untried: int = 0
    spans: int = 0
    fallbacks: int = 0
    precision: float = 0.0
    recall: float = 0.0

    def __add__(self, other: Totals) -> Totals:
        return Totals(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Totals)))

    @property
    def mean_precision(self) -> float:
        return self.precision / self.spans if self.spans else 1.0

    @property
    def mean_recall(self) -> float:
        return self.recall / self.spans if self.spans else 1.0

    @property
    def tried_per_covered(self) -> float | None:
        """The overhead: None where nothing was covered."""
        return self.tried / self.covered if self.covered else None

    @property
    def share_read(self) -> float:
        """Of the events that were asked for."""
        return self.events_read / self.events_asked if self.events_asked else 1.0

    def __str__(self) -> str:
        overhead = self.tried_per_covered
        tried = f"{self.tried:,} tried" if overhead is None else f"{overhead:.1f} tried for each"
        off = f"\nreuse rested for {self.untried:,} interests: it did not pay" if self.untried else ""
        return (
            f"{self.interests:,} interests, {self.covered:,} of them covered by the regions of others ({tried})\n"
            f"{self.regions:,} regions read {self.events_read:,} events, where interests would have read "
            f"{self.events_asked:,} ({self.share_read:.0%})\n"
            f"{self.spans:,} spans served by the regions of others, {self.fallbacks:,} below what was asked, and "
            f"processed alone\n"
            f"precision {self.mean_precision:.2f}, recall {self.mean_recall:.2f} on average{off}"
        )

    def to_json(self) -> dict[str, float | None]:
        return asdict(self) | {
            "precision": self.mean_precision,
            "recall": self.mean_recall,
            "tried_per_covered": self.tried_per_covered,
        }
