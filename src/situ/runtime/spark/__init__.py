"""The Spark engine: a query over DataFrames."""
