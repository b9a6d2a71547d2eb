"""DataFrames, files and brokers as the input of a stream."""
