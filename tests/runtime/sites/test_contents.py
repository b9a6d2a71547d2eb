"""What a site offers: the filterer of all readers finds what each of them would find by itself."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from situ.core.functions import default
from situ.core.types import INT, STRING
from situ.graph.expressions import Attribute, Binary, Expression, Literal
from situ.kernel.batch import Batch, Calls
from situ.runtime.sites.contents import Contents
from situ.runtime.sites.selections import Filter, Selection


def random_filter(rng: random.Random) -> Filter:
    if rng.random() < 0.1:
        return None
    return frozenset(random_conditions(rng) for _ in range(rng.randint(1, 3)))


def random_conditions(rng: random.Random) -> tuple[Expression, ...]:
    whole = Binary(rng.choice(["<", "=", ">="]), Attribute("this", "v"), Literal(rng.randrange(10)))
    word = Binary("=", Attribute("this", "k"), Literal(rng.choice("abc")))
    both = Binary("or", whole, word)
    return tuple(rng.sample([whole, word, both], rng.randint(1, 2)))


@pytest.mark.parametrize("seed", range(30))
def test_what_readers_are_sent_is_what_each_asks_for(seed: int) -> None:
    rng = random.Random(seed)
    calls = Calls(functions=default, errors={})
    filters = [frozenset(random_filter(rng) for _ in range(rng.randint(1, 2))) for _ in range(rng.choice([1, 3, 20]))]
    selections = [Selection(each, tuple(random_filter(rng) for _ in range(rng.choice([0, 0, 1])))) for each in filters]
    contents = Contents({"v": INT, "k": STRING}, selections)
    for rows in (0, 1, 40):
        values = [rng.choice([None, *range(10)]) for _ in range(rows)]
        words = [rng.choice([None, *"abcd"]) for _ in range(rows)]
        columns = {"v": pa.array(values, pa.int64()), "k": pa.array(words, pa.string())}
        times = np.sort(np.array([rng.randrange(100) for _ in range(rows)], np.int64))
        passing = contents.passing(Batch(times, columns), calls)
        for selection in selections:
            asked = [((rng.randrange(50), 60),) for _ in selection.pulled]
            want = selection.chosen(Batch(times, columns), asked, calls)
            assert selection.chosen(Batch(times, columns), asked, calls, passing).tolist() == want.tolist()


def test_a_content_that_several_ask_for_is_there_once() -> None:
    above: Filter = frozenset({(Binary(">", Attribute("this", "v"), Literal(3)),)})
    contents = Contents({"v": INT}, [Selection(frozenset({above})), Selection(frozenset({above, None}))])
    assert len(contents.filterer) == 1
