"""What a site counts of the events that it makes, so that the planner can learn: how many of each type, in which time,
and how many of them pass what operators ask of single events.

Counts are of this life of the site: they begin where time had come to when it started. Rows wait until there are many,
or somebody asks, so that counting costs little for each event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from situ.core.functions import BUILT_INS
from situ.core.time import BEGINNING
from situ.graph.expressions import Aggregate, Call, GroupKey, aliases_of, conjuncts, rename_alias, walk
from situ.graph.operators import OperatorGraph
from situ.graph.patterns import Step, steps_of
from situ.graph.typing import THIS
from situ.kernel.operator import Conditions
from situ.runtime.sites.rows import times_us
from situ.runtime.sites.selections import Filter, Selection

#: So many rows are counted at once.
_ROWS = 8_192
#: Where more conditions are asked of a type, none is counted: it would take longer than the rules themselves.
MOST_CONDITIONS = 64

#: The rows of a type that are selected, as `Host.choose` finds them.
Choose = Callable[[str, pa.RecordBatch, Selection, tuple[()]], pa.RecordBatch]


@dataclass(slots=True)
class EventCount:
    """The events of one log. `since_us`: time had come so far when counting began; None if no event was before."""

    since_us: int | None
    events: int = 0
    first_us: int | None = None
    latest_us: int | None = None
    passing: Counter[str] = field(default_factory=Counter)
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_rows: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "since_us": self.since_us,
            "events": self.events,
            "first_us": self.first_us,
            "latest_us": self.latest_us,
            "passing": dict(self.passing),
        }


@dataclass
class EventCounts:
    """The counts of a version at a site, by event type. `conditions`: by type and `Operator.alias`, what is asked of
    single events."""

    conditions: Mapping[str, Mapping[str, Filter]]
    choose: Choose
    by_type: dict[str, EventCount] = field(default_factory=dict)

    def count(self, event_type: str, rows: pa.RecordBatch, before_us: int) -> None:
        """Rows of a type are made here; `before_us` is what was promised before, if there were events before."""
        if not rows.num_rows:
            return
        if event_type not in self.by_type:
            self.by_type[event_type] = EventCount(None if before_us == BEGINNING else before_us)
        count = self.by_type[event_type]
        count.waiting.append(rows)
        count.waiting_rows += rows.num_rows
        if count.waiting_rows >= _ROWS:
            self._take(event_type, count)

    def to_json(self) -> dict[str, Any]:
        for event_type, count in self.by_type.items():
            self._take(event_type, count)
        return {event_type: count.to_json() for event_type, count in self.by_type.items()}

    def _take(self, event_type: str, count: EventCount) -> None:
        """Count what waits."""
        if not count.waiting:
            return
        rows = pa.Table.from_batches(count.waiting).combine_chunks().to_batches()[0]
        count.waiting, count.waiting_rows = [], 0
        times = times_us(rows)
        first_us, latest_us = int(times.min()), int(times.max())
        count.events += len(times)
        count.first_us = first_us if count.first_us is None else min(first_us, count.first_us)
        count.latest_us = latest_us if count.latest_us is None else max(latest_us, count.latest_us)
        for name, filter_ in self.conditions.get(event_type, {}).items():
            count.passing[name] += self.choose(event_type, rows, Selection(frozenset({filter_})), ()).num_rows


def single_conditions(graph: OperatorGraph) -> dict[str, dict[str, Filter]]:
    """By type and `Operator.alias`, what operators ask of single events of it, as far as it can be counted: not what
    users' functions decide, and not where there are very many.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> text = "stream A(n int, t timestamp) time t subscribe S detect A(n > 1) as a then A(n > a.n) as b within 1 s"
    >>> [(event, list(of)) for event, of in single_conditions(resolve(parse(text))).items()]
    [('A', ['S.a'])]
    """
    conditions: dict[str, dict[str, Filter]] = {}
    for operator in graph.operators:
        for step in (step for case in operator.rule.cases for step in steps_of(case.detect)):
            if alone := _alone(step):
                of_type = conditions.setdefault(step.test.event_type, {})
                of_type[f"{operator.name}.{step.alias}"] = frozenset({alone})
    return {event: of for event, of in conditions.items() if len(of) <= MOST_CONDITIONS}


def _alone(step: Step) -> Conditions:
    """What a step asks of its event alone; nothing where that cannot be counted."""
    alone = [each for each in conjuncts(step.test.condition) if aliases_of(each) <= {step.alias}]
    plain = [each for each in alone if not any(isinstance(node, Aggregate | GroupKey) for node in walk(each))]
    if any(isinstance(node, Call) and node.function not in BUILT_INS for each in plain for node in walk(each)):
        return ()
    return tuple(rename_alias(each, step.alias, THIS) for each in plain)
