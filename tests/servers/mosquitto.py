"""A real MQTT broker for tests: `with mosquitto_broker() as broker`, or the fixture `mosquitto`."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue

import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from servers.debian import Program, ServerUnavailable, answers, free_port, program, wait_until

SERVER = ["/usr/sbin/mosquitto", "/usr/bin/mosquitto", "/usr/local/sbin/mosquitto"]


class Mosquitto:
    """A broker on a port of its own that keeps everything, also over a restart."""

    def __init__(self, directory: Path, users: Mapping[str, str], rules: str) -> None:
        self.host, self.port = "127.0.0.1", free_port()
        self._directory = directory
        self._program: Program = program("mosquitto", SERVER)
        self._process: subprocess.Popen[bytes] | None = None
        self._config = directory / "mosquitto.conf"
        self._config.write_text(self._written(users, rules))

    def start(self) -> None:
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._program.path), "-c", str(self._config)],
                env=dict(self._program.environment),
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(lambda: answers(self.port) or self._process_ended(), "mosquitto")
        except TimeoutError as error:
            self.stop()
            raise ServerUnavailable(str(error)) from error
        if self._process_ended():
            raise ServerUnavailable(f"mosquitto ends at once: {(self._directory / 'log').read_text()[-500:]}")

    def stop(self) -> None:
        """Ends the broker in peace: it writes down sessions and what they wait for."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def address(self, topic: str, login: str = "") -> str:
        return f"mqtt://{login}{self.host}:{self.port}/{topic}"

    def publish(self, *messages: tuple[str, bytes], login: tuple[str, str] | None = None, retain: bool = False) -> None:
        """Sends messages one after the other with QoS 1; returns when the broker has them all."""
        client = self._client(login)
        client.connect(self.host, self.port)
        client.loop_start()
        try:
            sent = [client.publish(topic, payload, qos=1, retain=retain) for topic, payload in messages]
            for info in sent:
                info.wait_for_publish(120)
                assert info.is_published()
        finally:
            client.disconnect()
            client.loop_stop()

    @contextmanager
    def subscribed(
        self, topic: str, login: tuple[str, str] | None = None
    ) -> Iterator[Callable[[int], list[tuple[str, bytes]]]]:
        """A subscriber; what it gives takes so many messages, and waits for them."""
        came: Queue[MQTTMessage] = Queue()
        ready: Queue[None] = Queue()
        client = self._client(login)
        client.on_message = lambda _client, _data, message: came.put(message)
        client.on_connect = lambda client, *_rest: client.subscribe(topic, qos=1)
        client.on_subscribe = lambda *_rest: ready.put(None)
        client.connect(self.host, self.port)
        client.loop_start()

        def take(count: int) -> list[tuple[str, bytes]]:
            try:
                messages = [came.get(timeout=120) for _ in range(count)]
            except Empty:
                raise AssertionError(f"fewer than {count} messages came") from None
            return [(message.topic, message.payload) for message in messages]

        try:
            ready.get(timeout=120)
            yield take
        finally:
            client.disconnect()
            client.loop_stop()

    def _client(self, login: tuple[str, str] | None) -> Client:
        client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        if login is not None:
            client.username_pw_set(*login)
        return client

    def _process_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _written(self, users: Mapping[str, str], rules: str) -> str:
        passwords, allowed = self._directory / "passwords", self._directory / "rules"
        if users:
            passwords.write_text("".join(f"{user}:{password}\n" for user, password in users.items()))
            hasher = next(self._program.path.parents[1].glob("*bin/mosquitto_passwd"))
            subprocess.run([hasher, "-U", passwords], check=True, env=dict(self._program.environment))
            passwords.chmod(0o600)
        allowed.write_text(rules)
        allowed.chmod(0o600)
        lines = [
            f"listener {self.port} 127.0.0.1",
            f"password_file {passwords}\nallow_anonymous false" if users else "allow_anonymous true",
            f"persistence true\npersistence_location {self._directory}/",
            f"acl_file {allowed}" if rules else "",
            "max_queued_messages 0",  # the default, 1000, drops the rest
            "user root" if os.geteuid() == 0 else "",
        ]
        return "\n".join(lines) + "\n"


@contextmanager
def mosquitto_broker(users: Mapping[str, str] | None = None, rules: str = "") -> Iterator[Mosquitto]:
    """A broker for a while: open to all, or to `users` with their passwords, who may do what the rules say."""
    with tempfile.TemporaryDirectory(prefix="situ-mosquitto-") as directory:
        broker = Mosquitto(Path(directory), users or {}, rules)
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()


@pytest.fixture(scope="session")
def mosquitto() -> Iterator[Mosquitto]:
    try:
        with mosquitto_broker() as broker:
            yield broker
    except ServerUnavailable as error:
        pytest.skip(str(error))
