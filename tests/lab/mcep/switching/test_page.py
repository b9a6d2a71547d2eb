"""What docs/lab/mcep-switching.md shows is what comes out."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from docs.markdown import ROOT, blocks

PAGE = ROOT / "docs" / "lab" / "mcep-switching.md"


def test_examples_print_what_the_page_says() -> None:
    shown = iter(blocks(PAGE, "text"))
    names: dict[str, Any] = {}
    for block in blocks(PAGE, "python"):
        printed = StringIO()
        with redirect_stdout(printed):
            exec(compile(block.text, str(block), "exec"), names)
        assert printed.getvalue() == next(shown).text
    assert next(shown, None) is None
