"""A thousand rules from a table of thresholds: the same rules as a text and with the builder.

    python examples/telecom/thresholds.py                       # 200,000 calls, the antennas with most suspicions
    python examples/telecom/thresholds.py --text > rules.situ   # for `situ check`, `situ explain` and `situ run`

Every antenna has a rule of its own: two calls of one caller there within a day, each longer than what is long at
this antenna. The rules are of one shape, so they run as one program, and an index tells which call concerns which rule.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa
from generate import generate

import situ
from situ.build import detect, query, stream, subscribe

ANTENNAS = 1_000
ATTRIBUTES = {"caller": "string", "antenna": "int", "started": "timestamp", "duration_s": "int"}
STREAM = "stream Call(caller string, antenna int, started timestamp, duration_s int)\n  time started"


def thresholds(seed: int) -> pa.Table:
    """For each antenna, from how many seconds on a call there is long. A provider would take them from its data."""
    random = np.random.default_rng(seed)
    return pa.table({"antenna": np.arange(ANTENNAS), "long_s": random.integers(2, 10, ANTENNAS) * 60})


def rules_as_text(table: pa.Table) -> str:
    """A subscription for each row of the table."""
    return "\n\n".join([STREAM, *(_rule(row["antenna"], row["long_s"]) for row in table.to_pylist())]) + "\n"


def _rule(antenna: int, long_s: int) -> str:
    call = f"Call(antenna = {antenna} and duration_s > {long_s})"
    return (
        f"subscribe Antenna{antenna}\n"
        f"  detect   {call} as a then {call} as b within 1 d\n"
        f"  assign   caller = b.caller, antenna = {antenna}, long_s = {long_s}, seconds = a.duration_s + b.duration_s\n"
        "  group by caller"
    )


def rules_as_objects(table: pa.Table) -> situ.Query:
    """The same with the builder: no text is written or read."""
    call = stream("Call", ATTRIBUTES, time="started")
    a, b = call.as_("a"), call.as_("b")
    rules = [
        subscribe(
            f"Antenna{antenna}",
            detect(
                a.where((a.antenna == antenna) & (a.duration_s > long_s)).then(
                    b.where((b.antenna == antenna) & (b.duration_s > long_s))
                ),
                within="1 d",
                assign={
                    "caller": b.caller, "antenna": antenna, "long_s": long_s, "seconds": a.duration_s + b.duration_s
                },
            ),
            group_by="caller",
        )
        for antenna, long_s in zip(*(table.column(n).to_pylist() for n in ("antenna", "long_s")), strict=True)
    ]  # fmt: skip
    return query(call, *rules)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--text", action="store_true", help="print the rules, and nothing else")
    options = parser.parse_args()
    table = thresholds(options.seed)
    if options.text:
        print(rules_as_text(table), end="")
        return
    engine = situ.Engine(rules_as_objects(table))
    print(engine.describe_rules())
    calls = generate(options.calls, options.seed).calls.select(list(ATTRIBUTES))
    begun = time.perf_counter()
    outputs = list(engine.run(calls))
    seconds = time.perf_counter() - begun
    counts = {name: sum(o.complex_events[name].num_rows for o in outputs) for name in outputs[0].complex_events}
    print(f"{calls.num_rows:,} calls, {len(counts):,} rules, {sum(counts.values()):,} suspicions in {seconds:.1f} s")
    for name in sorted(counts, key=lambda name: -counts[name])[:5]:
        print(f"  {counts[name]:>6,}  {name}")


if __name__ == "__main__":
    main()
