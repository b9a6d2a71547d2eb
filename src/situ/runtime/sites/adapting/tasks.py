"""A transition that the coordinator carries out: versions of the plan, one after another, that move operators.

It is in the journal until it is over. Nothing says how far it has come but the plan that runs: a step is done when its
operators are where it wants them. So whoever goes on with it after a kill cannot do a step twice, or half.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

from situ.runtime.sites.carrying import carried_on
from situ.runtime.sites.deployed_plan import DeployedPlan, PlanError, Strategy
from situ.runtime.sites.transition import Move, Order, placed_at


@dataclass(frozen=True, slots=True)
class TransitionStep:
    """Operators that move in one version: where to, and how."""

    sites: Mapping[str, str]
    strategies: Mapping[str, Strategy]

    def is_done(self, plan: DeployedPlan) -> bool:
        return all(name in plan.operators and plan.operators[name].site == site for name, site in self.sites.items())

    def version_after(self, plan: DeployedPlan) -> DeployedPlan:
        """The version that does it; when it begins, and its ways, are still to be said."""
        return carried_on(placed_at(plan, self.sites), plan, strategies=self.strategies)


@dataclass(frozen=True, slots=True)
class TransitionTask:
    """What is to be done, and why. `mechanism` is the one that wants it, if one does; `lead_us` how long after the
    latest event a version begins. `versions` are those that have begun for it."""

    steps: tuple[TransitionStep, ...]
    why: str
    lead_us: int
    mechanism: str = ""
    versions: tuple[int, ...] = ()

    def after_step(self) -> TransitionTask:
        return replace(self, steps=self.steps[1:])

    def begun(self, version: int) -> TransitionTask:
        return self if version in self.versions else replace(self, versions=(*self.versions, version))

    def to_json(self) -> dict[str, Any]:
        steps = [{"sites": dict(step.sites), "strategies": dict(step.strategies)} for step in self.steps]
        return {
            "steps": steps,
            "why": self.why,
            "lead_us": self.lead_us,
            "mechanism": self.mechanism,
            "versions": list(self.versions),
        }

    @classmethod
    def of_json(cls, said: Any) -> TransitionTask:
        """
        >>> task = TransitionTask((TransitionStep({"Jam": "hall"}, {"Jam": "sms"}),), "somebody wants it", 2_000_000)
        >>> TransitionTask.of_json(task.to_json()) == task
        True
        """
        try:
            steps = tuple(
                TransitionStep(_texts(step["sites"]), _strategies(step["strategies"])) for step in said["steps"]
            )
            lead_us = said["lead_us"]
            if not isinstance(lead_us, int) or not 0 <= lead_us <= 86_400_000_000:
                raise ValueError(lead_us)
            return cls(steps, str(said["why"]), lead_us, str(said["mechanism"]), tuple(map(int, said["versions"])))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise PlanError("this says no transition", remedy="Is this situ as new as that of the site?") from None

    @classmethod
    def of_text(cls, text: str) -> TransitionTask:
        try:
            return cls.of_json(json.loads(text))
        except (ValueError, RecursionError):
            raise PlanError("this says no transition", remedy="Is this situ as new as that of the site?") from None


def task_of(moves: tuple[Move, ...], order: Order, why: str, lead_us: int, mechanism: str = "") -> TransitionTask:
    """The transition that makes some moves, in one version or in one for each."""
    groups = [moves] if order == "concurrent" else [(move,) for move in moves]
    steps = [
        TransitionStep({m.operator: m.target for m in of}, {m.operator: m.strategy for m in of}) for of in groups if of
    ]
    return TransitionTask(tuple(steps), why, lead_us, mechanism)


def _texts(said: Mapping[str, Any]) -> dict[str, str]:
    if not all(isinstance(each, str) for pair in said.items() for each in pair):
        raise ValueError(said)
    return dict(said)


def _strategies(said: Mapping[str, Any]) -> dict[str, Strategy]:
    if not {*said.values()} <= {*get_args(Strategy)}:
        raise ValueError(said)
    return cast("dict[str, Strategy]", _texts(said))
