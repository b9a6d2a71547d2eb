"""The short way to the tree of a text gives the tree, and the query, that the parser gives."""

from __future__ import annotations

import random
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from lark import Token, Tree
from lark.exceptions import UnexpectedInput

from situ.core.errors import SituError
from situ.lang import statements
from situ.lang.parse import _parser, parse
from situ.lang.statements import tree_of_statements

ROOT = Path(__file__).parents[2]
FILES = [*ROOT.glob("tests/cases/*.case"), *ROOT.glob("tests/lang/*.situ"), *ROOT.glob("examples/**/*.situ")]
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").split("\n===")[0] for path in sorted(FILES)}


def spelt(tree: Any) -> Any:
    """A tree with all that is known of its places."""
    match tree:
        case Tree(data, children):
            place = None if tree.meta.empty else (tree.meta.line, tree.meta.column)
            return str(data), place, [spelt(child) for child in children]
        case Token():
            return tree.type, str(tree), tree.start_pos, tree.line, tree.column
        case _:
            return tree


def deep(node: Any) -> Any:
    """A query with the places that do not count when queries are compared."""
    if is_dataclass(node):
        return type(node).__name__, [deep(getattr(node, field.name)) for field in fields(node)]
    return [deep(item) for item in node] if isinstance(node, tuple) else repr(node)


@pytest.mark.parametrize("name", TEXTS)
def test_the_tree_of_a_file_is_that_of_the_parser(name: str) -> None:
    """Of the statements, and of as many others that differ in names, numbers and texts."""
    text = TEXTS[name]
    rng = random.Random(name)
    for variant in [text, *(f"{other(text, rng)}\n{other(text, rng)}" for _ in range(3))]:
        tree = tree_of_statements(variant, _parser())
        assert tree is not None
        assert spelt(tree)[2] == spelt(_parser().parse(variant))[2]


def other(text: str, rng: random.Random) -> str:
    """Statements of the same forms."""

    def changed(match: re.Match[str]) -> str:
        word = match[0]
        if word.startswith("--") or word.isdigit():
            return "-- said otherwise" if word.startswith("--") else str(rng.randrange(10 ** rng.randint(1, 6)))
        return f"'{'' if rng.random() < 0.3 else 'its' * rng.randint(1, 3)}\n'" if word.startswith("'") else word

    return re.sub(r"'(?:[^']|'')*'|`[^`]*`|\"[^\"]*\"|--[^\n]*|\b[^\W\d]\w*|\d+", changed, text)


AROUND = "stream A(v int, ts int) time ts in s\n"


@pytest.mark.parametrize(
    "text",
    [
        "stream A(stream int, ts int) time ts in s subscribe B detect A(stream = 1) as a assign define = a.stream",
        "stream A(v int, ts int) time ts in s subscribe `subscribe` detect A as a assign v = 'define', w = a.v",
        AROUND + "subscribe subscribe detect A as define then A as b assign v = define.v",
        AROUND + "-- subscribe X\nsubscribe B -- stream\n detect A(v in (1, 2)) {2,3} as a within 5 s -- end",
        AROUND + "subscribe B detect A as a assign v = a.v + 1e3 + 2.5e-3 + 7d, w = 0010",
    ],
)
def test_words_in_odd_places_are_read_as_the_parser_reads_them(text: str) -> None:
    tree = tree_of_statements(text, _parser())
    whole = spelt(_parser().parse(text))
    assert tree is None or spelt(tree)[2] == whole[2]
    assert deep(parse(text)) == deep(parse_by_the_long_way(text))


@pytest.mark.parametrize("seed", range(200))
def test_texts_with_mistakes_are_told_alike(seed: int) -> None:
    """Words are taken out, doubled and moved: what the parser says of such a text, both say."""
    rng = random.Random(seed)
    words = re.findall(r"'[^']*'|\w+|\s+|[^\w\s]", rng.choice([*TEXTS.values()]))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(words))
        match rng.randrange(3):
            case 0:
                del words[at]
            case 1:
                words.insert(at, words[rng.randrange(len(words))])
            case _:
                words[at], words[at - 1] = words[at - 1], words[at]
    text = "".join(words)
    tree = tree_of_statements(text, _parser())
    try:
        whole = spelt(_parser().parse(text))[2]
    except UnexpectedInput:
        assert tree is None
    else:
        assert tree is None or spelt(tree)[2] == whole
    assert said(lambda: parse(text)) == said(lambda: parse_by_the_long_way(text))


def said(run: Any) -> Any:
    try:
        return deep(run())
    except SituError as error:
        return str(error)


def parse_by_the_long_way(text: str) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("situ.lang.parse.tree_of_statements", lambda text, parser: None)
        return parse(text)


def test_statements_of_one_form_are_parsed_once() -> None:
    statements._tree_of_form.cache_clear()
    rules = (f"subscribe Rule{n} detect A(v = {n * 7} and v > 0.5) as a assign x = 'rule {n}'\n" for n in range(500))
    query = parse(AROUND + "".join(rules))
    assert len(query.subscriptions) == 500
    assert statements._tree_of_form.cache_info().misses == 2
    assert query.subscriptions[123].place.line == 125  # type: ignore[union-attr]
