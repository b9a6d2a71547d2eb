"""The selection phase: the selections of all instances of an operator, before any of them is processed (RECEP, section
4.1.1).

Selections of a rule whose matches depend on each other cannot be processed one without the other. Such an operator is
run as it is, and each of its complex events stands for a selection, that of the events behind it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.core.time import END
from situ.graph.query import Aggregation, Join
from situ.graph.rule_properties import compares_matches
from situ.kernel.arrays import I64
from situ.kernel.batch import ORIGINS, Batch
from situ.kernel.operator import Context
from situ.lab.fresh_operator import fresh_operator
from situ.lab.mcep.switching.buffer import origin_numbers
from situ.lab.mcep.switching.steps import Steps, are_independent, steps_of
from situ.lab.quality.atoms import AtomSets
from situ.lab.recep.selections.arrived import Inputs
from situ.lab.recep.selections.sets import take, united, with_one
from situ.mobility.interests import Interests
from situ.mobility.moving_query import INTEREST


@dataclass(frozen=True, slots=True)
class Selected:
    """Selections of all instances of an operator, in columns: whose, from when to when, the rows of its inputs that
    each has, when the last of them was known, and the atomic events and interests behind them. Equal `content` means
    equal events.

    `steps` None: the operator has run, `events` came of it, one for each row, and `asked` selections were named.
    """

    owner: I64
    begin_us: I64
    end_us: I64
    known_us: I64
    rows: I64
    offsets: I64
    actual: AtomSets
    reuse: AtomSets
    used: AtomSets
    content: I64
    steps: Steps | None
    events: Batch | None
    asked: int

    def __len__(self) -> int:
        return len(self.owner)

    def some(self, rows: I64) -> Selected:
        """Some of the selections, to be judged and not to be processed."""
        members, a = take(AtomSets(self.rows, self.offsets), rows), self
        sets = take(a.actual, rows), take(a.reuse, rows), take(a.used, rows)
        times = a.begin_us[rows], a.end_us[rows], a.known_us[rows]
        return Selected(
            a.owner[rows], *times, members.atoms, members.offsets, *sets, a.content[rows], None, None, len(rows)
        )


def may_share(context: Context) -> bool:
    """Whether selections of an operator may be processed one without the other."""
    return compares_matches(context.operator.rule) is None and are_independent(context)


def selected(context: Context, inputs: Inputs, interests: Interests) -> Selected:
    """The selections of an operator that all its instances make of what they read."""
    if not may_share(context):
        return _as_it_is(context, inputs)
    steps = steps_of(context, inputs.batches)
    owner = steps.keys[0].to_numpy(zero_copy_only=False) if steps.keys else np.zeros(0, np.int64)
    kind = context.operator.rule.kind
    if isinstance(kind, Aggregation | Join):
        begin_us, content = steps.closes_us + 1 - kind.window.over, steps.number
    else:
        begin_us, content = _least(inputs.times_us[steps.events], steps.offsets), np.zeros(len(steps), np.int64)
    end_us = np.minimum(steps.closes_us, interests.end_us[owner])  # an interest that ends closes what is open
    return _with_dependence(inputs, owner, begin_us, end_us, content, steps.events, steps.offsets, steps)


def _as_it_is(context: Context, inputs: Inputs) -> Selected:
    produced = fresh_operator(context).process(inputs.batches, END)
    events = produced.events
    rows, offsets = origin_numbers(events.columns[ORIGINS])
    owner = events.columns[INTEREST].to_numpy(zero_copy_only=False)
    begin_us = _least(inputs.times_us[rows], offsets)
    asked = len(events) if produced.selections is None else produced.selections.num_rows
    nothing = np.zeros(len(events), np.int64)
    return _with_dependence(inputs, owner, begin_us, events.times, nothing, rows, offsets, None, events, asked)


def _with_dependence(
    inputs: Inputs, owner: I64, begin_us: I64, end_us: I64, content: I64, rows: I64, offsets: I64, steps: Steps | None,
    events: Batch | None = None, asked: int | None = None,
) -> Selected:  # fmt: skip
    arrived = inputs.arrived
    of = arrived.dependence
    actual = united(of.actual, arrived.asked[rows], offsets)
    same = of.actual is of.reuse and arrived.asked is arrived.processed
    reuse = actual if same else united(of.reuse, arrived.processed[rows], offsets)
    used = with_one(united(of.used, arrived.processed[rows], offsets), owner)
    known_us = -_least(-arrived.known_us[rows], offsets)
    events_behind = _sum(_mixed(inputs.content[rows]), offsets)
    return Selected(
        owner, begin_us, end_us, known_us, rows, offsets, actual, reuse, used, _mixed(content) ^ events_behind,
        steps, events, len(owner) if asked is None else asked,
    )  # fmt: skip


def _least(values: I64, offsets: I64) -> I64:
    return np.minimum.reduceat(values, offsets[:-1]) if len(offsets) > 1 else np.zeros(0, np.int64)


def _sum(values: I64, offsets: I64) -> I64:
    return np.add.reduceat(values, offsets[:-1]) if len(offsets) > 1 else np.zeros(0, np.int64)


def _mixed(numbers: I64) -> I64:
    """Numbers so spread that sums of them tell sets apart (the finaliser of SplitMix64)."""
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))).view(np.int64)
