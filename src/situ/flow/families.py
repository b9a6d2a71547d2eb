"""Which rules of a flow run as one: those of one shape that read the same events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TypeAlias

from situ.kernel.compile import Programs
from situ.kernel.operator import Context
from situ.kernel.program.shape import Shape, Shaped

#: What rules that run as one have in common: their shape, the numbers of the ports at which they read, and how they
#: read there.
FamilyKey: TypeAlias = tuple[Shape, tuple[int, ...], int | None, bool, tuple[int, int] | None]

#: A family is worth a thread of its own if it has so many rules.
_RULES_PER_THREAD = 4


def families_of(
    programs: Programs, ports_of: Callable[[Context], tuple[int, ...]], threads: int
) -> dict[str, tuple[FamilyKey, Shaped, int]]:
    """By rule that runs with others: what it has in common with them, its shape, and how many families of the shape run
    side by side. A rule that no other resembles runs by itself."""
    alike: dict[FamilyKey, list[tuple[str, Shaped]]] = defaultdict(list)
    for name, context in programs.contexts.items():
        rule = programs.shaped(name)
        if rule is not None:
            alike[family_key(context, rule, ports_of(context))].append((name, rule))
    joint: dict[str, tuple[FamilyKey, Shaped, int]] = {}
    for key, rules in alike.items():
        if len(rules) > 1 and may_join(programs, rules[0][0]):
            families = max(1, min(threads, len(rules) // _RULES_PER_THREAD))
            joint |= {name: (key, rule, families) for name, rule in rules}
    return joint


def family_key(context: Context, rule: Shaped, ports: tuple[int, ...]) -> FamilyKey:
    """What a rule has in common with others that it may run with."""
    return rule.shape, ports, context.slice_us, context.ordered, context.own_us


def may_join(programs: Programs, name: str) -> bool:
    """Whether a rule, and so all of its shape, may run with others. A silence that comes first begins with the first
    event of all, or at the start of all, and not with the first one that concerns the rule."""
    return not programs.template(name).begins_in_silence
