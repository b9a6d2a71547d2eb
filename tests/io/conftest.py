from collections.abc import Callable

import pytest

from situ.core.types import DOUBLE, INT, STRING, TIMESTAMP, Type
from situ.graph.query import AttributeDeclaration, Stream

StreamMaker = Callable[..., Stream]


@pytest.fixture
def make_stream() -> StreamMaker:
    """make_stream("ts", speed=DOUBLE, ts=TIMESTAMP): a stream with these attributes and this event time."""

    def make(time: str, /, unit: str | None = None, **attributes: Type) -> Stream:
        declared = tuple(AttributeDeclaration(name, type_) for name, type_ in attributes.items())
        return Stream("Vehicle", declared, time=time, time_unit=unit)  # type: ignore[arg-type]

    return make


@pytest.fixture
def vehicle(make_stream: StreamMaker) -> Stream:
    return make_stream("ts", vehicle=STRING, speed=DOUBLE, lane=INT, ts=TIMESTAMP)
