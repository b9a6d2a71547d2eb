"""MQTT as a source on Spark 4.1, which asks for the newest offset without saying from where, and how many."""

from __future__ import annotations

from pathlib import Path

import pytest

from servers.debian import wait_until
from servers.mosquitto import Mosquitto, mosquitto
from situ.core.errors import StateError
from situ.runtime.spark.inputs.mqtt import MqttAddress, MqttStreamReader

__all__ = ["mosquitto"]  # the fixture


def test_the_reader_keeps_to_the_limit_by_itself(mosquitto: Mosquitto, tmp_path: Path) -> None:
    reader = MqttStreamReader(MqttAddress.parse(mosquitto.address("without")), tmp_path, 4, 1 << 20)
    try:
        assert reader.initialOffset() == {"next": 0}
        mosquitto.publish(*[("without", str(number).encode()) for number in range(10)])
        wait_until(lambda: reader.reportLatestOffset() == {"next": 10}, "ten messages")
        assert reader.latestOffset() == {"next": 10}  # nothing was asked for yet, so nothing can be counted from
        reader.partitions({"next": 0}, {"next": 2})
        assert reader.latestOffset() == {"next": 6}
        reader.partitions({"next": 2}, {"next": 6})
        assert reader.latestOffset() == {"next": 10}
        with pytest.raises(StateError, match=r"the checkpoint has read 11 messages, the spool .* has had 10"):
            reader.partitions({"next": 11}, {"next": 12})
    finally:
        reader.stop()
