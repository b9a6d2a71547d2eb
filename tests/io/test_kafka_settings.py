"""Credentials for Kafka come from a file or the environment, and no error tells them."""

from pathlib import Path

import pytest

from situ.core.errors import InputError
from situ.io.kafka_address import KafkaAddress
from situ.io.kafka_settings import settings_in_file
from situ.runtime.spark.inputs.kafka import kafka_error

FILE = """\
# for the city's brokers
security.protocol = SASL_SSL
sasl.mechanism=PLAIN

! what follows is one setting
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="ann" \\
  password="se=cr#et";
kafka.client.id: situ
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "client.properties"
    file.write_text(FILE)
    return file


def test_settings_from_a_file(config: Path) -> None:
    address = KafkaAddress.parse(f"kafka://one:9092/cars?config={config}&startingOffsets=earliest", environ={})
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    assert address.options == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{module} required username="ann" password="se=cr#et";',
        "kafka.client.id": "situ",
        "startingOffsets": "earliest",
    }
    assert "se=cr#et" not in address.shown + repr(address)
    assert "se=cr#et" not in str(kafka_error("refused: se=cr#et is wrong", address))


def test_the_address_comes_before_the_file_and_the_file_before_the_environment(config: Path) -> None:
    environ = {
        "SITU_KAFKA_SASL_MECHANISM": "SCRAM-SHA-256",
        "SITU_KAFKA_SASL_JAAS_CONFIG": "env",
        "SITU_KAFKA_SSL_TRUSTSTORE_PASSWORD": "TRUST",
    }
    text = f"kafka://one:9092/cars?config={config}&kafka.security.protocol=SSL"
    options = KafkaAddress.parse(text, writing=True, environ=environ).options
    assert options["kafka.security.protocol"] == "SSL"
    assert options["kafka.sasl.mechanism"] == "PLAIN"
    assert options["kafka.ssl.truststore.password"] == "TRUST"
    alone = KafkaAddress.parse("kafka://one:9092/cars", environ=environ)
    assert alone.options["kafka.sasl.mechanism"] == "SCRAM-SHA-256"
    assert "TRUST" not in str(kafka_error("no TRUST in the store", alone))


def test_what_is_no_file_of_settings(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: the settings for Kafka cannot be read: No such file"):
        KafkaAddress.parse(f"kafka://one:9092/cars?config={tmp_path / 'nowhere'}", environ={})
    file = tmp_path / "client.properties"
    file.write_text("sasl.mechanism=PLAIN\nSECRET alone\n")
    with pytest.raises(InputError, match=r"client.properties:2: the line is no setting") as error:
        settings_in_file(file)
    assert "SECRET" not in str(error.value)
    file.write_bytes(b"SECRET\xff")
    with pytest.raises(InputError, match="not text in UTF-8") as error:
        settings_in_file(file)
    assert "SECRET" not in str(error.value)
