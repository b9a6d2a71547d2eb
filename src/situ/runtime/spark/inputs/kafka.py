"""Kafka on Spark: the messages of a topic as a streaming DataFrame, and rows as messages.

Spark reads and writes Kafka through a connector that PySpark does not bring along; `kafka_conf` says what a session
needs for it. Only the public DataFrame API is used, so all of this works through Spark Connect, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from situ.io.kafka_address import KafkaAddress
from situ.runtime.spark.session.errors import SparkError, cause_and_remedy, spark_exceptions
from situ.runtime.spark.session.jars import fetched
from situ.runtime.spark.session.versions import release

#: Spark's connector for Kafka.
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
#: Its version for each release of Spark. A connector of another release fails with a NoSuchMethodError, but Maven
#: Central has none for 4.3.0; there, that of 4.2 reads and writes. As soon as 4.3.0 is there, it belongs here.
CONNECTOR_VERSIONS = {(4, 0): "4.0.4", (4, 1): "4.1.3", (4, 2): "4.2.0", (4, 3): "4.2.0"}
#: What else it needs and Spark does not bring along. Of the token provider, Maven Central has nothing after 4.0.0.
BESIDE_CONNECTOR = (
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


#: How long a broker may take to answer the first question, if the address does not say.
ANSWER_MS = 15_000
#: So many bytes of a message that is no text are shown.
_SHOWN_BYTES = 40

#: A class or method that the connector asks Spark for, and that this Spark does not have.
_DOES_NOT_FIT = re.compile(
    r"NoSuchMethodError|NoClassDefFoundError|AbstractMethodError|IncompatibleClassChangeError"
    r"|terminated with exception: '[\w.$\[\]]+ org\.apache\.spark\.[\w.$]+\.[\w<>$]+\("
)
_NO_ANSWER = (
    "Timed out waiting for a node assignment",
    "No resolvable bootstrap urls",
    "Timeout expired while fetching topic metadata",
)


# ---- the connector


def kafka_conf(conf: Mapping[str, str] | None = None, fetch: Callable[..., Sequence[Path]] = fetched) -> dict[str, str]:
    """The settings of a new session, with Spark's connector for Kafka among them unless they name one already.

    Its jars are fetched from Maven Central, once, into the user's cache. A session that runs already cannot be given
    the connector; on Spark Connect it is the server that needs it.
    """
    settings = dict(conf or {})
    artefact = CONNECTOR.partition(":")[2]
    if any(artefact in settings.get(key, "") for key in ("spark.jars", "spark.jars.packages")):
        return settings
    jars = fetch("spark-kafka", connector_jars(pyspark.__version__), transitive=False)
    return settings | {"spark.jars": ",".join(filter(None, [settings.get("spark.jars", ""), *map(str, jars)]))}


def connector_jars(version: str) -> tuple[str, ...]:
    """What a session of this version of Spark needs to read and write Kafka.

    >>> connector_jars("4.1.4")[0]
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3'
    """
    newest = max(CONNECTOR_VERSIONS)
    return (f"{CONNECTOR}:{CONNECTOR_VERSIONS[min(release(version), newest)]}", *BESIDE_CONNECTOR)


# ---- reading


def read_messages(spark: SparkSession, address: KafkaAddress) -> DataFrame:
    """The topic's messages as a streaming DataFrame, one row each, with three columns of type string.

    `value` is the message as text. It is null for a message without a value (a tombstone), and for one that is no
    UTF-8: then `_reason` says so, which is null for all others. `_place` is where the message stands:
    `topic cars, partition 0, offset 17`.

    Whether the session has the connector, a broker answers and the topic exists is asked at once, not by the first
    batch: see `require_topic`.
    """
    require_topic(spark, address)
    with kafka_errors(address):
        options = {**address.options, **address.client_options, "subscribe": address.topic}
        return spark.readStream.format("kafka").options(**options).load().select(*_as_text())


def require_topic(spark: SparkSession, address: KafkaAddress) -> None:
    """SparkError, if the session has no connector, no broker answers, or there is no such topic.

    Spark itself asks: it may run where the brokers are, while this process does not.
    """
    asking = {"kafka.default.api.timeout.ms", "kafka.request.timeout.ms"}
    options = address.client_options
    if not asking & set(options):
        options |= dict.fromkeys(asking, str(ANSWER_MS))
    options |= {"subscribe": address.topic, "fetchOffset.numRetries": "1"}
    with kafka_errors(address):
        # A batch asks for the offsets of all partitions when it is planned. It is to read one message at most.
        spark.read.format("kafka").options(**options).load().select("offset").limit(1).collect()


def _as_text() -> list[Column]:
    data = F.col("value")
    text = F.try_validate_utf8(data.cast("string"))  # Spark takes any bytes for a string, Arrow and Python do not
    beginning = F.lower(F.hex(F.substring(data, 1, _SHOWN_BYTES)))
    more = F.when(F.length(data) > _SHOWN_BYTES, "...").otherwise("")
    reason = (
        F.when(data.isNull(), "the message has no value (a tombstone)")
        .when(text.isNull(), F.concat(F.lit("not UTF-8: bytes 0x"), beginning, more))
        .otherwise(F.lit(None).cast("string"))
    )
    place = F.format_string("topic %s, partition %d, offset %d", "topic", "partition", "offset")
    return [text.alias("value"), reason.alias("_reason"), place.alias("_place")]


# ---- writing


def write_batch(messages: DataFrame, address: KafkaAddress) -> None:
    """Writes messages, the columns `key` and `value`, to the topic; for use within `foreachBatch`.

    Kafka gets each message at least once. A task or batch that fails half-way is repeated, and what it had written
    already stays in the topic. A consumer tells repetitions by the columns `_batch` and `_row` of situ's results, the
    number of the batch and of the row in it: it keeps the first message of each pair.
    """
    with kafka_errors(address):
        options = {**address.client_options, "topic": address.topic}
        messages.write.format("kafka").options(**options).save()


# ---- errors


@contextmanager
def kafka_errors(*addresses: KafkaAddress) -> Iterator[None]:
    """What Spark and Kafka raise, as a SparkError with cause and remedy. Also for a query that was started before."""
    try:
        yield
    except spark_exceptions() as error:
        # The error of Spark's is not kept as the cause: its text may hold a password, and it would be printed.
        raise kafka_error(str(error), *addresses) from None


def kafka_error(text: str, *addresses: KafkaAddress) -> SparkError:
    """The error for a text of Spark's.

    >>> print(kafka_error("Timed out waiting for a node assignment.", KafkaAddress("host:9092", "cars")))
    kafka://host:9092/cars: no broker answers.
      Start it, or correct HOST:PORT. Spark asks from where it runs, and the broker must be known there by that name.
    """
    place = ", ".join(address.shown for address in addresses)
    for address in addresses:
        text = address.without_secrets(text)
    if "KAFKA_DATA_SOURCE_NOT_ENABLED" in text or "Failed to find data source: kafka" in text:
        cause = "this Spark session has no connector for Kafka"
        remedy = "Start it with situ.spark_session(conf=kafka_conf()), or with the jars of a connector in spark.jars."
    elif _DOES_NOT_FIT.search(text):
        cause = "the session's connector for Kafka does not fit its Spark"
        remedy = "Start it with situ.spark_session(conf=kafka_conf()), or with a connector that was made for it."
    elif "UnknownTopicOrPartition" in text or "does not host this topic-partition" in text:
        cause, remedy = "there is no such topic", "Create it, or correct its name; names are case-sensitive."
    elif any(sign in text for sign in _NO_ANSWER) or re.search(r"not present in metadata after \d+ ms", text):
        cause = "no broker answers"
        remedy = (
            "Start it, or correct HOST:PORT. "
            "Spark asks from where it runs, and the broker must be known there by that name."
        )
    else:
        cause, remedy = cause_and_remedy(text)
        cause = f"Kafka: {cause}"
    return SparkError(cause, place=place or None, remedy=remedy)
