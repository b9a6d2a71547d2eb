"""Steps side by side: what fails is said, stops no other step, and makes the exit code."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lanes import CONFORMANCE, ENGINES, LANGUAGE, PLANS, ROOT, SITES, WITHOUT_JIT, Step, main, steps


def saying(words: str, code: int = 0, counts: bool = False) -> Step:
    program = f"import sys; print({words!r}); sys.exit({code})"
    return Step(words, (sys.executable, "-c", program), counts=counts)


def test_the_output_ends_with_the_counts(capsys: pytest.CaptureFixture[str]) -> None:
    lint = saying("lint")
    assert main([replace(saying("3 passed", counts=True), after=lint), lint]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["lint        | lint", "3 passed    | 3 passed"]
    assert [line.split(" s  ")[-1] for line in lines[2:]] == ["lint", "3 passed", "3 passed"]


def test_what_fails_stops_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    failing = saying("1 failed", code=1, counts=True)
    others = [saying(f"{count} passed", counts=True) for count in range(2, 9)]
    assert main([failing, *(replace(step, after=failing) for step in others)]) == 1
    printed = capsys.readouterr().out
    assert "1 failed  FAILED" in printed
    assert {"1 failed", *(step.name for step in others)} == {*printed.splitlines()[-8:]}


def test_a_step_begins_when_the_one_before_it_has_ended(tmp_path: Path) -> None:
    made = tmp_path / "made"
    before = Step("before", (sys.executable, "-c", f"open({str(made)!r}, 'w').close()"))
    after = Step("after", (sys.executable, "-c", f"open({str(made)!r}).close()"), after=before)
    assert main([after, before]) == 0


def test_every_folder_that_a_step_names_exists() -> None:
    assert all((ROOT / path).exists() for path in (*WITHOUT_JIT, *LANGUAGE, *SITES, *CONFORMANCE, *ENGINES, *PLANS))


def test_lint_and_types_are_among_the_steps() -> None:
    assert {"mypy", "ruff", "lint-imports"} < {step.name for step in steps()}
