"""Which selection manager an instance belongs to: that of its operator's type and its consumer's region (RECEP,
section 4.2).

An instance is an interest, and lives where its consumer was when it began. When a consumer's next interest begins, the
consumer may be in the region of another manager. Selections belong to their instance, and go with it: the manager that
decides on a batch is that of the consumer's region then. So none is lost and none decided on twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.lab.recep.coverings.choose import Nearest
from situ.lab.recep.coverings.neighbours import InterestRectangles, coordinated
from situ.lab.recep.selections.groups import SHARES, DividedSquare, Groups
from situ.lab.recep.selections.moving_groups import all_at
from situ.lab.recep.selections.reading import ReuseInput
from situ.lab.recep.selections.settings import ReuseSettings


@dataclass(frozen=True, slots=True)
class GroupsOverTime:
    """Row t: from `since_us[t]` on, the groups of all consumers (-1: not there yet) and their places."""

    since_us: I64
    group: I64
    x: F64
    y: F64

    def at(self, time_us: I64) -> I64:
        """The rows for some times."""
        return np.maximum(np.searchsorted(self.since_us, time_us, side="right") - 1, 0)

    def most(self, group: int) -> int:
        """How many consumers a group has had at a time."""
        return int((self.group == group).sum(axis=1).max(initial=0))


def regions_of(read: ReuseInput, settings: ReuseSettings) -> GroupsOverTime:
    """Consumers are looked for where they are in every phase, and grouped by quad-tree."""
    interests, people = read.interests, int(read.person.max(initial=-1)) + 1
    phase = (interests.start_us // settings.phase_us + 1) * settings.phase_us
    since_us = np.unique(phase)
    order = np.lexsort((interests.start_us, phase))
    bounds = np.searchsorted(phase[order], since_us, side="right")
    x, y = np.full((len(since_us), people), np.nan), np.full((len(since_us), people), np.nan)
    group = np.full((len(since_us), people), -1, np.int64)
    groups = Groups.empty(_whole(read, settings.most))
    begin = 0
    for row, end in enumerate(bounds):
        if row:
            x[row], y[row] = x[row - 1], y[row - 1]
        moved = order[begin:end]
        x[row, read.person[moved]], y[row, read.person[moved]] = read.middle_x[moved], read.middle_y[moved]
        there = np.flatnonzero(np.isfinite(x[row]))
        groups = all_at(groups, there, x[row, there], y[row, there])
        group[row, there], begin = groups.group, end
    return GroupsOverTime(since_us, group, x, y)


def _whole(read: ReuseInput, most: int) -> DividedSquare:
    x, y = read.middle_x, read.middle_y
    if not len(x):
        return DividedSquare(0.0, 0.0, 1.0, most)
    side = max(float(np.ptp(x)), float(np.ptp(y)), 1.0)
    return DividedSquare(float(x.min()), float(y.min()), side, most)


def named(group: int) -> str:
    """A region as people may read it: the quarters that lead to its cell, and the share if there are several.

    >>> named((4 * 4 + 1) * SHARES), named(1 * SHARES + 2)
    ('0.1', 'all, share 2')
    """
    cell, share = divmod(group, SHARES)
    quarters = []
    while cell > 1:
        quarters.append(str(cell % 4))
        cell //= 4
    return (".".join(reversed(quarters)) or "all") + (f", share {share}" if share else "")


def neighbours_of(
    read: ReuseInput, regions: GroupsOverTime, time_us: int, owner: I64, nearest: Nearest, renew_us: int
) -> tuple[I64, I64]:
    """Which instances of one group may process at a time, and on behalf of which, pair by pair. Reference graphs are
    chosen among all consumers of the group, where they were at the last renewal; the instances are of consumers who are
    in the group, or were: these have no neighbours."""
    row, then = regions.at(np.array([time_us, time_us // renew_us * renew_us]))
    person = read.person[owner]
    groups, counts = np.unique(regions.group[row, person], return_counts=True)
    there = np.flatnonzero(regions.group[row] == groups[np.argmax(counts)])
    late = np.isnan(regions.x[then, there])
    x, y = (np.where(late, at[row, there], at[then, there]) for at in (regions.x, regions.y))
    interests = InterestRectangles.of(x, y, read.shape.half_x, read.shape.half_y)
    of_people = coordinated(interests, nearest.distance_m, nearest.most)
    allowed = np.eye(len(there) + 1, dtype=np.bool_)
    allowed[np.repeat(np.arange(len(there)), of_people.sizes), of_people.others] = True
    allowed[-1, -1] = False
    place = np.where(np.isin(person, there), np.searchsorted(there, person), len(there))
    processing, on_behalf_of = np.nonzero(allowed[place][:, place])
    apart = processing != on_behalf_of
    return processing[apart], on_behalf_of[apart]
