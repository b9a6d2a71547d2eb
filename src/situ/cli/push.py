"""`situ push`: a producer, which sends the rows of a file to a site."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from situ.cli.site_options import PushOptions
from situ.core.errors import InputError
from situ.io.files.by_suffix import format_of
from situ.network.load import load_network
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.outgoing import SiteAddress
from situ.runtime.sites.wire.producing import Producer
from situ.service.certificates import Credentials, producer_identity

_ROWS = 1 << 16


def push_file(options: PushOptions, say: Callable[[str], None]) -> dict[str, int]:
    """Sends the rows that the site has not had yet; says how many those were. Returns when they are on its disk."""
    network = load_network(options.network)
    address = network.sites[network.number(options.to)].address
    if address is None:
        raise InputError(f"site {options.to!r} has no `address` in the network", place=str(options.network))
    if options.keys is None and not options.insecure:
        raise InputError(
            "a producer needs a certificate, by which sites know it",
            remedy=f"Make one with `situ keys {options.network} --out DIR --producer {options.name}`, and give --keys "
            f"DIR/producers/{options.name}; or, on one machine, say --insecure.",
        )
    credentials = Credentials.read(options.keys, producer_identity(options.name)) if options.keys else None
    tables = rows_of(options.file)
    identities = Identities.of(options.name, network.names, credentials)
    producer = Producer(identities, options.to, SiteAddress.parse(address), options.stream, say)
    begin, number = producer.next, 0
    for table in tables:
        number += table.num_rows
        if number > begin:
            producer.send(table.slice(max(table.num_rows - (number - begin), 0)))
    if options.end and producer.next <= number:
        producer.end()
    producer.flush()
    producer.close()
    return {"sent": max(number - begin, 0), "had": min(begin, number)}


def rows_of(file: Path) -> Iterator[pa.Table]:
    """The rows of a file, in pieces."""
    try:
        yield from _rows_of(file)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"the file cannot be read: {error}", place=str(file)) from None


def _rows_of(file: Path) -> Iterator[pa.Table]:
    match format_of(file):
        case "parquet":
            with pq.ParquetFile(file) as parquet:
                yield from (pa.Table.from_batches([batch]) for batch in parquet.iter_batches(_ROWS))
        case "csv":
            yield pyarrow.csv.read_csv(file)
        case "json":
            yield pyarrow.json.read_json(file)
