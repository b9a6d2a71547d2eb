"""Where the results of a streaming query go."""
