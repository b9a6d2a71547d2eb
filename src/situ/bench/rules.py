"""Many rules over one stream: the content filterer, and rules of one shape that run as one program.

`python -m situ.bench.rules`, part of `make bench`. Where nothing else is said, times are CPU times of this process, the
least of several runs, and each figure is a ratio within one run.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from situ.bench.measure import Engine as TimedEngine
from situ.bench.measure import timer
from situ.bench.sections import Say, Sections
from situ.bench.sections import main as show
from situ.bench.suite import Bar, BenchFigure
from situ.bench.workload import Workload, cache_directory, many_queries_text, query_text, stream_on_disk
from situ.core.functions import default
from situ.core.memory import used_bytes
from situ.core.types import DOUBLE, INT
from situ.filter.filterer import Filterer
from situ.graph.expressions import Attribute, Binary, Literal
from situ.graph.operators import OperatorGraph
from situ.kernel.batch import Batch, Calls
from situ.kernel.operator import Conditions
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine

_CALLS = Calls(functions=default, errors=Counter())
RUNS = 3
SEED = 1
PAYMENTS, CARDS = 1_000_000, 1_000
STREAM = """stream Payment(id int, card int, merchant int, amount double, ts timestamp) time ts order id
"""


def fraud_rules(count: int) -> str:
    """Rules of four shapes. A merchant has three of them, so each payment concerns three rules."""
    return STREAM + "\n".join(_rule(number) for number in range(count))


def _rule(number: int) -> str:
    merchant, shape, threshold = number // 3, number % 4, 10 + number % 37
    at = f"Payment(merchant = {merchant} and amount > {threshold}.5)"
    detect = (
        f"{at} as a then {at} as b within 1 min",
        f"{at} as a then Payment(merchant = {merchant} and amount > a.amount + {threshold}) as b within 1 min",
        f"{at}{{3,}} as a within 1 min",
        f"{at} as a then not {at} within 10 s",
    )[shape]
    assign = "card = group.card, rule = " + str(number)
    return f"subscribe Rule{number} detect {detect} assign {assign} group by card after match skip past last"


def payments(merchants: int) -> pa.Table:
    random = np.random.default_rng(SEED)
    return pa.table(
        {
            "id": np.arange(PAYMENTS),
            "card": random.integers(0, CARDS, PAYMENTS),
            "merchant": random.integers(0, merchants, PAYMENTS),
            "amount": random.uniform(0, 100, PAYMENTS),
            "ts": pa.array(np.arange(PAYMENTS) * 1000, pa.timestamp("us", tz="UTC")),
        }
    )


def least_seconds(run: Callable[[], object]) -> float:
    """The least CPU time of several runs, after one that is not counted."""
    times = []
    for _ in range(1 + RUNS):
        begun = time.process_time()
        run()
        times.append(time.process_time() - begun)
    return min(times[1:])


def _over(graph: OperatorGraph, path: Path) -> float:
    """The CPU time from a file to columns of complex events; engines are made before the clock runs."""
    engines = [Engine(graph, threads=1) for _ in range(1 + RUNS)]
    gc.collect()
    gc.freeze()  # rules are many objects, and none of them is garbage
    seconds = least_seconds(lambda: list(engines.pop().run(path)))
    gc.unfreeze()
    return seconds


def _on_disk(merchants: int) -> Path:
    """The payments as a Parquet file, made once."""
    path = cache_directory() / "bench" / f"payments-{PAYMENTS}-{merchants}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(payments(merchants), path)
    return path


def fraud(say: Say) -> Iterator[BenchFigure]:
    """Many rules beside one."""
    for count, limit in ((1_000, 15), (10_000, 40)):
        say(f"{count:,} fraud rules")
        path = _on_disk(count // 3)
        one_s = _over(resolve(parse(fraud_rules(1))), path)
        graph = resolve(parse(fraud_rules(count)))
        many_s = _over(graph, path)
        detail = f"{many_s:.2f} s of CPU for {count:,} rules, {one_s:.2f} s for one, {PAYMENTS:,} events"
        measured = {"seconds": many_s, "seconds_of_one": one_s}
        name = f"embedded: {count:,} fraud rules, 3 for each event"
        yield BenchFigure(name, round(many_s / one_s, 1), "x one rule", detail, measured, Bar("at most", limit))
        if count == 10_000:
            yield from _while_it_runs(graph, count)


def _while_it_runs(graph: OperatorGraph, count: int) -> Iterator[BenchFigure]:
    """One more rule, from its text to events."""
    engine = Engine(graph, threads=1)
    times = []
    for number in range(20):
        text = _rule(4 * number + count).replace("Rule", "Another")
        begun = time.process_time()
        engine.add(text)
        times.append(time.process_time() - begun)
    added_ms = 1000 * sorted(times)[len(times) // 2]
    detail = f"from its text, beside {count:,} rules; the median of {len(times)}"
    yield BenchFigure("a rule added while it runs", round(added_ms, 2), "ms", detail, {"ms": added_ms},
                      Bar("at most", 5))  # fmt: skip


def memory(say: Say) -> Iterator[BenchFigure]:
    """What a rule needs that finds nothing, in a process of its own: there nothing else comes and goes."""
    say("memory of 10,000 rules")
    ask = "from situ.bench.rules import bytes_per_rule; print(bytes_per_rule(10_000))"
    answer = subprocess.run([sys.executable, "-c", ask], stdout=subprocess.PIPE, text=True, check=True).stdout
    measured = {"bytes_per_rule": float(answer)}
    detail = f"10,000 rules, {CARDS:,} keys, nothing matching; the engine, without the query"
    figure = round(float(answer) / 1000, 1)
    yield BenchFigure("memory of a rule", figure, "KB", detail, measured, Bar("at most", 20))


def bytes_per_rule(count: int) -> float:
    """How much the process grows by an engine of so many rules that reads events which fulfil none of them."""
    events = payments(count // 3).slice(0, 100_000)
    events = events.set_column(3, "amount", pa.array(np.zeros(len(events))))
    Engine(fraud_rules(12)).feed(events)  # kernels are loaded
    graph = resolve(parse(fraud_rules(count)))
    gc.collect()
    before = used_bytes()
    engine = Engine(graph, threads=1)
    engine.feed(events)
    gc.collect()
    return (used_bytes() - before) / count


def queries(engine: TimedEngine, say: Say) -> Iterator[BenchFigure]:
    """All triples of neighbouring types as subscriptions of one file, beside the one of `next`: as `situ bench` times
    it, by the clock and with all processors, after a run of each that is not counted."""
    workload = Workload()
    say(f"{workload.types - 2} queries: {engine}")
    directory = stream_on_disk(workload, cache_directory())
    seconds: dict[str, list[float]] = {text: [] for text in (query_text(workload), many_queries_text(workload))}
    with timer(engine) as time_query:
        for _ in range(1 + RUNS):
            for text, measured in seconds.items():
                measured.append(time_query(text, directory).seconds)
    one_s, many_s = (min(measured[1:]) for measured in seconds.values())
    detail = f"{many_s:.2f} s for {workload.types - 2} queries, {one_s:.2f} s for one"
    figures = {"seconds": many_s, "seconds_of_one": one_s}
    name = f"{engine}: {workload.types - 2} queries of one shape"
    yield BenchFigure(name, round(many_s / one_s, 1), "x one query", detail, figures, Bar("at most", 8))


def commands(say: Say) -> Iterator[BenchFigure]:
    """`situ check` and `situ explain` on a file of ten thousand rules, from the start of a process to its end."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "rules.situ"
        file.write_text(fraud_rules(10_000), encoding="utf-8")
        for command, engine in (("check", []), ("explain", ["--engine", "embedded"]), ("explain", [])):
            say(f"situ {command} on 10,000 rules")
            begun = time.perf_counter()
            line = [sys.executable, "-m", "situ.cli.app", command, str(file), *engine]
            subprocess.run(line, stdout=subprocess.DEVNULL, check=True)
            seconds = time.perf_counter() - begun
            plan = "" if command == "check" else ", without Spark's plan" if engine else ", with Spark's plan"
            name, detail = f"situ {command} on 10,000 rules{plan}", "one run, from the shell"
            yield BenchFigure(name, round(seconds, 1), "s", detail, {"seconds": seconds}, Bar("at most", 10))


def filterer(say: Say) -> Iterator[BenchFigure]:
    """A million conditions beside ten thousand."""
    seconds = {}
    for count in (10_000, 1_000_000):
        say(f"filterer: {count:,} conditions")
        index, batch = _conditions(count), _events(count // 3)
        seconds[count] = least_seconds(partial(index.hits, batch, _CALLS))
        hits = len(index.hits(batch, _CALLS).rows) / len(batch)
    per_s = PAYMENTS / seconds[1_000_000]
    measured = {"seconds_of_10k": seconds[10_000], "seconds_of_1M": seconds[1_000_000], "hits_per_event": hits}
    times = f"{seconds[1_000_000]:.2f} s and {seconds[10_000]:.2f} s of CPU"
    detail = f"{hits:.1f} hits per event; {times} for {PAYMENTS:,} events"
    ratio = round(seconds[1_000_000] / seconds[10_000], 1)
    yield BenchFigure("filterer: a million conditions", ratio, "x ten thousand", detail, measured, Bar("at most", 2))
    yield BenchFigure("filterer: a million conditions, events", round(per_s / 1e6, 2), "million events/s", detail,
                      measured, Bar("at least", 0.5))  # fmt: skip


def _conditions(count: int) -> Filterer:
    random = np.random.default_rng(SEED)
    merchants, bounds = random.integers(0, count // 3, count).tolist(), random.uniform(0, 1, count).tolist()
    merchant, amount = Attribute("this", "merchant"), Attribute("this", "amount")
    index = Filterer({"merchant": INT, "amount": DOUBLE})
    contents: Iterator[Conditions] = (
        (Binary("=", merchant, Literal(of)), Binary(">", amount, Literal(bound)))
        for of, bound in zip(merchants, bounds, strict=True)
    )
    gc.disable()  # a million of everything: nothing of it is garbage
    try:
        index.add(contents)
        index.hits(_events(1).take(np.zeros(1, np.int64)), _CALLS)
    finally:
        gc.enable()
    return index


def _events(merchants: int) -> Batch:
    table = payments(max(merchants, 1))
    return Batch(np.arange(PAYMENTS), {n: table.column(n).combine_chunks() for n in ("merchant", "amount")})


SECTIONS: Sections = {
    "fraud": fraud,
    "memory": memory,
    "filterer": filterer,
    "commands": commands,
    "queries": partial(queries, "embedded"),
    "queries on spark": partial(queries, "spark"),
    "queries as a stream": partial(queries, "spark-streaming"),
}

if __name__ == "__main__":
    sys.exit(show(__doc__, SECTIONS))
