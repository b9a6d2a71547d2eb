"""The arrays that the kernel works on, in named groups. All fields are NumPy arrays."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U64 = npt.NDArray[np.uint64]
U8 = npt.NDArray[np.uint8]
F64 = npt.NDArray[np.float64]


class Code(NamedTuple):
    """A program. Edges and watches of state s are those from offset s to offset s + 1."""

    state_variable: I32
    state_test: I32
    state_code: I32  # (states, 2): range of instructions
    state_accept: U8  # 0: no, 1: when the event is taken, 2: at the deadline
    state_final: U64  # watches that must not have fired at the deadline
    state_anchor: U8  # 1: takes the event that the window counts from
    state_interest: U64  # tests of events that concern a partial match waiting here
    state_conjunction: I32  # states of one `and` have a number in common; 0 for all others
    state_past: U8  # 1: with its event, a match has got past its first step
    state_impatient: U8  # 1: some edge or watch is about the very next event
    edge_offset: I32
    edge_target: I32
    edge_contiguity: U8  # 0: then, 1: each, 2: immediately, 3: when time has passed in silence
    edge_forbid: U64
    edge_keep: U64
    edge_refuse: I32  # (edges, 3): test (-1: none) and range of instructions; such an event is passed over
    edge_length: I64  # of a silence: how long it is
    edge_stays: U8  # 1: silences after it count from where those before it did
    watch_offset: I32
    watch_number: I32
    watch_test: I32  # -1: any event fires it
    watch_code: I32  # (watches, 2)
    watch_refuse: I32  # (watches, 3), as for edges
    watch_refused: U8  # 1: fires for refused events, 0: for the others
    watch_immediately: U8
    watch_unless: U64
    starts: I32
    start_refuse: I32  # (starts, 3), as for edges
    begins: I32  # states that wait for a silence that comes first
    instructions: I32  # (n, 3)
    whole_constants: I64
    real_constants: F64
    window: I64  # the five numbers that follow


#: What `Code.window` says: which window there is (0 none, 1 from first, 2 from previous, 3 from an alias), how long it
#: is, whether what times out is reported, `once` (0 no, 1 the first match ends it, 2 matches wait for selectors), and
#: whether there are silences.
KIND, LENGTH, REPORTS_TIMED_OUT, ONCE, SILENCES = range(5)


class Events(NamedTuple):
    """What conditions and positions are asked of: rows kept from before, then the new candidates."""

    position: I64
    whole: I64  # (rows, terms)
    whole_null: U8
    real: F64
    real_null: U8
    opened: I64  # written: the number of the selection that an event opens
    chosen_offset: I64  # by group: where the numbers of the selections to process stand (empty: process all)
    chosen: I64


# Partial matches and the events they took are records, not columns: the kernel reads several fields of one of them at a
# time, and a record is one or two lines of the processor's cache.

#: Partial matches: a pool, chained per group by `next`; free ones (state -1) are chained from counters[FREE].
RUN = np.dtype(
    [
        ("deadline", np.int64),
        ("wakes", np.int64),  # when its next silence is over, if nothing breaks it (END: it waits for none)
        ("since", np.int64),  # from when its silences count
        ("alive", np.uint64),  # bit e: edge e of the state is open
        ("seen", np.uint64),  # bit w: watch w has fired
        ("first_time", np.int64),
        ("first_position", np.int64),
        ("selection", np.int64),
        ("group", np.int64),
        ("state", np.int32),
        ("node", np.int32),
        ("next", np.int32),
        ("anchored", np.uint8),
        ("extended", np.uint8),
    ],
    align=True,
)
#: Silences that are over. Until they have rows among the events, they have numbers from -2 downwards there, which the
#: shards use in turn.
SILENCE = np.dtype([("time", np.int64), ("group", np.int64), ("position", np.int64)])
#: Events taken: a forest; a partial match is a path to a root.
NODE = np.dtype([("event", np.int64), ("parent", np.int32), ("state", np.int32)], align=True)
#: Matches as the kernel finds them: the path's last node but one, and the last event and state.
FIRED = np.dtype(
    [
        ("event", np.int64),
        ("time", np.int64),
        ("group", np.int64),
        ("first_position", np.int64),
        ("selection", np.int64),
        ("node", np.int32),
        ("state", np.int32),
        ("timed_out", np.uint8),
    ],
    align=True,
)
#: Per group: its first partial match, how many it has, the next position, the number of selections opened, with `once`
#: the position at which the only match starts that may stay (-1: not known yet), whether silences that come first have
#: begun, and the tests that its partial matches wait for, as bits, or more than these.
GROUP = np.dtype(
    [
        ("head", np.int32),
        ("live", np.int32),
        ("positions", np.int64),
        ("selections", np.int64),
        ("living", np.int64),
        ("begun", np.int64),
        ("awaited", np.uint64),
    ]
)
Runs: TypeAlias = Any  # np.ndarray of RUN
Nodes: TypeAlias = Any  # np.ndarray of NODE
Fired: TypeAlias = Any  # np.ndarray of FIRED
Groups: TypeAlias = Any  # np.ndarray of GROUP
Silences: TypeAlias = Any  # np.ndarray of SILENCE


class Pools(NamedTuple):
    """The records of one shard that the kernel reads and writes, and how many of them are in use."""

    groups: Groups  # of all shards; a shard writes its own groups only
    runs: Runs
    nodes: Nodes
    fired: Fired
    silences: Silences
    counters: I64  # see below


class NewEvents(NamedTuple):
    """The new events of a step in the order in which they are offered, so that the kernel reads them one after the
    other. A shard takes those of its own groups: group g if g % shards == shard."""

    row: I64  # of `Events`
    group: I64
    time: I64
    position: I64
    accepted: U64  # bit t: test t holds
    shard: int
    shards: int  # a power of two


class OfferedEvent(NamedTuple):
    """The event that the kernel offers to the partial matches of its group."""

    row: int
    group: int
    time: int
    accepted: np.uint64  # bit t: test t holds


class PartialMatch(NamedTuple):
    """What an event finds that it continues. The fields are those of RUN."""

    node: int  # the last event taken; -1: none yet
    seen: np.uint64
    first_time: int
    first_position: int
    anchored: int
    deadline: int
    selection: int
    since: int  # from when the silences of what continues it count


class CompletedMatch(NamedTuple):
    """A match, or a partial one that timed out. The fields are those of FIRED."""

    node: int
    event: int
    state: int
    time: int
    group: int
    first_position: int
    selection: int
    timed_out: int


class Machine(NamedTuple):
    """What runs the code of conditions: a stack of values, and the entry into Python for host conditions."""

    whole: I64
    real: F64
    null: U8
    host: int  # the address of a C function; 0: no condition needs it


class Paths(NamedTuple):
    """The events of matches, in order of position: match m has those from offsets[m] to offsets[m + 1]."""

    offsets: I64
    event: I64
    variable: I64


class Firings(NamedTuple):
    """By match: its group, where it starts, whether it timed out, and when it fires (`Waiting` in policies.py)."""

    group: I64
    first_position: I64
    timed_out: U8
    time: I64
    moment: I64


# Counters: one int64 array of these.
FREE, RUNS_USED, NODES_USED, FIRED_USED, SILENCES_USED, LIVE, EARLIEST, SHARD, SHARDS = range(9)
COUNTERS = 9
