"""Where MQTT messages come from or go to: `mqtt://[USER[:PASSWORD]@]HOST[:PORT]/TOPIC[?qos=1&client_id=...]`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Self
from urllib.parse import quote, unquote

from situ.core.errors import InputError, did_you_mean
from situ.io.addresses import shown_address

PORT = 1883

#: How long a broker keeps what came while nobody was connected: long enough for a weekend and its repair.
SESSION_S = 7 * 24 * 3600

_AUTHORITY = re.compile(r"(?P<host>\[[^\[\]]+\]|[^:\[\]]+)(?::(?P<port>\d{1,5}))?")
_FORM = "It is mqtt://[USER[:PASSWORD]@]HOST[:PORT]/TOPIC[?qos=1&client_id=NAME&session_s=SECONDS]."
_ENCODED = "Write '@', ':', '/', '?' and '%' in user, password and topic as %40, %3A, %2F, %3F and %25."


@dataclass(frozen=True, slots=True)
class MqttAddress:
    """A topic, or a filter of topics with the wildcards `+` and `#`, of one broker.

    >>> address = MqttAddress.parse("mqtt://ann:secret@broker/city/+/speed?qos=0")
    >>> address.host, address.port, address.topic, address.qos
    ('broker', 1883, 'city/+/speed', 0)
    >>> address.shown
    'mqtt://ann@broker:1883/city/+/speed?qos=0'
    """

    host: str
    topic: str
    port: int = PORT
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    #: 1: every message arrives at least once. 0: what is lost on the way is lost.
    qos: int = 1
    #: Who this is to the broker. Without it, a source makes one up and keeps it in its spool.
    client_id: str | None = None
    session_s: int = SESSION_S

    @classmethod
    def parse(cls, text: str) -> Self:
        """The address that a text says."""
        scheme, separator, remainder = text.partition("://")
        if scheme.lower() != "mqtt" or not separator:
            raise InputError("an address of MQTT begins with mqtt://", remedy=_FORM)
        # Not urlsplit: to it, the wildcard # ends an address.
        authority, _, path = remainder.partition("/")
        login, _, where = authority.rpartition("@")
        user, colon, password = login.partition(":")
        authority_match = _AUTHORITY.fullmatch(where)
        if authority_match is None or (authority_match["port"] and not 0 < int(authority_match["port"]) < 65536):
            raise InputError(f"'{shown_address(text)}' names no host and port", remedy=f"{_FORM} {_ENCODED}")
        topic, _, parameters = path.partition("?")
        address = cls(
            host=authority_match["host"].strip("[]"),
            topic=unquote(topic),
            port=int(authority_match["port"] or PORT),
            user=unquote(user) or None,
            password=unquote(password) if colon else None,
        )
        if password and not user:
            raise InputError(f"'{shown_address(text)}' has a password, but no user", remedy=_FORM)
        _check_filter(address.topic, text)
        return replace(address, **_parameters(parameters, text))

    @property
    def shown(self) -> str:
        """The address without its password; it can be parsed again."""
        login = f"{quote(self.user, safe='')}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        parameters = {"qos": self.qos, "client_id": self.client_id, "session_s": self.session_s}
        usual = {"qos": 1, "client_id": None, "session_s": SESSION_S}
        pairs = [f"{name}={quote(str(value), safe='')}" for name, value in parameters.items() if value != usual[name]]
        query = f"?{'&'.join(pairs)}" if pairs else ""
        return f"mqtt://{login}{host}:{self.port}/{quote(self.topic, safe='/+#$ ,;=!()*')}{query}"

    @property
    def has_wildcards(self) -> bool:
        return "+" in self.topic or "#" in self.topic


def _parameters(text: str, address: str) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for pair in filter(None, text.split("&")):
        name, _, value = pair.partition("=")
        match name:
            case "client_id" if value:
                parameters[name] = unquote(value)
            case "qos" if value in ("0", "1"):
                parameters[name] = int(value)
            case "qos":
                # A receiver of QoS 2 must remember every number that it has answered for, also after a crash.
                remedy = "It is 1 (at least once) or 0 (at most once). A broker hands on messages of QoS 2 with QoS 1."
                raise InputError(f"'{shown_address(address)}': qos cannot be '{value}'", remedy=remedy)
            case "session_s" if value.isascii() and value.isdigit() and 0 < int(value) < 2**32:
                parameters[name] = int(value)
            case "client_id" | "session_s":
                remedy = "session_s is a number of seconds above 0; client_id is any name."
                raise InputError(f"'{shown_address(address)}': {name} cannot be '{value}'", remedy=remedy)
            case _:
                raise InputError(
                    f"'{shown_address(address)}': an address of MQTT has no parameter '{name}'",
                    remedy=did_you_mean(name, ["qos", "client_id", "session_s"]),
                )
    return parameters


def _check_filter(topic: str, address: str) -> None:
    """What a broker would refuse by closing the connection, without a word."""
    levels = topic.split("/")
    if not topic:
        cause, remedy = "names no topic", _FORM
    elif "\0" in topic or len(topic.encode()) > 65535:
        cause, remedy = "has a topic that MQTT does not allow", "It is at most 65,535 bytes, without the character NUL."
    elif any("+" in level and level != "+" for level in levels):
        cause, remedy = "has a + beside other characters", "+ stands for one whole level: city/+/speed."
    elif any("#" in level for level in levels[:-1]) or ("#" in levels[-1] and levels[-1] != "#"):
        cause, remedy = "has a # that is not the last level", "# stands for all levels that follow: city/#."
    else:
        return
    raise InputError(f"'{shown_address(address)}' {cause}", remedy=remedy)
