"""Lanes of commands: what fails ends its lane only, is said, and makes the exit code."""

from __future__ import annotations

import sys

import pytest

from lanes import ROOT, WITHOUT_JIT, Step, lanes, main


def saying(words: str, code: int = 0, counts: bool = False) -> Step:
    program = f"import sys; print({words!r}); sys.exit({code})"
    return Step(words, (sys.executable, "-c", program), counts=counts)


def test_the_output_ends_with_the_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main({"one": [saying("lint"), saying("3 passed", counts=True)]}) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["one     | --- lint", "one     | lint", "one     | --- 3 passed", "one     | 3 passed"]
    assert [line.split(" s  ")[-1] for line in lines[4:]] == ["lint", "3 passed", "3 passed"]


def test_what_fails_ends_its_lane_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    one = [saying("1 failed", code=1, counts=True), saying("never")]
    assert main({"one": one, "two": [saying("2 passed", counts=True), saying("4 passed", counts=True)]}) == 1
    printed = capsys.readouterr().out
    assert "1 failed  FAILED" in printed
    assert "never" not in printed
    assert {"1 failed", "2 passed", "4 passed"} == {*printed.splitlines()[-3:]}


def test_every_file_of_the_pass_without_the_jit_exists() -> None:
    assert all(any(ROOT.glob(pattern)) for pattern in WITHOUT_JIT)
    assert {"spark", "apart", "engines", "others"} == set(lanes())
