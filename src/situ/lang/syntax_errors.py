"""What the parser knows about a mistake, in a reader's words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr

from situ.core.errors import Place, QuerySyntaxError, SituError


@dataclass(frozen=True, slots=True)
class Phrase:
    """One way to say a set of terminals. It applies where all of `core` is expected, and then covers `more` as well."""

    words: str
    core: frozenset[str]
    more: frozenset[str] = frozenset()


def _phrase(words: str, core: str, more: str = "") -> Phrase:
    return Phrase(words, frozenset(core.split()), frozenset(more.split()))


#: In this order: a later phrase speaks of what the earlier ones left.
PHRASES = (
    _phrase("a condition", "NAME INT STRING NOT LPAR", "QUOTED FLOAT DECIMAL DURATION TRUE FALSE NULL MINUS"),
    _phrase("a value", "NAME INT STRING LPAR", "QUOTED FLOAT DECIMAL DURATION TRUE FALSE NULL MINUS"),
    _phrase("a literal", "INT STRING", "FLOAT DECIMAL DURATION TRUE FALSE NULL MINUS"),
    _phrase("an operator", "PLUS MINUS STAR SLASH", "PERCENT EQUAL COMPARISON AND OR NOT IN IS BETWEEN"),
    _phrase("a loop (+ * ? {n,m})", "PLUS STAR QUESTION LBRACE"),
    _phrase("a pattern", "FIRST LAST NAME", "QUOTED ONCE OUTER LPAR EACH IMMEDIATELY NOT NO"),
    _phrase("another statement (stream, define, subscribe)", "STREAM DEFINE SUBSCRIBE", "SUBSCRIPTION $END"),
    _phrase(
        "a closing clause (such as group by)",
        "GROUP AFTER REPORT WHERE",
        "POST AROUND LIFETIME UPDATE DELIVER QUALITY DEMAND",
    ),
)

WORDS = {
    "NAME": "a name",
    "QUOTED": "a name",
    "DOUBLE_QUOTED": "a name",
    "STRING": "a 'text'",
    "INT": "a whole number",
    "FLOAT": "a number",
    "DURATION": "a duration (such as 5 min)",
    "DISTANCE": "a distance (such as 500 m)",
    "BYTES": "a size (such as 10 KB)",
    "BANDWIDTH_DELAY": "'bandwidth-delay'",
    "TIME_UNIT": "a unit (s, ms, us, ns)",
    "COMPARISON": "a comparison",
    "_EVENTS": "'events'",
    "PRE": "'< pre >'",
    "POST": "'< post >'",
    "$END": "the end",
}

#: What people write who come from other languages.
HABITS = (
    ("==", "Equality is written =."),
    ('"', "A text stands in single quotes: 'text'."),
    ("'", "A text ends with a quote; a quote inside it is written twice: 'it''s'."),
    ("`", "A name in backquotes ends with a backquote."),
    ("&&", "Write and."),
    ("||", "Write or; texts are joined by concat(a, b)."),
    ("!", "Write not, or != for unequal."),
    ("//", "A comment starts with --."),
    ("#", "A comment starts with --."),
    (";", "Statements need no separator."),
)

#: Units of time as people write them elsewhere, and what they are called here.
UNITS = {"m": "min", "hr": "h", "hrs": "h", "msec": "ms", "msecs": "ms", "millis": "ms", "usec": "us", "micros": "us"}
QUANTITY = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[^\W\d]\w*)?")

SHOWN_WIDTH = 100


def syntax_error(error: UnexpectedInput, parser: Lark, text: str, file: str) -> QuerySyntaxError:
    """The error to show for what the parser stumbled over."""
    at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    position = len(text.rstrip()) if at_end else min(error.pos_in_stream or 0, len(text))
    good_tokens = _good_tokens(parser, text)
    expected = _expected(parser, text, len(good_tokens))
    surprise = "the text ends here" if at_end else f"'{_word_at(text, position)}' is unexpected here"
    lines = text[:position].split("\n")
    place = Place(file, len(lines), len(lines[-1]) + 1)
    cause = f"{surprise}; expected {_either(_phrases(expected, parser))}"
    hint = _hint(text, position, good_tokens, [_words(terminal, parser) for terminal in expected])
    return point_at(QuerySyntaxError(cause, place=place, remedy=hint), text)


def point_at(error: SituError, text: str) -> QuerySyntaxError:
    """The error with its line (or the part of it that fits) and a caret under its column before the remedy."""
    assert isinstance(error.place, Place)
    column = error.place.column - 1
    line = text.split("\n")[error.place.line - 1].expandtabs(1).rstrip()
    start = max(0, min(column - SHOWN_WIDTH // 2, len(line) - SHOWN_WIDTH))
    shown = [line[start : start + SHOWN_WIDTH], " " * (column - start) + "^", error.remedy]
    return QuerySyntaxError(error.cause, place=error.place, remedy="\n  ".join(filter(None, shown)))


def _good_tokens(parser: Lark, text: str) -> list[Token]:
    """The tokens before the place where the text goes wrong."""
    tokens: list[Token] = []
    with suppress(UnexpectedInput):
        tokens.extend(_read(parser.parse_interactive(text)))
    return tokens


def _expected(parser: Lark, text: str, good_tokens: int) -> frozenset[str]:
    """The terminals that could stand where the text goes wrong.

    The tables name too many, and the parser that failed names too few: before it noticed, it has already taken back
    some choices. So a second one reads as many tokens as were good.
    """
    before: Any = parser.parse_interactive(text)
    for _ in islice(_read(before), good_tokens):
        pass
    return frozenset(before.accepts())


def _read(reader: Any) -> Iterator[Token]:
    """Feeds an interactive parser token by token (lark leaves its class untyped)."""
    for token in reader.lexer_thread.lex(reader.parser_state):
        reader.feed_token(token)
        yield token


def _words(terminal: str, parser: Lark) -> str:
    if terminal in WORDS:
        return WORDS[terminal]
    pattern = parser.get_terminal(terminal).pattern
    return f"'{pattern.value if isinstance(pattern, PatternStr) else terminal.lower()}'"


def _phrases(expected: frozenset[str], parser: Lark) -> list[str]:
    phrases = []
    for phrase in PHRASES:
        if phrase.core <= expected:
            phrases.append(phrase.words)
            expected = expected - phrase.core - phrase.more
    # Terminals of one meaning (NAME, QUOTED) share their words; what is quoted comes first.
    return sorted({_words(terminal, parser) for terminal in expected}) + phrases


def _either(phrases: list[str]) -> str:
    return ", ".join(phrases[:-1]) + " or " + phrases[-1] if len(phrases) > 1 else "".join(phrases) or "something else"


def _word_at(text: str, position: int) -> str:
    word = re.compile(r"\w+|\S").match(text, position)
    return word.group()[:30] if word else text[position : position + 1]


def _hint(text: str, position: int, before: list[Token], expected: Sequence[str]) -> str:
    """What to do about it, where that can be guessed."""
    for habit, hint in HABITS:
        if text.startswith(habit, position) or (habit == "==" and text.startswith(habit, position - 1)):
            return hint
    if (unit_hint := _unit_hint(text, position, before, expected)) is not None:
        return unit_hint
    if _word_at(text, position).lower() == "for" and _ends_in_absence(before):
        return "Did you mean `no X for T`? A silence lasts for some time; `not X` has no duration of its own."
    if before and before[-1].type == "NAME" and before[-1].lower() == "not":
        return "`not X` stands after `then`: A then not X then B. What does not happen for some time is `no X for T`."
    if _word_at(text, position).lower() == "as" and _ends_in_absence(before):
        return "What is absent has no event to name: leave out `as`. A condition reads its event as this.x."
    keywords = [words.strip("'") for words in expected if words.startswith("'") and len(words) > len("'as'")]
    close = difflib.get_close_matches(_word_at(text, position).lower(), keywords, n=1, cutoff=0.6)
    if close:
        return f"Did you mean '{close[0]}'?"
    if "a name" in expected and re.compile(r"[^\W\d]").match(text, position):
        return "A keyword can be a name if it stands in backquotes: `first`."
    return ""


def _unit_hint(text: str, position: int, before: list[Token], expected: Sequence[str]) -> str | None:
    """The remedy for a number that should be a duration: `30 m` is a distance, and `30` is nothing but a number."""
    only_unit = bool(before) and before[-1].type in ("INT", "FLOAT")  # in an expression the number itself is good
    quantity = QUANTITY.match(text, before[-1].start_pos or 0 if only_unit else position)
    if quantity is None:
        return None
    units = "A duration is in us, ms, s, min, h or d."
    if (unit := (quantity["unit"] or "").lower()) in UNITS:
        return f"Did you mean {quantity['number']} {UNITS[unit]}? {units}"
    return units if WORDS["DURATION"] in expected else None


def _ends_in_absence(tokens: list[Token]) -> bool:
    """Whether the tokens end in `then not [immediately] X [(condition)]`."""
    types = [token.type for token in tokens]
    name, depth = len(types) - 1, 0
    while name > 0 and (depth := depth + (types[name] == "RPAR") - (types[name] == "LPAR")) > 0:
        name -= 1
    if types[-1:] == ["RPAR"]:
        name -= 1  # before its condition
    before = types[:name]
    return before[-2:] == ["THEN", "NOT"] or before[-3:] == ["THEN", "NOT", "IMMEDIATELY"]
