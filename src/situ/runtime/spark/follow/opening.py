"""Before a query that runs on starts: are rules and checkpoint right, and do they go together?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from situ.core.errors import SituError, StateError
from situ.core.functions import Functions
from situ.core.functions import default as default_functions
from situ.io.permissions import PRIVATE, Permissions
from situ.lang.parse import parse
from situ.runtime.spark.follow.checkpoint import Checkpoint, Manifest, require_the_same
from situ.runtime.spark.follow.planned_rules import PlannedRules, first_rules, next_rules, planned
from situ.runtime.spark.sinks.sink_limits import require_held
from situ.service.rules import RuleStore, Texts, read_control, texts_with


@dataclass(frozen=True)
class Job:
    """What is to run: rules, where streams come from and results go (None: to the terminal), and how. The control
    directory may be missing. Addresses may hold secrets, and are not shown."""

    file: str
    text: str
    addresses: Mapping[str, str] = field(repr=False)
    checkpoint: Path
    control: Path | None = None
    every_us: int | None = None
    once: bool = False
    shards: int | None = None
    levels: int | None = None
    out: str | None = field(default=None, repr=False)
    permissions: Permissions = PRIVATE
    clock_back_to_us: int | None = None
    start_us: int | None = None


@dataclass(frozen=True)
class Opening:
    """The rules to begin with. `before`: those that were in force, if they are others. `manifest`: None at the first
    start. `wrong`: what of the control directory, as it was found in `control`, does not hold."""

    checkpoint: Checkpoint
    manifest: Manifest | None
    rules: PlannedRules
    before: PlannedRules | None
    wrong: tuple[SituError, ...]
    control: Mapping[str, bytes] = field(default_factory=dict)


def open_rules(job: Job, functions: Functions = default_functions) -> Opening:
    """Checks a job against its checkpoint, whose lock is held; an error if it is another query's, or the rules are
    wrong. Needs no Spark and writes nothing."""
    checkpoint = Checkpoint(job.checkpoint, job.permissions)
    control_files = read_control(job.control) if job.control else {}
    manifest = checkpoint.manifest()
    if manifest is None:
        alone = Texts(job.file, job.text)
        texts, wrong = texts_with(alone, control_files)
        rules, refused = _first_that_holds(texts, alone, lambda texts: _first(job, texts, functions))
        assert rules is not None
        return Opening(checkpoint, None, rules, None, (*wrong, *refused), control_files)
    last = RuleStore(checkpoint.rules).last()
    if last is None:
        raise StateError(
            "the checkpoint has lost its rules",
            place=str(checkpoint.rules),
            remedy="Restore them from a backup, or begin with a new --checkpoint.",
        )
    in_force = planned(last, functions)
    streams = parse(job.text, job.file).streams
    require_the_same(manifest, streams, job.addresses, job.shards, job.levels, str(job.checkpoint), job.start_us)
    as_before = Texts(job.file, job.text, last.texts.control)
    texts, wrong = texts_with(as_before, control_files)
    rules, refused = _first_that_holds(
        texts, as_before, lambda texts: next_rules(in_force, texts, manifest.levels, now(), functions, job.out)
    )
    if rules is None:  # the sink may be another one than before
        require_held(in_force.plan, job.out, functions)
    return Opening(
        checkpoint, manifest, rules or in_force, in_force if rules else None, (*wrong, *refused), control_files
    )


def _first(job: Job, texts: Texts, functions: Functions) -> PlannedRules:
    first = first_rules(texts, now(), functions, job.out)
    if job.levels is not None and len(first.plan.stages) > job.levels:
        raise StateError(
            f"the query regroups complex events and so needs {len(first.plan.stages)} levels, not {job.levels}",
            remedy=f"Say --levels {len(first.plan.stages)}, or more to leave room for rules to come.",
        )
    return first


def _first_that_holds(
    texts: Texts, otherwise: Texts, rules: Callable[[Texts], PlannedRules | None]
) -> tuple[PlannedRules | None, list[SituError]]:
    """Rules of the control directory that are wrong keep nothing from running; those of the query file do."""
    try:
        return rules(texts), []
    except SituError as error:
        if texts == otherwise:
            raise
        return rules(otherwise), [error]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
