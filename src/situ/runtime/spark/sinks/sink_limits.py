"""What the sink of a query that runs on can hold: asked when its rules are read, before any of them is in force.

A rule that a sink cannot serve would else end the query at its first micro-batch, and at every start after that.
"""

from __future__ import annotations

from situ.core.functions import Functions
from situ.io.addresses import scheme_of
from situ.io.sink_names import FolderNames, TableNames, require_names, require_stream_folders
from situ.runtime.spark.plan.plan import SparkPlan
from situ.runtime.spark.stages.output import TaggedOutput


def require_held(plan: SparkPlan, out: str | None, functions: Functions) -> None:
    """An error, if the sink of an address cannot hold what the rules of a plan give. None is the terminal.

    Messages of Kafka and MQTT, and the terminal, have names as text: they hold any.
    """
    require_stream_folders(plan.graph)
    match scheme_of(out) if out is not None else None:
        case "directory":
            require_names(plan.graph, FolderNames())
        case "postgresql":
            assert out is not None
            require_names(plan.graph, TableNames())
            _require_tables(plan, out, functions)
        case _:
            pass


def _require_tables(plan: SparkPlan, out: str, functions: Functions) -> None:
    """The server is asked, because tables may be there: of a rule as it was before, or somebody else's."""
    from situ.io.postgresql import PostgresqlAddress, require_psycopg
    from situ.runtime.spark.sinks.postgresql import require_tables
    from situ.runtime.spark.sinks.stream_sinks import postgresql_tables

    require_psycopg()
    streams = tuple(stream.name for stream in plan.graph.streams)
    output = TaggedOutput.of(plan.contexts(functions), show_definitions=False, streams=streams)
    require_tables(PostgresqlAddress.parse(out), postgresql_tables(output))
