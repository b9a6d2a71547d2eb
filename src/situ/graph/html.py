"""Tables and pictures as HTML, for the `_repr_html_` of notebooks."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape


def table_to_html(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a title; what stands in it is escaped.

    >>> table_to_html("Sites", ["name"], [["<west>"]])[-31:]
    '>&lt;west&gt;</td></tr></table>'
    """
    caption = f'<caption style="text-align:left;font-weight:bold">{escape(title)}</caption>'
    head = _row("th", columns)
    return f"<table>{caption}{head}{''.join(_row('td', row) for row in rows)}</table>"


def svg_to_image(svg: str, title: str) -> str:
    """A picture as an image of its own: within a page, its styles and identifiers would be those of the whole page."""
    data = b64encode(svg.encode()).decode()
    return f'<img alt="{escape(title)}" style="max-width:100%" src="data:image/svg+xml;base64,{data}">'


def text_to_html(summary: str, text: str) -> str:
    """A text that is shown when somebody asks for it."""
    return f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"


def _row(tag: str, cells: Iterable[object]) -> str:
    written = (f'<{tag} style="text-align:left;padding:2px 10px">{escape(_shown(cell))}</{tag}>' for cell in cells)
    return f"<tr>{''.join(written)}</tr>"


def _shown(cell: object) -> str:
    """Numbers with as many digits as a person reads, times (all of them are UTC) without their zone."""
    match cell:
        case float():
            return f"{cell:.6g}"
        case datetime():
            return str(cell.replace(tzinfo=None))
        case None:
            return ""
        case _:
            return str(cell)
