"""docs/coming-from.md is true: situ and the SQL beside it find the rows that stand below them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

import situ
from docs.markdown import ROOT, Block, blocks, query_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAGE = ROOT / "docs" / "coming-from.md"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One of the numbered sections: the blocks of each language, and the rows that all of them find."""

    heading: str
    blocks: dict[str, Block]
    match_recognize: Block | None
    expected: list[str]

    def __str__(self) -> str:
        return self.heading.partition(".")[0]

    @property
    def query(self) -> str:
        return query_of(self.blocks["situ"])


def patterns() -> list[Pattern]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    headings = [(number, line) for number, line in enumerate(lines, 1) if line.startswith("## ")]
    found = []
    for (begin, heading), (end, _) in pairwise(headings):
        if not heading[3].isdigit():
            continue
        of_section = [block for block in blocks(PAGE) if begin < block.line < end]
        standard = [block for block in of_section if "MATCH_RECOGNIZE" in block.text]
        languages = {block.language: block for block in of_section if block not in standard}
        expected = languages.pop("text").text.splitlines()
        found.append(Pattern(heading[3:], languages, next(iter(standard), None), expected))
    return found


PATTERNS = patterns()


def test_every_pattern_is_there_in_every_language() -> None:
    assert [str(pattern) for pattern in PATTERNS] == ["1", "2", "3", "4", "5", "6"]
    for pattern in PATTERNS:
        assert pattern.blocks.keys() == {"situ", "sql", "java", "epl"}, pattern.heading
        assert pattern.expected, pattern.heading
    assert [str(pattern) for pattern in PATTERNS if pattern.match_recognize is None] == ["5"]


@pytest.fixture(scope="module")
def actions(spark: SparkSession) -> DataFrame:
    """The page's events, by the page's own code, which makes them the view `action` too."""
    namespace: dict[str, Any] = {"__name__": "example"}
    exec(compile(blocks(PAGE, "python")[0].text, str(PAGE), "exec"), namespace)
    assert namespace["spark"] is spark
    frame: DataFrame = namespace["actions"]
    return frame


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.storm
def test_sql(pattern: Pattern, actions: DataFrame, spark: SparkSession) -> None:
    assert shown(spark.sql(pattern.blocks["sql"].text).collect()) == pattern.expected


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_situ_on_spark(pattern: Pattern, actions: DataFrame, spark: SparkSession) -> None:
    detection = situ.detect(pattern.query, {"Action": actions})
    (name,) = detection.names
    columns = spark.sql(pattern.blocks["sql"].text).columns
    assert shown(detection[name].select(*columns).collect()) == pattern.expected


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_situ_embedded(pattern: Pattern, actions: DataFrame, spark: SparkSession) -> None:
    columns = spark.sql(pattern.blocks["sql"].text).columns
    found: list[tuple[Any, ...]] = []
    for output in situ.Engine(pattern.query).run({"Action": actions.toArrow()}):
        (table,) = output.complex_events.values()
        found += [tuple(row.values()) for row in table.select(columns).to_pylist()]
    assert shown(found) == pattern.expected


def shown(rows: Iterable[Iterable[object]]) -> list[str]:
    """Rows as the page shows them: `ann 10:00 10:04`."""
    return sorted(
        " ".join(f"{value:%H:%M}" if isinstance(value, datetime) else str(value) for value in row) for row in rows
    )
