"""How a flow runs many rules, in words: which of them run as one, and how the index finds what they ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from situ.filter.filterer import Filterer
from situ.flow.nodes import FamilyNode, Node

#: So many names, and so many ways to be found, are shown.
_SHOWN = 5


def describe_rules(
    families: Collection[Sequence[FamilyNode]], nodes: Iterable[Node], filterers: Mapping[str, Filterer]
) -> str:
    """The rules that run as one, by shape, and the index; empty if every rule runs by itself."""
    if not families:
        return ""
    lines = []
    for of_shape in families:
        names = [name for node in of_shape for name in node.names]
        sides = f", side by side in {len(of_shape)} parts" if len(of_shape) > 1 else ""
        lines.append(f"{len(names):,} rules of one shape run as one program{sides}: {_some(names)}")
    alone = [name for node in nodes if not isinstance(node, FamilyNode) for name in node.names]
    if alone:
        lines.append(f"{len(alone):,} run by themselves: {_some(alone)}")
    for event_type, filterer in filterers.items():
        lines.append(f"index of {event_type}: {len(filterer):,} contents")
        ways = Counter(filterer.describe(content) for content in filterer.contents())
        lines += [f"  {count:,} found by {way}" for way, count in ways.most_common(_SHOWN)]
        if len(ways) > _SHOWN:
            lines.append(f"  {sum(count for _, count in ways.most_common()[_SHOWN:]):,} in other ways")
    return "\n".join(lines).replace("found by evaluated", "evaluated").replace("found by never", "never fulfilled")


def _some(names: Iterable[str]) -> str:
    names = [*names]
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
