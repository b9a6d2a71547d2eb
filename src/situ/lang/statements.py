"""The tree of a text of statements, of which the parser reads one of each form.

A file of rules has thousands of statements that differ in names, numbers and texts. The tokens of two such statements
are of the same kinds in the same order, and a tree depends on nothing else: so the tree of the first is that of the
others, with other tokens in other places.

Statements begin with a word (`stream`, `define`, `subscribe`, `subscription`) that stands in no literal and no comment.
Where the text between two such words is a statement, the parser, which reads the whole text, begins a new one with the
second word, too: after a whole statement it takes the word for nothing else. Where it is none, an attribute may be
called `stream`, or the text is wrong: then there is no short way, and the parser reads it as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput
from lark.tree import Meta

#: Levels of nesting (parentheses, chains of operators); every later stage may then simply recurse.
MAX_DEPTH = 200
#: So many forms of statements are remembered.
_FORMS = 256

_WORDS = re.compile(
    r"""
    '(?:[^']|'')*'|`(?:[^`]|``)+`|"(?:[^"]|"")+"|--[^\n]*     # literals, names in quotes, comments
    | \b(?P<begin> stream|define|subscribe|subscription)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
#: What may differ between statements of one form: texts, whole numbers (also as parts of others), comments, and the
#: name that follows the first word.
_PARTS = re.compile(
    r"""
    (?P<text> '(?:[^']|'')*') | `(?:[^`]|``)+` | "(?:[^"]|"")+" | (?P<comment> --[^\n]*)
    | (?P<word> [^\W\d]\w*) | (?P<number> [0-9]+)
    """,
    re.VERBOSE,
)
_NAMED = ("subscribe", "define")


def tree_of_statements(text: str, parser: Lark) -> Tree[Token] | None:
    """The tree that the parser gives for a text; None if there is no short way to it."""
    begins = [match.start() for match in _WORDS.finditer(text) if match["begin"]]
    if not begins or _PARTS.sub(_without_comment, text[: begins[0]]).strip():
        return None
    newlines = [-1, *(match.start() for match in re.finditer("\n", text))]
    try:
        statements = [_statement(text, begin, end, newlines, parser) for begin, end in pairwise([*begins, len(text)])]
    except (UnexpectedInput, _NoStatementError):
        return None
    return Tree("start", statements, statements[0].meta)  # type: ignore[arg-type]


class _NoStatementError(Exception):
    """What lies between two words is not one statement, or one that no stage takes."""


def is_too_deep(tree: Tree[Token]) -> Tree[Token] | None:
    """A part of the tree that is nested too deep, if there is one."""
    open_trees = [(tree, 0)]
    while open_trees:
        node, depth = open_trees.pop()
        if depth > MAX_DEPTH:
            return node
        open_trees.extend((child, depth + 1) for child in node.children if isinstance(child, Tree))
    return None


def _without_comment(match: re.Match[str]) -> str:
    return "" if match["comment"] else match[0]


#: What stands in a form for what may differ.
_STANDS_FOR = {"text": "''", "number": "0", "comment": "--"}


def _form(statement: str) -> tuple[str, list[tuple[int, int]]]:
    """A statement with the same name, number and text wherever it may differ from others, and where that is."""
    pieces, spans, written, words = list[str](), list[tuple[int, int]](), 0, 0
    is_named = statement[:9].lower().startswith(_NAMED)
    for match in _PARTS.finditer(statement):
        kind = match.lastgroup or ""
        words += kind == "word"
        stands = "N" if kind == "word" and words == 2 and is_named else _STANDS_FOR.get(kind)
        if stands is not None:
            pieces += statement[written : match.start()], stands
            written = match.end()
            spans.append(match.span())
    return "".join([*pieces, statement[written:]]), spans


@dataclass(frozen=True, slots=True)
class _Node:
    """A rule of the grammar, as the tree of a form has it: where its text begins (-1: it has none), its children."""

    data: str
    begin: int
    parts: int
    children: tuple[_Node | _Leaf | None, ...]


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A token of a form: where it begins and ends, and how many parts that may differ end before both."""

    type: str
    begin: int
    parts: int
    end: int
    parts_at_end: int


@lru_cache(maxsize=_FORMS)
def _tree_of_form(form: str, parser: Lark) -> tuple[_Node, list[int]]:
    """The tree of a form, and the lengths of the parts of its text that may differ."""
    tree = parser.parse(form)
    if len(tree.children) != 1 or not isinstance(tree.children[0], Tree) or is_too_deep(tree):
        raise _NoStatementError
    _, spans = _form(form)
    ends = [end for _, end in spans]

    def node(tree: Tree[Token]) -> _Node:
        begin = -1 if tree.meta.empty else tree.meta.start_pos
        children = tuple(
            node(child) if isinstance(child, Tree) else None if child is None else leaf(child)
            for child in tree.children
        )
        return _Node(tree.data, begin, bisect_right(ends, begin), children)

    def leaf(token: Token) -> _Leaf:
        begin, end = token.start_pos or 0, token.end_pos or 0
        return _Leaf(token.type, begin, bisect_right(ends, begin), end, bisect_right(ends, end))

    return node(tree.children[0]), [end - begin for begin, end in spans]


def _statement(text: str, begin: int, end: int, newlines: list[int], parser: Lark) -> Tree[Token]:
    """The tree of the statement that lies between two places of a text, by the tree of its form."""
    form, spans = _form(text[begin:end])
    root, lengths = _tree_of_form(form, parser)
    longer = (last - first - length for (first, last), length in zip(spans, lengths, strict=True))
    shifts = [*accumulate(longer, initial=begin)]

    def tree(node: _Node) -> Tree[Token]:
        meta = Meta()  # type: ignore[no-untyped-call]
        if node.begin >= 0:
            place = node.begin + shifts[node.parts]
            meta.empty, meta.start_pos = False, place
            meta.line = bisect_right(newlines, place - 1)
            meta.column = place - newlines[meta.line - 1]
        children = [
            None if child is None else tree(child) if isinstance(child, _Node) else token(child)
            for child in node.children
        ]
        return Tree(node.data, children, meta)  # type: ignore[arg-type]

    def token(leaf: _Leaf) -> Token:
        place, last = leaf.begin + shifts[leaf.parts], leaf.end + shifts[leaf.parts_at_end]
        line = bisect_right(newlines, place - 1)
        return Token(leaf.type, text[place:last], place, line, place - newlines[line - 1])

    return tree(root)
