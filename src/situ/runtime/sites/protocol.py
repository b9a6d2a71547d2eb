"""Push-pull: which events an operator pulls, and when it asks for them. Pure functions over columns.

PaNORAMA, section 6. An operator takes its inputs in ordered steps. The first step is pushed. Where events of the
earlier steps make a **combination** (one event of each input, as the operator's order and window allow), it opens a
**pull window** for each input of the next step: the times at which one more event could join the combination.

- AND: [t_max - W, t_min + W], of the combination's times (the paper prints a second minus; its example has the plus).
- SEQ: after the combination's event before it in the text and before the one after it, and all within W.
  SEQ(e6, e7, e8) with e7 first: t_e7 <= t_e8 <= t_e7 + W, then t_e8 - W <= t_e6 <= t_e7.

Why it is enough that events in pull windows come, also for plain `then`, which takes the first later event:

1. No match is lost. The events of a match are a combination, and so are those of its earlier steps, so each event of a
   later step lies in a window that the match's own events open. By induction over the steps, all of them come. And a
   `then` that no event stood in the way of has none in its way when there are fewer events.
2. No match is added. Let m be a match of the events that came, and let y be an event that did not come and stands in
   the way of a `then` of m: it lies between two neighbours of m, m_(j-1) < y < m_j, and slot j would have taken it.
   Put y in the place of m_j: the events are still in order, and within W. So y lies in the window that the events of m
   of the steps before that of input j open, and it came. (Windows speak of times only, not of conditions, so this
   holds for whatever the conditions are.)

`immediately`, `not`, loops, selectors, consumption and skipping look at events that are in no match, or at what other
matches did: there the argument fails, and everything is pushed.

Times are whole microseconds and windows are inclusive, so a window is a closed interval of integers. Events of equal
time have an order: that of their types, as the inputs of a pulled operator are of different types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from situ.core.time import END
from situ.kernel.arrays import I64
from situ.kernel.matching.machine import inlined, jit

#: A time that does not come, in ns.

_CONJUNCTION = -1


@dataclass(frozen=True, slots=True)
class Pulled:
    """A SEQ or AND of inputs of different event types.

    `ranks`: for each input, its type's place in the order of events of equal time (not asked of an AND).
    """

    ordered: bool
    window_us: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """Pull windows, with the time at which the operator's site has all events of a combination that opens them.

    Where several combinations open a window, those are there that make it longer or known earlier.
    """

    first_us: I64
    last_us: I64
    known_ns: I64

    def __len__(self) -> int:
        return len(self.first_us)


def pull_windows(
    operator: Pulled, earlier: Sequence[int], times_us: Sequence[I64], arrived_ns: Sequence[I64], pulled: int
) -> Windows:
    """The windows in which input `pulled` can join combinations of the inputs `earlier`.

    `times_us` and `arrived_ns` are of the events of each earlier input that came. No event comes before its time.

    >>> sequence = Pulled(True, 3_000_000, (0, 1, 2))  # SEQ(e6, e7, e8) within 3 s
    >>> e7, e8 = np.array([10_000_000]), np.array([11_000_000])
    >>> pull_windows(sequence, [1], [e7], [e7 * 1000], 2)
    Windows(first_us=array([10000000]), last_us=array([13000000]), known_ns=array([10000000000]))
    >>> pull_windows(sequence, [1, 2], [e7, e8], [e7 * 1000, e8 * 1000], 0)
    Windows(first_us=array([8000000]), last_us=array([10000000]), known_ns=array([11000000000]))
    """
    slots = sorted(range(len(earlier)), key=lambda number: earlier[number])
    time = np.concatenate([times_us[number] for number in slots])
    arrived = np.concatenate([arrived_ns[number] for number in slots])
    lengths = [len(times_us[number]) for number in slots]
    slot = np.repeat(np.arange(len(slots)), lengths)
    rank = np.repeat(np.array([operator.ranks[earlier[number]] for number in slots], np.int64), lengths)
    order = np.lexsort((rank, time))
    before, after, place = 0, 0, _CONJUNCTION
    if operator.ordered:
        inputs = sorted(earlier)
        place = sum(number < pulled for number in inputs)
        mine = operator.ranks[pulled]
        after = int(place > 0 and mine < operator.ranks[inputs[place - 1]])
        before = int(place < len(inputs) and mine > operator.ranks[inputs[place]])
    arrivals = _Arrivals(time[order], slot[order], arrived[order], len(slots))
    return _gather(arrivals, _Place(place, operator.window_us, after, before))


class _Arrivals(NamedTuple):
    """The events of earlier inputs that came, by time; those of one time by the order of their types."""

    time_us: I64
    slot: I64  # the number of the event's input among the earlier ones, in the order of the text
    arrived_ns: I64
    slots: int


class _Place(NamedTuple):
    """Where the pulled input stands: so many earlier inputs come before it in the text; or in an AND."""

    slots_before: int
    window_us: int
    after_us: int  # 1: an event of the time of the one before it does not count as after it
    before_us: int  # 1: the same of the one after it


class _Scratch(NamedTuple):
    """Room to work in, for the rows of events that begin with one event."""

    chain_ns: I64  # by slot: when the best row of events up to one of this slot is there
    left: I64  # rows of events up to the pulled input: the number of their last event
    left_ns: I64  # when all their events are there
    right: I64  # rows of events from the pulled input on: the number of their first event
    right_ns: I64


def _gather(events: _Arrivals, place: _Place) -> Windows:
    """Calls the kernel with room for its windows, and again with more if that did not suffice."""
    room = 4 * len(events.slot) + 16
    left, left_ns, right, right_ns = np.empty((4, len(events.slot)), np.int64)
    scratch = _Scratch(np.empty(events.slots, np.int64), left, left_ns, right, right_ns)
    while True:
        windows = np.empty((3, room), np.int64)
        if place.slots_before == _CONJUNCTION:
            count = _windows_of_and(events, place.window_us, scratch.chain_ns, windows)
        elif 0 < place.slots_before < events.slots:
            count = _windows_between(events, place, scratch, windows)
        else:
            count = _windows_at_end(events, place, scratch.chain_ns, windows)
        if count <= room:
            return Windows(windows[0, :count], windows[1, :count], windows[2, :count])
        room = count


# ---- kernels: every combination is found at its first event; `windows` gets first and last time and when it is known,
# as long as there is room, and the number of all is the result


@jit
def _put(count: int, first_us: int, last_us: int, known_ns: int, windows: I64) -> int:
    """Write a window unless it is empty. Returns how many there are then."""
    if first_us > last_us:
        return count
    if count < windows.shape[1]:
        windows[0, count], windows[1, count], windows[2, count] = first_us, last_us, known_ns
    return count + 1


@jit
def _windows_of_and(events: _Arrivals, window_us: int, chain_ns: I64, windows: I64) -> int:
    """The windows of an AND.

    The first event fixed, the window ends at t_min + W; a smaller t_max makes it longer. A combination with a larger
    t_max counts where it is there earlier. No event comes before its time, so later ones are soon no help.
    """
    time, slot, arrived, slots = events
    count = 0
    for first in range(len(time)):
        chain_ns[:] = END
        chain_ns[slot[first]] = arrived[first]
        known = END
        if slots == 1:
            count = _put(count, time[first] - window_us, time[first] + window_us, arrived[first], windows)
        for event in range(first + 1, len(time)):
            if slots == 1 or time[event] - time[first] > window_us or time[event] * 1000 >= known:
                break
            if slot[event] == slot[first] or arrived[event] >= chain_ns[slot[event]]:
                continue
            chain_ns[slot[event]] = arrived[event]
            complete = chain_ns[0]
            for each in range(1, slots):
                complete = max(complete, chain_ns[each])
            if complete < known:
                known = complete
                count = _put(count, time[event] - window_us, time[first] + window_us, known, windows)
    return count


@jit
def _windows_at_end(events: _Arrivals, place: _Place, chain_ns: I64, windows: I64) -> int:
    """The windows of an input that comes before all earlier ones in the text, or after them."""
    time, slot, arrived, slots = events
    window = place.window_us
    count = 0
    for first in range(len(time)):
        if slot[first] != 0:
            continue
        chain_ns[:] = END
        known = END
        for event in range(first, len(time)):
            if time[event] - time[first] > window or time[event] * 1000 >= known:
                break
            value = arrived[event]
            if slot[event] > 0:
                value = max(value, chain_ns[slot[event] - 1])
            elif event > first:
                continue
            chain_ns[slot[event]] = min(chain_ns[slot[event]], value)
            if slot[event] == slots - 1 and value < known:
                known = value
                if place.slots_before == 0:
                    count = _put(count, time[event] - window, time[first] - place.before_us, known, windows)
                else:
                    count = _put(count, time[event] + place.after_us, time[first] + window, known, windows)
    return count


@jit
def _windows_between(events: _Arrivals, place: _Place, scratch: _Scratch, windows: I64) -> int:
    """The windows of an input that comes between earlier ones: after rows of events up to its place, before the others.

    The first event fixed, only those rows are kept that leave a longer window or are there earlier.
    """
    time, left, left_ns, right, right_ns = (
        events.time_us,
        scratch.left,
        scratch.left_ns,
        scratch.right,
        scratch.right_ns,
    )
    count = 0
    for first in range(len(time)):
        if events.slot[first] != 0:
            continue
        scratch.chain_ns[:] = END
        lefts, end = _rows_before(first, events, place, scratch)
        rights = _rows_after(first, end, events, place, scratch)
        for i in range(lefts):
            known = END
            for j in range(rights):
                if right[j] < left[i] or known <= left_ns[i]:
                    break
                value = max(left_ns[i], right_ns[j])
                if value < known:
                    known = value
                    first_us, last_us = time[left[i]] + place.after_us, time[right[j]] - place.before_us
                    count = _put(count, first_us, last_us, known, windows)
    return count


@inlined
def _rows_before(first: int, events: _Arrivals, place: _Place, scratch: _Scratch) -> tuple[int, int]:
    """Write the rows of events up to the pulled input that begin with `first`.

    Returns how many they are, and the first event that lies outside of the window.
    """
    time, slot, arrived, _ = events
    chain_ns, left, left_ns = scratch.chain_ns, scratch.left, scratch.left_ns
    lefts, end = 0, first
    while end < len(time) and time[end] - time[first] <= place.window_us:
        at = slot[end]
        if at < place.slots_before and (at > 0 or end == first):
            value = max(arrived[end], chain_ns[at - 1]) if at > 0 else arrived[end]
            if value < chain_ns[at]:
                chain_ns[at] = value
                if at == place.slots_before - 1:
                    left[lefts], left_ns[lefts] = end, value
                    lefts += 1
        end += 1
    return lefts, end


@inlined
def _rows_after(first: int, end: int, events: _Arrivals, place: _Place, scratch: _Scratch) -> int:
    """Write the rows of events from the pulled input on that lie between two events. Returns how many they are."""
    _, slot, arrived, slots = events
    chain_ns, right, right_ns = scratch.chain_ns, scratch.right, scratch.right_ns
    rights = 0
    for event in range(end - 1, first, -1):
        at = slot[event]
        if at >= place.slots_before:
            value = max(arrived[event], chain_ns[at + 1]) if at + 1 < slots else arrived[event]
            if value < chain_ns[at]:
                chain_ns[at] = value
                if at == place.slots_before:
                    right[rights], right_ns[rights] = event, value
                    rights += 1
    return rights


# ---- what falls into windows


def joined(windows: Sequence[Windows]) -> Windows:
    """Windows of several operators."""
    return Windows(
        np.concatenate([part.first_us for part in windows]),
        np.concatenate([part.last_us for part in windows]),
        np.concatenate([part.known_ns for part in windows]),
    )


def union(windows: Windows) -> tuple[I64, I64]:
    """The first and last times of the stretches that the windows cover, apart and in order.

    >>> windows = Windows(np.array([5, 0, 3]), np.array([6, 2, 3]), np.zeros(3, np.int64))
    >>> union(windows)
    (array([0, 5]), array([3, 6]))
    """
    order = np.argsort(windows.first_us, kind="stable")
    first, last = windows.first_us[order], np.maximum.accumulate(windows.last_us[order])
    fresh = np.ones(len(first), np.bool_)
    fresh[1:] = first[1:] > last[:-1] + 1
    ends = np.append(np.flatnonzero(fresh)[1:] - 1, len(first) - 1)
    return first[fresh], last[ends] if len(first) else last


def known_ns(windows: Windows, times_us: I64) -> I64:
    """For events in order of time: when the first window that covers each is known, END where none does.

    >>> windows = Windows(np.array([0, 5]), np.array([6, 9]), np.array([70, 60]))
    >>> known_ns(windows, np.array([1, 5, 11])).tolist() == [70, 60, END]
    True
    """
    order = np.argsort(windows.known_ns, kind="stable")
    begin = np.searchsorted(times_us, windows.first_us[order], side="left")
    end = np.searchsorted(times_us, windows.last_us[order], side="right")
    known = np.full(len(times_us), END)
    _paint(begin, end, windows.known_ns[order], np.arange(len(times_us) + 1), known)
    return known


@jit
def _next_open(at: int, following: I64) -> int:
    """The next place from `at` on that nobody has taken; ways to it are shortened."""
    end = at
    while following[end] != end:
        end = following[end]
    while following[at] != end:
        following[at], at = end, following[at]
    return end


@jit
def _paint(begin: I64, end: I64, value: I64, following: I64, painted: I64) -> None:
    """The first to cover a place gives it its value."""
    for number in range(len(begin)):
        at = _next_open(begin[number], following)
        while at < end[number]:
            painted[at] = value[number]
            following[at] = at + 1
            at = _next_open(at, following)


# ---- requests


@dataclass(frozen=True, slots=True)
class Requests:
    """How often sources are asked. `starts`: where no request is under way that covers a window. `extensions`: what
    came to be needed while one was. `episodes`: times without a gap that are asked for at all. `growths`: how often
    more is needed than was asked for; sites ask at once, and so as often as this."""

    starts: int
    extensions: int
    episodes: int
    growths: int

    def __add__(self, other: Requests) -> Requests:
        return Requests(
            self.starts + other.starts,
            self.extensions + other.extensions,
            self.episodes + other.episodes,
            self.growths + other.growths,
        )


NO_REQUESTS = Requests(0, 0, 0, 0)


def requests(windows: Windows, lead_ns: int) -> Requests:
    """The requests by which a site asks for these windows: all that its operators need of one input.

    PaNORAMA, section 6: nothing is asked for twice. While a request is under way (its window has not ended), further
    needs are merged, and one extension goes out before it ends, early enough (`lead_ns`, the longest way to a source)
    that no event is missed. What an extension brings comes as early as if it had been asked for at once: it has not
    occurred when the extension is there. A window that reaches back to where nothing was asked for cannot wait.

    >>> windows = Windows(np.array([0, 10, 90]), np.array([20, 30, 95]), np.array([0, 10_000, 95_000]))
    >>> requests(windows, lead_ns=1_000)
    Requests(starts=2, extensions=1, episodes=2, growths=3)
    """
    if not len(windows):
        return NO_REQUESTS
    order = np.argsort(windows.known_ns, kind="stable")
    first, last, known = windows.first_us[order], windows.last_us[order], windows.known_ns[order]
    points = np.unique(np.concatenate([first, last + 1]))
    begin, end = np.searchsorted(points, first), np.searchsorted(points, last + 1)
    following = np.arange(len(points) + 1)
    starts, extensions, growths = _ask(begin, end, points * 1000, known, lead_ns, following)
    return Requests(starts, extensions, len(union(windows)[0]), growths)


@jit
def _ask(begin: I64, end: I64, points_ns: I64, known: I64, lead: int, following: I64) -> tuple[int, int, int]:
    """All windows begin before they are known, so at most one request is under way at any time. Its sources know of it
    up to `asked`; it will be extended up to `promised`. Places are stretches of time between two points. What becomes
    known at one time is asked for together."""
    starts = extensions = growths = together = 0
    asked = promised = -1
    while together < len(known):
        now = known[together]
        if asked >= 0 and now > points_ns[asked] - lead:
            asked = promised
        under_way = asked >= 0 and now < points_ns[asked]
        last, reaches_back, grows = 0, False, False
        while together < len(known) and known[together] == now:
            last = max(last, end[together])
            reach = min(end[together], promised) if under_way else end[together]
            at = _next_open(begin[together], following)
            reaches_back |= at < reach
            grows |= at < end[together]
            while at < end[together]:
                following[at] = at + 1
                at = _next_open(at, following)
            together += 1
        growths += int(grows)
        if reaches_back:
            starts += 1
            asked = promised = max(last, promised) if under_way else last
        elif under_way and last > promised:
            extensions += int(asked == promised)
            promised = last
            if now > points_ns[asked] - lead:
                asked = promised
    return starts, extensions, growths
