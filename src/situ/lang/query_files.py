"""Query files: the text of one, and the mistake of passing a file's name as if it were the query."""

from __future__ import annotations

from pathlib import Path

from situ.core.errors import InputError, QuerySyntaxError

SUFFIX = ".situ"


def read_text(file: Path) -> str:
    """The text of a query file; InputError if there is none."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError("the query file is not text in UTF-8", place=str(file)) from error
    except OSError as error:
        raise InputError(f"cannot read the query file: {error.strerror}", place=str(file)) from error


def is_file_name(text: str) -> bool:
    """Whether a text that is no query looks like the name of a query file.

    >>> is_file_name("rules/braking.situ"), is_file_name("subscribe Hot detect Room")
    (True, False)
    """
    return "\n" not in text.strip() and text.strip().lower().endswith(SUFFIX)


def name_instead_of_query(text: str) -> QuerySyntaxError:
    """The error for a file's name where a query should be."""
    return QuerySyntaxError(
        f"{text.strip()!r} is the name of a file, and not a query",
        remedy=f"Pass the file: Path({text.strip()!r}). A text is read as the query itself.",
    )
