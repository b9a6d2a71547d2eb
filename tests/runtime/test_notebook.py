"""What notebooks show: short `repr`s, and HTML that is well formed, whatever stands in it."""

from __future__ import annotations

from base64 import b64decode
from html.parser import HTMLParser
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import situ
from network.networks import line
from situ.network.statistics import Statistics
from situ.placement.coverage import Coverage
from situ.placement.from_graph import problem_of
from situ.placement.mechanisms import mechanism

QUERY = """
stream `Reading<b>`(sensor int, value double, ts int) time ts in s
define High(sensor) detect `Reading<b>`(value > 5) as r assign sensor = r.sensor
subscribe Twice
  detect   High as a then High as b within 10 s
  assign   sensor = a.sensor
  group by sensor
  report timed out
"""
READINGS = pa.table({"sensor": [1, 1, 2], "value": [6.0, 7.0, 9.123456789], "ts": [0, 1, None]})


class Page(HTMLParser):
    """The tags of a page that are still open, the texts in cells, and the pictures."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.pictures: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            _, _, data = (dict(attrs)["src"] or "").partition("data:image/svg+xml;base64,")
            self.pictures.append(b64decode(data).decode())
        else:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page_of(shown: object) -> Page:
    page = Page(shown._repr_html_())
    assert page.open == []
    for picture in page.pictures:
        ElementTree.fromstring(picture)
    return page


def test_a_query_and_its_graph_are_pictures() -> None:
    query = situ.parse(QUERY)
    graph = situ.resolve(query)
    assert repr(query) == "Query(streams: Reading<b>; definitions: High; subscriptions: Twice)"
    assert repr(graph) == repr(query).replace("Query", "OperatorGraph", 1)
    for shown in (query, graph):
        (picture,) = page_of(shown).pictures
        assert all(text in picture for text in ("Reading&lt;b&gt;", "High", "Twice", "within 10 s"))
        assert picture.count('class="edge"') == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "define A(n) detect B assign n = 1 define B(n) detect A assign n = 1",
        "define A(n) detect A assign n = 1 subscribe A detect A",
        "stream A(n int) time n in s subscribe A detect Nobody as x assign n = x.n",
    ],
    ids=["empty", "circle", "itself", "unknown"],
)
def test_a_query_that_does_not_resolve_is_a_picture_too(text: str) -> None:
    assert len(page_of(situ.parse(text)).pictures) == 1


def test_an_output_shows_counts_and_first_rows() -> None:
    engine = situ.Engine(QUERY)
    assert repr(engine) == "Engine(streams: Reading<b>; definitions: High; subscriptions: Twice)"
    (output,) = engine.run(READINGS)
    assert repr(output) == "Output(Twice: 1, timed out Twice: 1, rejected Reading<b>: 1; 2 events read)"
    texts = page_of(output).texts
    assert {"Twice: 1", "sensor", "_time", "1970-01-01 00:00:01", "rejected Reading<b>: 1"} <= {*texts}
    many = pa.table({"sensor": [1] * 100, "value": [6.0] * 100, "ts": range(100)})
    (output,) = situ.Engine(QUERY).run(many)
    texts = page_of(output).texts
    assert texts.index("timed out Twice: 1") - texts.index("Twice: 99, the first 10") == 1 + 2 + 10 * 2


def test_a_plan_is_a_table() -> None:
    text = """
    stream A(n int, ts timestamp) time ts
    stream B(n int, ts timestamp) time ts
    subscribe Both detect A as a and B as b within 1 s assign n = a.n
    """
    statistics = Statistics({"A": {"a": 0.01}, "B": {"c": 9.0}}, {"Both": 0.1})
    network = line(1.0, 1.0)
    problem = problem_of(situ.resolve(situ.parse(text)), network, statistics, Coverage(), root="a")
    for name in ("optimal", "sbon", "exhaustive", "naive"):
        plan = mechanism(name)(problem)
        assert repr(plan).startswith(f"Plan({name}: 1 operators, cost ")
        assert {"Both", "operator", "site", network.names[plan.placed[0].site]} <= {*page_of(plan).texts}


@pytest.mark.slow
def test_a_detection_is_short_and_shows_graph_and_plan(spark: object) -> None:
    detection = situ.detect(QUERY, spark.createDataFrame(READINGS))
    assert repr(detection) == "Detection(Twice(sensor int))"
    assert repr(detection.plan) == "SparkPlan(reads Reading<b>; 1 stage)"
    page = page_of(detection)
    assert len(page.pictures) == 1
    assert {'detection["Twice"]', "sensor int", "_time", "by key: sensor", "the plan in words"} <= {*page.texts}
