"""Files as sources, and results as files."""
