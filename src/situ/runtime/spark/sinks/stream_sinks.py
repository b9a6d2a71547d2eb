"""Where the results of a streaming query go, by address: a directory, Kafka, MQTT or PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, get_args

import pyarrow as pa
from pyspark.sql import DataFrame

from situ.core.errors import InputError, did_you_mean
from situ.io.addresses import OUTPUTS, directory_of, scheme_of, unknown_address
from situ.io.files.by_suffix import Format
from situ.io.files.root import Root
from situ.io.kafka_address import KafkaAddress
from situ.io.mqtt.client import require_paho
from situ.io.permissions import PRIVATE, Permissions
from situ.io.postgresql import PostgresqlAddress, require_psycopg
from situ.io.sink_names import TableNames
from situ.io.tagged_results import TEXT
from situ.runtime.spark.inputs.kafka import kafka_conf
from situ.runtime.spark.inputs.mqtt import MqttAddress
from situ.runtime.spark.sinks.file_sink import FileSink
from situ.runtime.spark.sinks.message_sinks import KafkaSink, MqttSink
from situ.runtime.spark.sinks.postgresql import upsert_batch
from situ.runtime.spark.sinks.result_packs import ResultPacker, in_order, results_of
from situ.runtime.spark.sinks.result_tables import Tables
from situ.runtime.spark.stages.output import COMPLEX_EVENT, LATE, REJECTED, TIMED_OUT, TaggedOutput


class Sink(Protocol):
    """Takes the tagged table of a micro-batch, `detection.events`, for use with `foreachBatch`.

    On Spark Connect it travels to the server, and writes from there.
    """

    def write(self, events: DataFrame, batch: int) -> None:
        """All results of a batch. A batch that is written again, after a crash, replaces itself."""
        ...


def open_sink(
    address: str, file_format: str, output: TaggedOutput, query: str, permissions: Permissions = PRIVATE
) -> Sink:
    """The sink that an address names; InputError if it names none.

    `file_format` and `permissions` are those of files in a directory. `query` is an id that stays the same as long as
    the checkpoint.
    """
    tables = Tables(output)
    match scheme_of(address):
        case "directory":
            sink = FileSink(Root.of(directory_of(address)), _format(file_format), tables, query, permissions)
            sink.check()
            return sink
        case "kafka":
            return KafkaSink(KafkaAddress.parse(address, writing=True), tables, query)
        case "mqtt":
            require_paho()
            return MqttSink(_one_topic(MqttAddress.parse(address)), tables, query)
        case "postgresql":
            require_psycopg()
            return PostgresqlSink(PostgresqlAddress.parse(address), tables, query)
        case _:
            raise unknown_address(address, OUTPUTS, "output")


def packages_for(addresses: Iterable[str], conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """Settings that a new session needs for these addresses, beside those that it is given: Kafka's connector.

    >>> packages_for(["data/cars", "mqtt://host/cars"])
    {}
    """
    given = dict(conf or {})
    if all(scheme_of(address) != "kafka" for address in addresses):
        return {}
    return {key: value for key, value in kafka_conf(given).items() if given.get(key) != value}


def _format(text: str) -> Format:
    formats: tuple[Format, ...] = get_args(Format)
    for format_name in formats:
        if format_name == text:
            return format_name
    raise InputError(f"situ writes no files of format '{text}'", remedy=did_you_mean(text, formats))


def _one_topic(address: MqttAddress) -> MqttAddress:
    if address.has_wildcards:
        remedy = "Name one topic, without + and #."
        raise InputError(f"results cannot be sent to {address.shown}, which is many topics", remedy=remedy)
    return address


@dataclass
class PostgresqlSink:
    """A table for each subscription, named as it is; `_late` and `_rejected`; `_timed_out_Jam` for a subscription Jam.

    Every batch is written to a table in one transaction, and replaces what an earlier attempt has left.
    """

    address: PostgresqlAddress
    tables: Tables
    query: str
    _written: int | None = field(default=None, init=False)

    def write(self, events: DataFrame, batch: int) -> None:
        tables: dict[str, list[pa.Table]] = {}
        if self._written is None or batch <= self._written:  # else, a table without rows is as it should be
            tables |= {name: [empty] for name, empty in postgresql_tables(self.tables.output).items()}
        with results_of(events, ResultPacker(self.tables)) as results:
            for kind, name, rows in results:
                tables.setdefault(TableNames.table(kind, name), []).append(self.for_table(kind, name, rows))
        for table, parts in tables.items():
            rows = events.sparkSession.createDataFrame(in_order(pa.concat_tables(parts)))
            upsert_batch(rows, self.address, table, self.query, batch)
        self._written = batch

    @staticmethod
    def for_table(kind: str, name: str, rows: pa.Table) -> pa.Table:
        """Rows as they stand in the table. `_row` is a number there, and a column of nulls only has no type."""
        columns = [c.cast(pa.string()) if pa.types.is_null(c.type) else c for c in rows.columns]
        names = [TEXT if column == "_row" else column for column in rows.column_names]
        if kind in (LATE, REJECTED):
            columns, names = [pa.array([name] * rows.num_rows, pa.string()), *columns], ["_stream", *names]
        return pa.table(columns, names=names)


def postgresql_tables(output: TaggedOutput) -> dict[str, pa.Table]:
    """All tables that results go to, without rows."""
    tables = Tables(output)
    kinds = [(COMPLEX_EVENT, name) for name in output.shown]
    kinds += [(TIMED_OUT, operator.name) for operator in output.operators if operator.rule.timed_out]
    kinds += [(kind, name) for kind in (LATE, REJECTED) for name in output.streams]
    return {
        TableNames.table(kind, name): PostgresqlSink.for_table(kind, name, tables.empty(kind, name))
        for kind, name in kinds
    }
