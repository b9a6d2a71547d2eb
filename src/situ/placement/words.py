"""What sites say to each other beside events and requests, so that a plan is right: promises how far time has come,
questions for them, and acknowledgements (docs/sites.md). They are messages, too.

- A request is answered, by a promise if there is no event to answer with, and its reader is told when its range is
  over. Where complex events are pulled, whoever makes them knows that only when the time of all that he is pushed has
  passed the end of the range; so he asks those who are silent, once for each range.
- An operator that decides its matches one by one (`one_by_one.py`) asks for time only to forget what it holds: those
  that are silent, once in so many events or ranges; with a plain `then`, it asks all whose events were pushed for each
  burst of its matches. An operator that reads events in the order of time asks all other origins for each event, but
  has one question open at a time. A question is answered by a promise.
- What came, events and ends of ranges, is acknowledged with the next request or question. Where none comes in time, it
  is acknowledged by itself, and what came meanwhile by the same word.

Checked by counting on simulated sites (`python -m situ.bench.prediction --on-sites`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from situ.placement.evaluate import sets_of_steps
from situ.placement.one_by_one import can_decide_one_by_one, waits_for_time
from situ.placement.plan import Placed
from situ.placement.problem import Problem

#: Who waits for time asks after so long (`ask` of the sites' settings), in seconds.
ASKS_AFTER_S = 0.02
#: What came is acknowledged after so long (`acknowledge` of the sites' settings), in seconds.
ACKNOWLEDGED_AFTER_S = 2.0
#: Time is asked for when so many events are held, or so many ranges asked for (`runtime/sites/pulled_operator.py`).
MANY_EVENTS, MANY_RANGES = 4_000, 64


@dataclass(frozen=True, slots=True)
class Words:
    """Per second, between an origin and a reader: questions and acknowledgements go to the origin, promises come from
    it."""

    questions: float = 0.0
    promises: float = 0.0
    acknowledgements: float = 0.0


def words_of(bursts_per_s: float, requests_per_s: float, questions_per_s: float, window_s: float = 0.0) -> Words:
    """What is said beside events and requests, where events come in so many bursts, and a reader asks an origin so
    often how far time has come. Of pulled events, those of a request come within its window.

    >>> words_of(0.0, 1.0, 0.0).promises
    2.0
    """
    if requests_per_s and window_s:  # one word for the end of the range, and for what comes shortly before it
        within_per_s = bursts_per_s / requests_per_s / window_s
        apart_s = max(0.0, window_s - ACKNOWLEDGED_AFTER_S)
        of_a_request = 1 + within_per_s * apart_s / (1 + within_per_s * ACKNOWLEDGED_AFTER_S)
        told = requests_per_s * of_a_request * math.exp(-requests_per_s * ACKNOWLEDGED_AFTER_S)
    else:
        told = bursts_per_s / (1 + bursts_per_s * ACKNOWLEDGED_AFTER_S)
        told *= math.exp(-questions_per_s * ACKNOWLEDGED_AFTER_S)
    return Words(questions_per_s, _answers(bursts_per_s, requests_per_s) + requests_per_s + questions_per_s, told)


def _answers(bursts_per_s: float, requests_per_s: float) -> float:
    """Answers to requests that have no events: half of what is asked for has occurred."""
    return requests_per_s * math.exp(-bursts_per_s / requests_per_s / 2) if requests_per_s else 0.0


def questions_of(problem: Problem, placed: Sequence[Placed]) -> dict[tuple[str, int, int], float]:
    """By event type, origin and reader, how often per second the reader asks how far time has come. A site asks an
    origin once for all of its operators: the one that asks most often counts."""
    questions: dict[tuple[str, int, int], float] = {}
    awaited_per_s = _awaited(problem, placed)
    for number, (operator, where) in enumerate(zip(problem.operators, placed, strict=True)):
        latency_ns = problem.network.ways_from(where.site).latency_ns
        origins = _origins(problem, placed, number)
        for (event, site), rate in origins.items():
            if len(where.steps) == 1 and not can_decide_one_by_one(problem, operator):
                causes = sum(origins.values()) - rate
            elif waits_for_time(operator):
                causes = problem.bursts[operator.name]
            else:
                causes = _asked_to_forget(problem, placed, number) * math.exp(-2 * rate * operator.window_s)
            causes += awaited_per_s[number] * math.exp(-rate * ASKS_AFTER_S)
            open_s = ASKS_AFTER_S + int(latency_ns[site]) / 1e9
            if site != where.site:
                key = event, site, where.site
                questions[key] = max(questions.get(key, 0.0), causes / (1 + causes * open_s))
    return questions


def _awaited(problem: Problem, placed: Sequence[Placed]) -> list[float]:
    """By operator, how often per second a reader elsewhere waits until no event of it can come any more before the end
    of a range. Who is waited for waits for the complex events that are pushed to him."""
    awaited_per_s = [0.0] * len(problem.operators)
    for number in reversed(range(len(problem.operators))):
        operator, where = problem.operators[number], placed[number]
        bursts = problem.input_bursts(operator)
        for earlier, step in sets_of_steps(where):
            per_s = awaited_per_s[number]
            if earlier:
                per_s = problem.model.need(operator, bursts, earlier, step).requests_per_s
            for writer in {problem.number[event] for event in (operator.inputs[k].event for k in step)
                           if event in problem.number}:  # fmt: skip
                if not earlier or placed[writer].site != where.site:
                    awaited_per_s[writer] += per_s
    return awaited_per_s


def _asked_to_forget(problem: Problem, placed: Sequence[Placed], number: int) -> float:
    """How often per second an operator holds too many events, or asks for too many ranges."""
    operator, held_per_s, ranges_per_s = problem.operators[number], 0.0, 0.0
    rates, bursts = problem.input_rates(operator), problem.input_bursts(operator)
    for earlier, step in sets_of_steps(placed[number]):
        need = problem.model.need(operator, bursts, earlier, step)
        held_per_s += min(1.0, need.fraction) * float(rates[list(step)].sum())
        ranges_per_s += need.requests_per_s * len(step)
    return max(held_per_s / MANY_EVENTS, ranges_per_s / MANY_RANGES)


def _origins(problem: Problem, placed: Sequence[Placed], number: int) -> dict[tuple[str, int], float]:
    """By event type and site, how often an operator is pushed events. What an operator at the same site makes of pushed
    events comes as late as these."""
    operator, where = problem.operators[number], placed[number]
    shares = {read.event: read.share for read in operator.reads}
    origins: dict[tuple[str, int], float] = {}
    for event in dict.fromkeys(operator.inputs[k].event for k in where.steps[0]):
        if event not in problem.number:
            sources = problem.sources[event]
            for site, rate in zip(sources.sites.tolist(), sources.rates_per_s.tolist(), strict=True):
                origins[event, site] = rate * shares[event]
            continue
        writer = problem.number[event]
        if placed[writer].site == where.site and len(placed[writer].steps) == 1:
            origins |= _origins(problem, placed, writer)
        else:
            origins[event, placed[writer].site] = problem.rates[event] * shares[event]
    return origins
