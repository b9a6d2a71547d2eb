"""What a caller gives for the streams of a query: each under its name, or by itself where the query has one stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from situ.core.errors import InputError, did_you_mean
from situ.graph.operators import OperatorGraph

Input = TypeVar("Input")


def given_by_stream(
    graph: OperatorGraph, given: Mapping[str, Input] | Input, kind: str, form: str = ""
) -> dict[str, Input]:
    """The input of every stream, by its name, in the order of the streams.

    `kind` is what messages call one: a source, a DataFrame; `form` is how one is added, with {} for the stream's name.

    InputError for a name that is no stream, and for a stream without input.
    """
    names = [stream.name for stream in graph.streams]
    if not isinstance(given, Mapping):
        if len(names) == 1:
            return {names[0]: given}
        by_name = ", ".join(f"{name!r}: ..." for name in names)
        raise InputError(
            f"one {kind} is given, and the query has {len(names)} streams",
            remedy=f"Say which is which: {{{by_name}}}." if names else "Declare a stream: stream Name(...) time ...",
        )
    for name in given:
        if name not in names:
            raise InputError(f"no stream {name!r} in the query", remedy=did_you_mean(str(name), names))
    if missing := [name for name in names if name not in given]:
        needed = f"{kind[0].upper()}{kind[1:]}s are needed for: {', '.join(missing)}."
        added = f"Add {' '.join(form.format(name) for name in missing)}"
        raise InputError(f"no {kind} for stream {', '.join(missing)}", remedy=added if form else needed)
    return {name: given[name] for name in names}
