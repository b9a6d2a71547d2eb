"""What an error of a streaming query says: situ's own words come back from workers and sinks as part of a long text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from situ.core import errors as situ_errors
from situ.core.errors import SituError, StateError
from situ.io.addresses import scheme_of
from situ.io.kafka_address import KafkaAddress
from situ.runtime.spark.inputs.kafka import kafka_error
from situ.runtime.spark.session.errors import SparkError, cause_and_remedy, spark_exceptions

#: What Spark takes for its own doing, when it stops a query.
INTERRUPTED = "py4j.protocol.Py4JJavaError: An error occurred while calling a sink: java.lang.InterruptedException"


@contextmanager
def as_situ_errors(addresses: Iterable[str] = (), checkpoint: str | None = None) -> Iterator[None]:
    """An error of Spark's as one of situ's, of a query that reads these addresses and has this checkpoint."""
    try:
        yield
    except spark_exceptions() as error:
        raise query_error(str(error), addresses, checkpoint) from None  # its text may hold what is secret in an address
    except ConnectionError as error:
        raise SparkError("Spark's Java process has ended", remedy="What it printed above says more.") from error


#: What Spark says where files of a checkpoint are missing, cut off or overwritten. Some of it comes from its reader of
#: JSON, which does not know what it reads; nothing else of a streaming query is read with it in the driver.
_DAMAGED_CHECKPOINT = re.compile(
    r"Failed to read log file|MALFORMED_LOG_FILE|Incomplete log file|STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
    r"|CANNOT_LOAD_STATE_STORE|MISSING_STATE_DIRECTORY|batch \d+ doesn't exist|Checksum error: file:"
    r"|Unexpected end-of-input|No content to map due to end-of-input|Unrecognized token .*was expecting \(JSON",
)
_RESTORE = (
    "Restore the checkpoint from a backup, together with the results of its time, or begin with a new --checkpoint and "
    "a new --out: docs/production.md says how to lose no events."
)
_SITU_ERROR = re.compile(r"^situ\.[\w.]*?\.(\w+Error): (.*)\n?((?:^  \S.*\n?)*)", re.MULTILINE)


def query_error(text: str, addresses: Iterable[str] = (), checkpoint: str | None = None) -> SituError:
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
    if not said and _DAMAGED_CHECKPOINT.search(text):
        cause = f"Spark cannot go on from the checkpoint, which is damaged: {cause_and_remedy(text)[0]}"
        return StateError(cause, place=checkpoint, remedy=_RESTORE)
    if not said and topics and "kafka" in text.lower():
        return kafka_error(text, *topics)
    if not said:
        cause, remedy = cause_and_remedy(text)
        return SparkError(f"the streaming query has failed: {cause}", remedy=remedy)
    name, cause, remedy = said[-1]
    kind = getattr(situ_errors, name, SparkError)
    return kind(cause, remedy=" ".join(line.strip() for line in remedy.splitlines()))
