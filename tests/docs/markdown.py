"""What the tests read out of the documents: fenced blocks, tables of examples, headings and links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `language` is the word after the fence, `line` that of its first line of text."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"

    @property
    def end(self) -> int:
        """The line of the closing fence."""
        return self.line + self.text.count("\n")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table; `cells` holds what stands in code in each cell."""

    page: Path
    line: int
    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a page; of all languages, unless some are named."""
    text = page.read_text(encoding="utf-8")
    found = [
        Block(page, text.count("\n", 0, fence.start(2)) + 1, fence[1], fence[2]) for fence in _FENCE.finditer(text)
    ]
    return [block for block in found if not languages or block.language in languages]


def query_of(block: Block) -> str:
    """The text of a query block, with the streams that the page's first one declares if it has none of its own."""
    first = blocks(block.page, "situ")[0]
    return block.text if "stream " in block.text else f"{first.text}\n{block.text}"


def rows(page: Path, *header: str) -> list[Row]:
    """The rows of all tables that have this header."""
    found, inside = [], False
    for number, line in enumerate(without_blocks(page).splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if tuple(cells) == header:
            inside = True
        elif not cells:
            inside = False
        elif inside and set(cells[0]) != {"-"}:
            assert len(cells) == len(header), f"{name_of(page)}:{number} has {len(cells)} cells"
            found.append(Row(page, number, header, tuple(tuple(_CODE.findall(cell)) for cell in cells)))
    return found


def without_blocks(page: Path) -> str:
    """The text with its fenced blocks blanked; lines keep their numbers."""
    return _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", without_blocks(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    """Where a page points to, without the web."""
    targets = re.findall(r"\]\(([^)\s]+)\)", without_blocks(page))
    return [target for target in targets if not target.startswith(("http://", "https://"))]
