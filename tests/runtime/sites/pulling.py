"""Random queries whose operators can pull, and random steps for them."""

from __future__ import annotations

import random
from dataclasses import replace

from situ.graph.operators import OperatorGraph
from situ.graph.query import Query, Stream
from situ.lang.parse import parse
from situ.placement.from_graph import planned
from strategies import stream

STREAMS = ("A", "B", "C")


def pulling_streams(rng: random.Random) -> tuple[Stream, ...]:
    return tuple(
        replace(stream(name), unique="n" if rng.random() < 0.15 else None, order="n" if rng.random() < 0.3 else None)
        for name in STREAMS
    )


def pulling_query(rng: random.Random, streams: tuple[Stream, ...]) -> Query:
    """One to four operators over the streams and each other, most of them a SEQ or an AND of different types."""
    types, definitions, count = list(STREAMS), [], rng.choice([1, 1, 2, 2, 3, 4])
    for number in range(count):
        last = number == count - 1
        name = "M" if last else f"D{number}"
        if not last and rng.random() < 0.25:
            definitions.append(_odd_operator(rng, name, rng.choice(types)))
        else:
            inputs = rng.sample(types, min(len(types), rng.choice([2, 2, 3, 3, 4])))
            if number and not any(each.startswith("D") for each in inputs):
                inputs[0] = types[-1]
            word = "subscribe" if last or rng.random() < 0.2 else "define"
            definitions.append(_operator(rng, word, name, inputs))
        if not definitions[-1].startswith("subscribe"):  # nobody reads a subscription
            types.append(name)
    declared = "\n".join(f"stream {name}(k int, v int, n int, ts int) time ts in s" for name in STREAMS)
    return replace(parse(declared + "\n" + "\n".join(definitions)), streams=streams)


def _operator(rng: random.Random, word: str, name: str, inputs: list[str]) -> str:
    conjunction = rng.random() < 0.4
    steps = []
    for number, type_ in enumerate(inputs):
        tests = [f"v {rng.choice(['>', '<', '=', '>='])} {rng.choice([0, 1, 2])}"] if rng.random() < 0.35 else []
        if number and rng.random() < 0.3:
            tests.append(f"v {rng.choice(['>=', '!=', '<='])} e{rng.randrange(number)}.v")
        steps.append(f"{type_}({' and '.join(tests)}) as e{number}" if tests else f"{type_} as e{number}")
    text = steps[0]
    for step in steps[1:]:
        text += " and " + step if conjunction else rng.choice([" then ", " then each "]) + step
    within = rng.choice([1, 1, 2, 3, 4])
    chosen = rng.randrange(len(inputs))
    grouped = " group by k" if rng.random() < 0.4 else ""
    columns = "(k, v, n)" if word == "define" else ""
    assigned = f"k = e{chosen}.k, v = e0.v, n = e{len(inputs) - 1}.n"
    return f"{word} {name}{columns} detect {text} within {within} s assign {assigned}{grouped}"


def _odd_operator(rng: random.Random, name: str, type_: str) -> str:
    """One that cannot pull: it reads a type twice."""
    follows = rng.choice(["then", "then each", "then immediately"])
    detected = f"{type_} as e0 {follows} {type_}(v >= e0.v) as e1 within 2 s"
    return f"define {name}(k, v, n) detect {detected} assign k = e1.k, v = e0.v, n = e1.n"


def random_steps(rng: random.Random, graph: OperatorGraph, name: str) -> tuple[tuple[str, ...], ...]:
    """Steps in which an operator may take its inputs; none if all are pushed, and read in order."""
    operator = next(operator for operator in graph.operators if operator.name == name)
    try:
        shape = planned(operator, {})
    except Exception:  # it has no window
        return ()
    if not shape.can_pull or rng.random() < 0.15:
        return ()
    events = rng.sample(shape.events, len(shape.events))
    steps: list[list[str]] = [[events[0]]]
    for event in events[1:]:
        if rng.random() < 0.7:
            steps.append([])
        steps[-1].append(event)
    return tuple(map(tuple, steps))
