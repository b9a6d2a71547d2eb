"""A client of an MQTT broker: what receiving and sending share, which is how it is reached and what it says."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from situ.core.errors import InputError
from situ.io.mqtt.address import MqttAddress

if TYPE_CHECKING:
    from paho.mqtt.client import Client
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

#: How long a broker may take to answer at the start.
ANSWER_S = 10.0

#: Between two attempts to connect again.
_LEAST_WAIT_S, _MOST_WAIT_S = 1, 30


def require_paho() -> None:
    """An error with the remedy, where paho-mqtt is not installed."""
    if find_spec("paho") is None:
        raise InputError("MQTT needs the package paho-mqtt, which is not installed", remedy="pip install 'situ[mqtt]'")


def mqtt_client(address: MqttAddress, client_id: str, manual_ack: bool = False) -> Client:
    """A client of MQTT 5 that is not connected yet, and connects again by itself."""
    require_paho()
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

    client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion.MQTTv5, manual_ack=manual_ack)
    if address.user is not None:
        client.username_pw_set(address.user, address.password)
    client.connect_timeout = ANSWER_S
    client.reconnect_delay_set(_LEAST_WAIT_S, _MOST_WAIT_S)
    return client


def connect(client: Client, address: MqttAddress, clean_start: bool, properties: Properties | None = None) -> None:
    """Opens the connection and starts the client's thread. The broker's answer comes to `on_connect`."""
    try:
        client.connect(address.host, address.port, clean_start=clean_start, properties=properties)
    except OSError as error:
        raise no_answer(address, str(error)) from error
    client.loop_start()


def no_answer(address: MqttAddress, why: str) -> InputError:
    return InputError(
        f"no MQTT broker answers at {address.shown}: {why}", remedy="Start it there, or correct the address."
    )


def refused(address: MqttAddress, reason: ReasonCode) -> InputError:
    """The broker's own words, and what to do about the usual ones."""
    if "protocol version" in str(reason).lower():
        remedy = "situ speaks MQTT 5."
    elif address.user is None:
        remedy = "Give user and password: mqtt://USER:PASSWORD@HOST/TOPIC."
    else:
        remedy = "Look at user, password and client_id, and at what the broker allows them."
    return InputError(f"the MQTT broker at {address.shown} refuses: {reason}", remedy=remedy)
