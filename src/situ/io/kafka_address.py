"""The address of a topic of Kafka: its brokers, and options of which some are secrets."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import unquote

from situ.core.errors import InputError, did_you_mean
from situ.io.kafka_settings import settings_in_environment, settings_in_file

SCHEME = "kafka://"
FORM = "An address is kafka://HOST:PORT/TOPIC; further brokers follow after commas, options after '?'."
#: The option that names a file of settings for Kafka's client, as Kafka's own tools read them.
CONFIG = "config"

#: What Spark's streaming reader understands beside `kafka.*`. The writer understands none of these.
READ_OPTIONS = (
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
)
#: Options that the address says already, and what Spark sets itself and refuses from others.
_IN_ADDRESS = ("assign", "kafka.bootstrap.servers", "subscribe", "subscribePattern", "topic")
_SPARKS_OWN = (
    "kafka.auto.offset.reset",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
    "kafka.key.deserializer",
    "kafka.key.serializer",
    "kafka.value.deserializer",
    "kafka.value.serializer",
)

_SERVER = re.compile(r"(?:[^\s:/@,\[\]]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})")
_TOPIC = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")
_SECRET = re.compile(r"password|jaas|secret|token|credential|\.key\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """A topic and where its brokers are. Options may hold passwords: neither `shown` nor `repr` tells them.

    >>> cars = KafkaAddress.parse("kafka://one:9092,two:9092/cars?startingOffsets=earliest")
    >>> cars.servers, cars.topic, cars.options
    ('one:9092,two:9092', 'cars', {'startingOffsets': 'earliest'})
    >>> cars.shown
    'kafka://one:9092,two:9092/cars'
    """

    servers: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @classmethod
    def parse(cls, text: str, *, writing: bool = False, environ: Mapping[str, str] = os.environ) -> Self:
        """The address in a text, for reading or for writing; InputError if it is none.

        In values of options, `&` is written as %26 and `%` as %25; all else may stand as it is. Settings of Kafka's
        client that the address does not have come from the file that `config` names, and from the environment:
        passwords need not stand on a command line, which everybody on a machine can read. See `kafka_settings`.
        """
        if not text.startswith(SCHEME):
            raise InputError(f"an address of Kafka begins with {SCHEME}", remedy=FORM)
        where, _, query = text.removeprefix(SCHEME).partition("?")
        servers, _, topic = where.partition("/")
        if "@" in where:  # the part before it may be a password, so the address is not shown
            raise InputError(
                "an address of Kafka holds no user and no password before the broker",
                remedy="Write sasl.jaas.config and what else Kafka's client needs into a file: ?config=FILE.",
            )
        place = SCHEME + where
        _check_servers(servers, place)
        _check_topic(topic, place)
        options = _options(query, place, writing)
        file = options.pop(CONFIG, None)
        from_file = settings_in_file(Path(file)) if file is not None else {}
        return cls(servers, topic, {**settings_in_environment(environ), **from_file, **options})

    @property
    def shown(self) -> str:
        """For messages and logs."""
        return f"{SCHEME}{self.servers}/{self.topic}"

    @property
    def client_options(self) -> dict[str, str]:
        """What Kafka's own client needs to find the brokers, and to be let in."""
        given = {name: value for name, value in self.options.items() if name.startswith("kafka.")}
        return given | {"kafka.bootstrap.servers": self.servers}

    def without_secrets(self, text: str) -> str:
        """A text of Spark's or Kafka's, without what must not be told."""
        for name, value in self.options.items():
            if value and _SECRET.search(name):
                # Kafka may quote the whole login, or the password in it.
                for secret in sorted({value, *re.findall(r'"([^"]+)"', value)}, key=len, reverse=True):
                    text = text.replace(secret, "***")
        return text


# ---- parts of an address


def _check_servers(servers: str, place: str) -> None:
    if not servers:
        raise InputError("the address names no broker", place=place, remedy=FORM)
    for server in servers.split(","):
        parts = _SERVER.fullmatch(server)
        if parts is None or not 0 < int(parts[1]) < 2**16:
            raise InputError(f"'{server}' is no HOST:PORT of a broker", place=place, remedy=FORM)


def _check_topic(topic: str, place: str) -> None:
    if not topic:
        raise InputError("the address names no topic", place=place, remedy=FORM)
    if not _TOPIC.fullmatch(topic):
        raise InputError(
            f"'{topic}' is no name of a topic",
            place=place,
            remedy="It has up to 249 letters, digits, dots, underscores and hyphens; one address is one topic.",
        )


def _options(query: str, place: str, writing: bool) -> dict[str, str]:
    """Not with `parse_qsl`, to which the `+` of a password is a space. No value is shown: it may be a password."""
    options: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        name, equals, value = part.partition("=")
        name = unquote(name)
        if not equals:
            remedy = "Options are NAME=VALUE, with & between them; an & in a value is written as %26."
            raise InputError("an option has no value", place=place, remedy=remedy)
        _check_option(name, place, writing)
        if name in options:
            raise InputError(f"option {name} is there twice", place=place)
        options[name] = unquote(value)
    starting = options.get("startingOffsets", "latest")
    if starting not in ("earliest", "latest") and not _is_object(starting):
        remedy = 'It is earliest, latest, or an offset for each partition: {"cars": {"0": 17, "1": -2}}.'
        raise InputError("option startingOffsets does not say where to start", place=place, remedy=remedy)
    return options


def _check_option(name: str, place: str, writing: bool) -> None:
    if name == CONFIG:
        return
    if name in _IN_ADDRESS:
        raise InputError(f"option {name} is what the address itself says", place=place, remedy=FORM)
    if name in _SPARKS_OWN:
        remedy = "Spark sets it itself; startingOffsets says where reading starts."
        raise InputError(f"option {name} cannot be set", place=place, remedy=remedy)
    if name.startswith("kafka.") and name != "kafka.":
        return
    if writing and name in READ_OPTIONS:
        raise InputError(f"option {name} is for reading only", place=place, remedy="Leave it out.")
    if name not in READ_OPTIONS:
        options = ["kafka.*", CONFIG, *(() if writing else READ_OPTIONS)]
        raise InputError(f"there is no option '{name}'", place=place, remedy=did_you_mean(name, options))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
