"""The ways to run a query in this process. Spark's own, for which a session must run, are in `on_spark`."""

from __future__ import annotations

from conformance.batch_stage import BatchStage
from conformance.by_oracle import Oracle
from conformance.embedded import InPieces, Whole
from conformance.own_files import OwnFiles
from conformance.question import Executor
from conformance.simulated_sites import Sites
from conformance.stream_stage import StreamStage

ENGINES: dict[str, Executor] = {
    "embedded whole": Whole(),
    "embedded row by row": InPieces(cut_chance=1),
    "embedded in pieces": InPieces(),
    "embedded with restarts": InPieces(restarts=True),
    "batch stage": BatchStage(),
    "stream stage": StreamStage(),
    "packets of files": OwnFiles(in_slices=False),
    "slices of files": OwnFiles(in_slices=True),
}
WAYS: dict[str, Executor] = {"oracle": Oracle(), **ENGINES, "sites": Sites()}

#: Where rows are divided among tasks, no task sees all rows of one event, so these must be equal. Files in which they
#: are not are no questions for those.
IN_TASKS = ("batch stage", "stream stage", "packets of files", "slices of files")
NOT_IN_TASKS = ("unique", "unique_order")
