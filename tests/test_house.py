"""What holds for the source as a whole, and no linter checks."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text(encoding="utf-8"))


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for name, module in modules():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_operators_are_started_by_the_flow_alone() -> None:
    """Whoever starts an operator drives it; there is one driver, but for the lab's experiments."""
    starters = {
        name
        for name, module in modules()
        for node in ast.walk(module)
        if isinstance(node, ast.Name) and node.id == "start_operator"
    }
    assert {name for name in starters if not name.startswith("situ/lab/")} == {"situ/flow/flow.py"}
