"""A case is compiled once per process: equal queries share the result, and no others do."""

from __future__ import annotations

import pyarrow as pa

from situ.core.functions import Functions
from situ.kernel.operator import contexts_of
from situ.kernel.program.compiled_case import CompiledCase, compile_case
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine

STREAM = "stream E(v int, ts int) time ts in s\n"
RULE = "subscribe S detect E({}) as a then E(v > a.v) as b within 5 s assign a = a.v"


def compiled(condition: str, functions: Functions | None = None) -> CompiledCase:
    functions = functions or Functions()
    graph = resolve(parse(STREAM + RULE.format(condition)), functions)
    return compile_case(contexts_of(graph, functions, provenance=False)["S"], 0)


def test_equal_queries_share_what_was_compiled() -> None:
    assert compiled("v > 1") is compiled("v  >  1")
    assert compiled("v > 1") is not compiled("v > 2")


def test_literals_of_different_types_are_different_queries() -> None:
    texts = [compiled(f"v + {one} = 2").text for one in ("1", "1.0", "1d", "1.0d")]
    assert len({*texts}) == 4
    assert all(f"this.v + {one} = 2" in text for one, text in zip(("1", "1.0", "1d", "1.0d"), texts, strict=True))


def test_functions_that_return_other_types_are_compiled_anew() -> None:
    def registry(returns: str) -> Functions:
        functions = Functions()
        functions.register(abs, returns=returns, name="twice")
        return functions

    assert compiled("twice(v) = 2", registry("int")) is compiled("twice(v) = 2", registry("int"))
    assert compiled("twice(v) = 2", registry("int")) is not compiled("twice(v) = 2", registry("double"))


def test_what_a_literal_is_decides_what_is_computed() -> None:
    """Doubles are exact up to 2**53 only; one condition says so, the other is about integers."""
    rules = [
        f"subscribe {name} detect E(v + {one} = {2**53 + 1}) as a assign v = a.v"
        for name, one in (("Whole", "1"), ("Real", "1.0"))
    ]
    outputs = Engine(STREAM + "\n".join(rules)).run({"E": pa.table({"v": [2**53 - 1, 2**53], "ts": [1, 2]})})
    found: dict[str, list[int]] = {"Whole": [], "Real": []}
    for output in outputs:
        for name, table in output.complex_events.items():
            found[name] += table.column("v").to_pylist()
    assert found == {"Whole": [2**53], "Real": [2**53 - 1, 2**53]}
