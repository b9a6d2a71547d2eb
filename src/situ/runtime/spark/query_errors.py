"""What an error of a streaming query says: situ's own words come back from workers and sinks as part of a long text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from situ.core import errors as situ_errors
from situ.core.errors import SituError
from situ.runtime.spark.errors import SparkError, cause_and_remedy, spark_exceptions
from situ.runtime.spark.kafka import KafkaAddress, kafka_error
from situ.runtime.spark.stream_addresses import scheme_of


@contextmanager
def as_situ_errors(addresses: Iterable[str] = ()) -> Iterator[None]:
    """An error of Spark's as one of situ's, of a query that reads these addresses."""
    try:
        yield
    except spark_exceptions() as error:
        raise query_error(str(error), addresses) from None  # its text may hold what is secret in an address
    except ConnectionError as error:
        raise SparkError("Spark's Java process has ended", remedy="What it printed above says more.") from error


_SITU_ERROR = re.compile(r"^situ\.[\w.]*?\.(\w+Error): (.*)\n?((?:^  \S.*\n?)*)", re.MULTILINE)


def query_error(text: str, addresses: Iterable[str] = ()) -> SituError:
    """What made a streaming query fail: what situ said in a worker or a sink, where it did; else what Spark said.

    >>> error = query_error("Job aborted: Traceback (most recent call last):\\n  File ...\\n"
    ...     "situ.core.errors.StateError: it does not fit.\\n  Begin anew.\\n\\n\\tat org.apache.spark.Spark")
    >>> type(error).__name__, error.cause, error.remedy
    ('StateError', 'it does not fit', 'Begin anew.')
    """
    topics = [KafkaAddress.parse(address) for address in addresses if scheme_of(address) == "kafka"]
    for topic in topics:
        text = topic.without_secrets(text)
    said = _SITU_ERROR.findall(text)
    if not said and topics and "kafka" in text.lower():
        return kafka_error(text, *topics)
    if not said:
        cause, remedy = cause_and_remedy(text)
        return SparkError(f"the streaming query has failed: {cause}", remedy=remedy)
    name, cause, remedy = said[-1]
    kind = getattr(situ_errors, name, SparkError)
    return kind(cause, remedy=" ".join(line.strip() for line in remedy.splitlines()))
