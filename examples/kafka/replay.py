"""Plays the traffic of Ingolstadt into a topic of Kafka: a JSON message for each vehicle and second.

python examples/kafka/replay.py localhost:9092                         in real time, from now on
python examples/kafka/replay.py localhost:9092 --speed 20              twenty times as fast
python examples/kafka/replay.py localhost:9092 --speed 0 --start 0     at once, with the times of the file
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

VEHICLES = Path(__file__).parents[1] / "traffic" / "vehicles.parquet"
ANSWER_S = 30


def create_topics(server: str, *topics: str, partitions: int = 2) -> None:
    """Those that are not there yet."""
    admin = AdminClient({"bootstrap.servers": server})
    made = admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics])
    for answer in made.values():
        try:
            answer.result(ANSWER_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def seconds_of_traffic(seconds: float, start: float) -> Iterator[tuple[float, list[dict[str, Any]]]]:
    """The rows of each second, which begins so many seconds after the start; their times are counted from `start`."""
    table = pq.read_table(VEHICLES)
    rows = table.filter(pc.less(table["time_s"], seconds)).to_pylist()  # ordered by time
    for second, of_second in groupby(rows, lambda row: row["time_s"]):
        yield second, [row | {"time_s": start + second} for row in of_second]


def replay(server: str, topic: str, seconds: float, start: float, speed: float) -> int:
    """Sends messages, as fast as `speed` says (0: at once); how many. The key is the vehicle, so that the messages of
    one vehicle lie in one partition, in order."""
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": server})  # at least once: the query says which messages are copies
    begun, sent = time.monotonic(), 0
    for second, rows in seconds_of_traffic(seconds, start):
        if speed:
            time.sleep(max(second / speed - (time.monotonic() - begun), 0))
        for row in rows:
            producer.produce(topic, json.dumps(row), row["vehicle"], on_delivery=delivered)
            sent += 1
        producer.poll(0)
    left = producer.flush(ANSWER_S)
    if failed or left:
        raise SystemExit(f"{left + len(failed)} of {sent} messages were not delivered. {failed[0] if failed else ''}")
    return sent


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("server", help="HOST:PORT of a broker")
    arguments.add_argument("--topic", default="vehicles")
    arguments.add_argument("--results", default="braking", help="a topic that is made, too, for what is found")
    arguments.add_argument("--seconds", type=float, default=1200, help="of the file's twenty minutes")
    arguments.add_argument("--start", type=float, help="time of the first row, in seconds since 1970; default: now")
    arguments.add_argument("--speed", type=float, default=1, help="1: as fast as it happened; 0: at once")
    given = arguments.parse_args()
    create_topics(given.server, given.topic, given.results)
    start = float(int(time.time())) if given.start is None else given.start
    sent = replay(given.server, given.topic, given.seconds, start, given.speed)
    print(f"{sent:,} messages in {given.topic}")


if __name__ == "__main__":
    main()
