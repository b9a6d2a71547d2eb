"""How late results typically are: matches are drawn, and each of their events is followed to where it goes.

The latency of a plan (`evaluate.py`) is the longest that a match can take: all of its events come from the furthest
source, and what is pulled has all occurred before it is asked for. Most matches are faster. Their events come from
sources as often as the rates say, and what occurs after it was asked for takes its way once. What is drawn is the same
each time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.placement.evaluate import sets_of_steps
from situ.placement.one_by_one import waits_for_time
from situ.placement.plan import Placed
from situ.placement.problem import Kind, PlannedOperator, Problem
from situ.placement.words import ASKS_AFTER_S

MATCHES, SEED = 4_000, 1


def typical_latency_ms(problem: Problem, placed: Sequence[Placed]) -> float:
    """The median of the time from the last event of a match until it is where it goes, of all outputs together."""
    drawn = {number: MatchTimes.draw(problem, placed, number) for number in problem.outputs}
    home_s = {number: int(problem.way_home_ns(number)[placed[number].site]) / 1e9 for number in drawn}
    return float(np.median(np.concatenate([drawn[number] + home_s[number] for number in drawn]))) * 1e3


class MatchTimes:
    """Draws the latencies of an operator's matches: seconds from the last event until its site has decided it."""

    @classmethod
    def draw(cls, problem: Problem, placed: Sequence[Placed], number: int) -> F64:
        rng = np.random.default_rng([SEED, number])
        operator, where = problem.operators[number], placed[number]
        times_s = event_times(operator, problem.input_rates(operator), rng)
        way_ns = problem.network.ways_from(where.site).latency_ns
        delay_s = problem.network.sites[where.site].delay_ms / 1e3
        there_s, ways_s = np.empty_like(times_s), np.empty_like(times_s)
        for k, read in enumerate(operator.inputs):
            if read.event in problem.number:  # an event that is made is there when it is decided
                writer = problem.number[read.event]
                sites = np.full(MATCHES, placed[writer].site)
                there_s[:, k] = times_s[:, k] + rng.permutation(cls.draw(problem, placed, writer))
            else:
                sources = problem.sources[read.event]
                sites = rng.choice(sources.sites, MATCHES, p=sources.rates_per_s / sources.rates_per_s.sum())
                there_s[:, k] = times_s[:, k]
            ways_s[:, k] = way_ns[sites] / 1e9 + delay_s * (sites != where.site)
        decided_s = _known_s(where, there_s, ways_s)
        if waits_for_time(operator):  # who may still send an earlier event is asked
            decided_s += ASKS_AFTER_S + 2 * ways_s.max(axis=1)
        return np.asarray(decided_s - times_s.max(axis=1))


def _known_s(where: Placed, there_s: F64, ways_s: F64) -> F64:
    """When an operator's site has all events of each match: those of later steps when those of earlier ones are there,
    and they were asked for, and have occurred."""
    known_s = np.zeros(len(there_s))
    for earlier, step in sets_of_steps(where):
        come = [np.maximum(there_s[:, k], known_s + ways_s[:, k] if earlier else -np.inf) + ways_s[:, k] for k in step]
        known_s = np.max([*come, *([known_s] if earlier else [])], axis=0)
    return known_s


def event_times(operator: PlannedOperator, rates: F64, rng: np.random.Generator) -> F64:
    """Times of the events of matches within their window, from the first one on; (matches, inputs).

    All times within the window are equally likely; of a plain `then`, those are less so before which another event
    would have been taken.
    """
    inputs, many = len(operator.inputs), MATCHES
    times = rng.uniform(0.0, operator.window_s, (many, inputs))
    if operator.kind is Kind.SEQ:
        times[:, 0] = 0.0
        times = np.sort(times, axis=1)
        taken_per_s = np.array([0.0 if each else rate for rate, each in zip(rates[1:], operator.each, strict=True)])
        weight = np.exp(-(np.diff(times, axis=1) * taken_per_s).sum(axis=1))
        return np.asarray(times[_drawn_by(weight, rng)])
    if operator.kind is Kind.AND:
        times[np.arange(many), rng.integers(inputs, size=many)] = 0.0
        return times
    return np.zeros((many, inputs))


def _drawn_by(weight: F64, rng: np.random.Generator) -> I64:
    return rng.choice(len(weight), len(weight), p=weight / weight.sum())
