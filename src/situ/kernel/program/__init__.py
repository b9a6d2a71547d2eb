"""Rules, compiled: what depends on the query alone."""
