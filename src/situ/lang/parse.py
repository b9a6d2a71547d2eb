"""Text to query: the first hop of `parse -> resolve -> plan -> compile -> run`."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import NamedTemporaryFile

import lark
from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput, VisitError
from lark.lexer import PatternRE, PatternStr, TerminalDef

from situ.core.errors import Place, QuerySyntaxError, SituError
from situ.graph.query import Query
from situ.lang.query_files import is_file_name, name_instead_of_query, read_text
from situ.lang.statements import MAX_DEPTH, is_too_deep, tree_of_statements
from situ.lang.syntax_errors import point_at, syntax_error
from situ.lang.tree_to_query import TreeToQuery


def parse(text: str | Path, file: str = "<query>") -> Query:
    """The query that a text says, or that of a file (a `Path`); QuerySyntaxError, with the place and a remedy, if it
    says none.

    Nothing is looked up: names may be unknown, and a bare name is always `Attribute(None, name)`.

    >>> query = parse("subscribe Hot detect Room(degrees > 30) as r assign room = r.room")
    >>> query.subscriptions[0].rule.cases[0].assign
    (Assignment(name='room', expression=Attribute(alias='r', name='room')),)
    """
    if isinstance(text, Path):
        return parse(read_text(text), str(text))
    if (query := _query_of_statements(text, file)) is not None:
        return query
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        if is_file_name(text):
            raise name_instead_of_query(text) from None
        raise syntax_error(error, _parser(), text, file) from None
    try:
        _check_depth(tree, file)
        return TreeToQuery(file).transform(tree)
    except SituError as error:
        raise point_at(error, text) from None
    except VisitError as error:  # lark wraps what a transformation raises
        if isinstance(error.orig_exc, SituError):
            raise point_at(error.orig_exc, text) from None
        raise


def _query_of_statements(text: str, file: str) -> Query | None:
    """The query of a text, by the short way, if there is one; what is wrong with a text, the long way tells."""
    tree = tree_of_statements(text, _parser())
    if tree is None:
        return None
    try:
        return TreeToQuery(file).transform(tree)
    except (SituError, VisitError):
        return None


def _check_depth(tree: Tree[Token], file: str) -> None:
    if (node := is_too_deep(tree)) is not None:
        raise QuerySyntaxError(
            f"this is nested more than {MAX_DEPTH} levels deep",
            place=Place(file, node.meta.line, node.meta.column),
            remedy="Split it into definitions, or write long alternatives as x in (...).",
        )


@cache
def _parser() -> Lark:
    """The parser for grammar.lark, from the user's cache directory if it is there.

    Building takes 0.2 s and loading a tenth of that, which is felt in every command. Where the directory cannot be
    written or its file cannot be read, the parser is simply built.
    """
    stored = _stored_parser()
    if stored is None:
        return _build_parser()
    try:
        with stored.open("rb") as file:
            return Lark.load(file)
    except Exception:  # absent, or broken in one of the many ways in which a pickle can be
        parser = _build_parser()
    with suppress(OSError):
        stored.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=stored.parent, delete=False) as unfinished:
            parser.save(unfinished)
        os.replace(unfinished.name, stored)
    return parser


def _stored_parser() -> Path | None:
    """Where the parser is kept; the name changes with everything that the parser depends on.

    Not in the shared temporary directory: a pickle from there could be anybody's.
    """
    sources = "".join((files("situ.lang") / name).read_text(encoding="utf-8") for name in ("grammar.lark", "parse.py"))
    digest = hashlib.sha256(f"{lark.__version__} {sys.version_info[:2]} {sources}".encode()).hexdigest()[:16]
    try:
        directory = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError:  # a user without a home directory
        return None
    return directory / "situ" / f"grammar-{digest}.pickle"


def _build_parser() -> Lark:
    return Lark(
        (files("situ.lang") / "grammar.lark").read_text(encoding="utf-8"),
        parser="lalr",
        propagate_positions=True,
        g_regex_flags=re.IGNORECASE,
        edit_terminals=_keyword_is_a_word,
    )


def _keyword_is_a_word(terminal: TerminalDef) -> None:
    """A keyword comes before a name, and ends where the word ends: `thence` is no `then`."""
    if isinstance(terminal.pattern, PatternStr) and terminal.pattern.value.isalpha():
        terminal.pattern = PatternRE(terminal.pattern.value + r"\b")
        terminal.priority = 1
