"""The Spark engine: a query over DataFrames."""

from situ.runtime.spark.versions import installed_version, require_spark

# Here, because the modules of this package import what an older PySpark does not have.
require_spark(installed_version())
