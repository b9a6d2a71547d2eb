"""DataFrames that are files and nothing else: situ reads these itself, and no row goes from Java to Python.

Only where it is certain that Arrow finds the rows that Spark would: Parquet files on this machine, their columns as
they are, nothing filtered, computed or cached, and no setting or option by which Spark reads them in another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame

from situ.core.errors import InputError
from situ.graph.query import Stream
from situ.io.files.parquet import ParquetFile
from situ.io.files.root import Root
from situ.io.rows.conform import type_found
from situ.runtime.spark.inputs.own_files import OwnFiles, checked_files, in_splits, way_of
from situ.runtime.spark.inputs.tables import arrow_schema, as_spark_names_it, is_zoneless
from situ.runtime.spark.session.session import is_connect

#: What Spark calls a plan that is a table of Parquet files whose list it has, and what may lie above it.
_EXECUTION = "org.apache.spark.sql.execution.datasources"
_RELATION = f"{_EXECUTION}.LogicalRelation"
_PARQUET = f"{_EXECUTION}.parquet.ParquetFileFormat"
_LISTED = f"{_EXECUTION}.InMemoryFileIndex"
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
_RENAMED, _CHOSEN = f"{_LOGICAL}.SubqueryAlias", f"{_LOGICAL}.Project"
_COLUMN = "org.apache.spark.sql.catalyst.expressions.AttributeReference"

#: Options of a reader that say which files there are, and nothing about their rows.
_OPTIONS = {"path", "paths", "recursivefilelookup", "pathglobfilter", "modifiedbefore", "modifiedafter", "mergeschema"}
#: Settings of a session, with the values by which rows are what stands in the files.
_AS_IT_STANDS = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
#: Nobody said where the files are: they are shown with their whole paths.
_ANYWHERE = Root("/", "/")


def plain_files(df: DataFrame, stream: Stream) -> OwnFiles | None:
    """The files whose rows a DataFrame is, for situ to read; None where that is not certain, where nobody here can say
    (Spark Connect), or where the session wants Spark to read them."""
    spark = df.sparkSession
    if is_connect(spark) or way_of(spark) == "spark" or as_spark_names_it(stream, df) != stream:
        return None
    if any((spark.conf.get(setting, None) or value) != value for setting, value in _AS_IT_STANDS.items()):
        return None
    paths = _listed_files(df)
    if not paths or len({*paths}) < len(paths):  # Spark reads a file twice that it was given twice
        return None
    try:
        files = checked_files([path for path in paths if path.stat().st_size], stream)  # Spark leaves out empty ones
    except (InputError, OSError):
        return None  # Spark says what is wrong, or gives nulls for a column that a file lacks
    found = arrow_schema(df)
    if not files or not all(_is_read_alike(file, found, stream) for file in files):
        return None
    opened = in_splits(spark, _ANYWHERE, files, stream)
    is_shown_alike = all(file.schema.names == found.names for file in files)
    return opened if is_shown_alike or not opened.may_reject else None


def _listed_files(df: DataFrame) -> list[Path]:
    """The files of a DataFrame that is nothing but a list of Parquet files on this machine; none, if it is not."""
    # A plan of its own, because one that was asked before `df.cache()` does not know of it.
    plan = df.select("*")._jdf.queryExecution().withCachedData()
    while (kind := plan.getClass().getName()) != _RELATION:
        if kind != _RENAMED and not (kind == _CHOSEN and _chooses_columns_only(plan)):
            return []
        plan = plan.child()
    relation = plan.relation()
    if not relation.getClass().getName().endswith(".HadoopFsRelation"):
        return []
    location = relation.location()
    names = (relation.fileFormat().getClass().getName(), location.getClass().getName())
    options = relation.options().keys().mkString("\n").lower().split()
    if names != (_PARQUET, _LISTED) or not relation.partitionSchema().isEmpty() or not {*options} <= _OPTIONS:
        return []
    addresses = [urlsplit(uri) for uri in location.inputFiles()]
    if any((address.scheme, address.netloc) != ("file", "") for address in addresses):
        return []
    return [Path(unquote(address.path)) for address in addresses]


def _chooses_columns_only(project: Any) -> bool:
    columns = project.projectList()
    return all(columns.apply(n).getClass().getName() == _COLUMN for n in range(columns.size()))


def _is_read_alike(file: ParquetFile, found: pa.Schema, stream: Stream) -> bool:
    """Whether Arrow reads the attributes of a file as Spark reads them."""
    names: Sequence[str] = [name.lower() for name in file.schema.names]
    if len({*names}) < len(names) or _is_of_old_calendar(file):
        return False
    for attribute in stream.attributes:
        of_file = type_found(attribute, stream, file.schema, str(file.path))
        of_spark = type_found(attribute, stream, found, str(file.path))
        if is_zoneless(of_file) or of_spark != _in_microseconds(of_file):
            return False
    return True


def _in_microseconds(type_: pa.DataType) -> pa.DataType:
    """Times in milliseconds are microseconds in Spark."""
    is_coarser = pa.types.is_timestamp(type_) and type_.unit == "ms"
    return pa.timestamp("us", type_.tz) if is_coarser else type_


def _is_of_old_calendar(file: ParquetFile) -> bool:
    """Whether Spark moves old dates and times of a file to the calendar of today, as it was written by a Spark that did
    so the other way round."""
    notes = file.metadata.metadata or {}
    version = notes.get(b"org.apache.spark.version", b"9").decode()
    return b"org.apache.spark.legacyDateTime" in notes or int(version.partition(".")[0]) < 3
