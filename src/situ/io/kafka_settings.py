"""Settings of Kafka's client from where secrets belong: a file that is private, or the environment.

    # client.properties, as Kafka's own tools read it
    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
      username="ann" password="...";

The same in the environment: SITU_KAFKA_SECURITY_PROTOCOL, SITU_KAFKA_SASL_MECHANISM, SITU_KAFKA_SASL_JAAS_CONFIG.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from situ.core.errors import InputError

PREFIX = "SITU_KAFKA_"

_LINE = re.compile(r"([^\s=:]+)\s*[=:]\s*(.*)")


def settings_in_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Options for Spark from variables, whose names have `_` for the dots of Kafka's settings.

    >>> settings_in_environment({"SITU_KAFKA_SASL_MECHANISM": "PLAIN", "HOME": "/root"})
    {'kafka.sasl.mechanism': 'PLAIN'}
    """
    return {
        f"kafka.{name.removeprefix(PREFIX).lower().replace('_', '.')}": value
        for name, value in environ.items()
        if name.startswith(PREFIX) and name != PREFIX
    }


def settings_in_file(file: Path) -> dict[str, str]:
    """Options for Spark from a file of `name=value` lines. No error shows a value, or a line that may have one."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        remedy = "Name a file that whoever runs the query can read."
        raise InputError(
            f"the settings for Kafka cannot be read: {cause}", place=str(file), remedy=remedy
        ) from None  # the error of a decoder holds what it read
    settings: dict[str, str] = {}
    for number, line in _whole_lines(text):
        match = _LINE.fullmatch(line)
        if match is None:
            raise InputError(
                "the line is no setting of Kafka's client",
                place=f"{file}:{number}",
                remedy="Write name=value, as in sasl.mechanism=PLAIN; a line that goes on below ends with a backslash.",
            )
        settings[f"kafka.{match[1].removeprefix('kafka.')}"] = match[2].strip()
    return settings


def _whole_lines(text: str) -> list[tuple[int, str]]:
    """Lines that say something, with their numbers; one that ends with a backslash goes on in the next."""
    lines: list[tuple[int, str]] = []
    begun: tuple[int, str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        first, before = begun or (number, "")
        if not before and (not line.strip() or line.lstrip().startswith(("#", "!"))):
            continue
        joined = before + line.strip()
        begun = (first, joined[:-1]) if joined.endswith("\\") else None
        if begun is None:
            lines.append((first, joined))
    return lines + ([begun] if begun else [])
