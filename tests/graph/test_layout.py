"""Boxes of a picture: they never overlap, and edges pass every layer."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from situ.graph.layout import lay_out

GAP = 5.0


@st.composite
def layered_graphs(draw: st.DrawFn) -> tuple[dict[str, int], list[tuple[str, str]], dict[str, float]]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    layer_of = {f"n{layer}_{i}": layer for layer, size in enumerate(sizes) for i in range(size)}
    possible = [(r, n) for r in layer_of for n in layer_of if layer_of[r] > layer_of[n]]
    edges = draw(st.lists(st.sampled_from(possible), unique=True)) if possible else []
    heights = {name: draw(st.floats(10, 200)) for name in layer_of}
    return layer_of, edges, heights


@settings(derandomize=True, deadline=None, max_examples=150)
@given(layered_graphs())
def test_boxes_keep_their_distance(graph: tuple[dict[str, int], list[tuple[str, str]], dict[str, float]]) -> None:
    layer_of, edges, heights = graph
    layout = lay_out(layer_of, edges, heights, GAP)
    for layer in set(layer_of.values()):
        nodes = sorted((layout.middle[name], name) for name in layer_of if layer_of[name] == layer)
        for (upper, a), (lower, b) in pairwise(nodes):
            assert lower - upper >= heights[a] / 2 + GAP + heights[b] / 2 - 1e-6


@settings(derandomize=True, deadline=None, max_examples=150)
@given(layered_graphs())
def test_edges_bend_around_the_boxes_between(
    graph: tuple[dict[str, int], list[tuple[str, str]], dict[str, float]],
) -> None:
    layer_of, edges, heights = graph
    layout = lay_out(layer_of, edges, heights, GAP)
    for reader, read in edges:
        path = layout.paths[reader, read]
        assert (path[0], path[-1]) == (read, reader)
        assert len(path) == layer_of[reader] - layer_of[read] + 1
        for layer, bend in enumerate(path[1:-1], start=layer_of[read] + 1):
            for name in (name for name in layer_of if layer_of[name] == layer):
                assert abs(layout.middle[bend] - layout.middle[name]) >= heights[name] / 2 + GAP - 1e-6


def test_crossings_that_can_be_avoided_are() -> None:
    layer_of = {"A": 0, "B": 0, "readsB": 1, "readsA": 1}
    layout = lay_out(layer_of, [("readsB", "B"), ("readsA", "A")], dict.fromkeys(layer_of, 10.0), GAP)
    assert (layout.middle["A"] < layout.middle["B"]) == (layout.middle["readsA"] < layout.middle["readsB"])
