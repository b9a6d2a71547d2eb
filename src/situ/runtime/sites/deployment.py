"""A plan is given to all its sites in two phases: all are ready, or nothing changes. A pure state machine: answers in,
messages out; whoever has the connections carries them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from situ.core.time import BEGINNING, format_time
from situ.runtime.sites.deployed_plan import DeployedPlan, plan_to_json
from situ.runtime.sites.messages import Abort, ControlAnswer, ControlMessage, Done, Go, Prepare, Prepared

Phase = Literal["prepare", "go", "abort", "running", "refused"]


@dataclass
class Deployment:
    """Deploys a plan to `sites`: all that have a part in it or in the version before.

    `outbox` has what each site is still to be told; messages may be repeated, and answers may come twice. A site that
    cannot be reached is given up with `unreachable`: before `go` that refuses the plan, after it the site hears from
    the others. `word` is any that no other deployment has.
    """

    plan: DeployedPlan
    sites: tuple[str, ...]
    word: str = field(default_factory=lambda: secrets.token_hex(8))
    phase: Phase = "prepare"
    reasons: dict[str, str] = field(default_factory=dict)
    latest_us: int = BEGINNING
    _open: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._open = {*self.sites}

    def outbox(self) -> Mapping[str, ControlMessage]:
        """What is to be said to the sites that have not answered."""
        message: ControlMessage
        match self.phase:
            case "prepare":
                message = Prepare(plan_to_json(self.plan), self.word)
            case "go":
                message = Go(self.plan.version, self.plan.digest)
            case "abort":
                message = Abort(self.plan.version, self.plan.digest, self.word)
            case _:
                return {}
        return dict.fromkeys(sorted(self._open), message)

    def hear(self, site: str, answer: ControlAnswer) -> None:
        """A site has answered."""
        match answer:
            case Prepared(version, ready, reason, latest_us) if self.phase == "prepare":
                self.latest_us = max(self.latest_us, latest_us)
                if not ready:
                    self.reasons[site] = reason
                if version in (0, self.plan.version):
                    self._answered(site)
            case Done(done, reason) if self.phase in ("go", "abort"):
                if not done:
                    self.reasons[site] = reason
                self._answered(site)
            case _:
                pass

    def unreachable(self, site: str, reason: str) -> None:
        """A site does not answer, and is not waited for any more."""
        if self.phase == "prepare":
            self.reasons[site] = reason
        self._answered(site)

    def give_up(self) -> None:
        """Abort it, although all are ready: nobody was told to begin."""
        self.phase, self._open = "abort", {*self.sites}

    def _answered(self, site: str) -> None:
        self._open.discard(site)
        if self._open:
            return
        if self.phase == "prepare":
            self.phase = "abort" if self.reasons else "go"
            self._open = {*self.sites}
        elif self.phase == "go":
            self.phase = "running"
        elif self.phase == "abort":
            self.phase = "refused"

    @property
    def is_over(self) -> bool:
        return self.phase in ("running", "refused")

    def words(self) -> str:
        """What became of it, for a person."""
        if self.phase == "running":
            since = "" if self.plan.starts_us == BEGINNING else f" from {format_time(self.plan.starts_us)} on"
            return f"version {self.plan.version} runs at {len(self.sites)} sites{since}"
        if self.phase == "refused":
            told = "\n".join(f"  {site}: {reason}" for site, reason in sorted(self.reasons.items()))
            return f"version {self.plan.version} was refused, and nothing has changed:\n{told}"
        return f"version {self.plan.version}: {self.phase}, waiting for {', '.join(sorted(self._open))}"


def concerned_sites(plan: DeployedPlan, running: Iterable[DeployedPlan] = ()) -> tuple[str, ...]:
    """The sites that are to be told of a plan: its own, and those of the version that it ends."""
    return tuple(sorted({*plan.sites, *(site for before in running for site in before.sites)}))
