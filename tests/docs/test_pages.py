"""Every link of the documents leads somewhere, every name exists, and every block says what it is."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

from docs.markdown import PAGES, anchors, blocks, links, name_of, query_of, without_blocks
from situ.lang.parse import parse
from situ.lang.resolve import resolve

#: Those of other systems are in coming-from.md, and test_coming_from.py runs what Spark understands of them.
LANGUAGES = {"situ", "python", "console", "text", "sql", "java", "epl"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_names_exist(page: Path) -> None:
    """`situ.lang.parse.parse`: a module, or what it holds."""
    for name in re.findall(r"`(situ(?:\.\w+)+)", without_blocks(page)):
        assert resolve_name(name) is not None, name


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_say_what_they_are(page: Path) -> None:
    """So that no query and no Python goes untested."""
    assert {block.language for block in blocks(page)} <= LANGUAGES


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "language.md"], ids=name_of)
def test_queries_resolve(page: Path) -> None:
    """A block that declares no stream goes with the page's first one, which may declare streams only."""
    for block in blocks(page, "situ"):
        graph = resolve(parse(query_of(block), str(block)))
        assert graph.operators or "detect" not in block.text
