"""docs/python.md has every name of the builder."""

import re

from docs.markdown import ROOT
from situ import build


def test_every_name_of_the_builder_is_on_the_page() -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    named = {*re.findall(r"\w+", page[page.index("## Queries without text") :])}
    assert {*build.__all__} - named == set()
