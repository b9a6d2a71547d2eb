"""Operators in Spark's tasks: packets in, state of a shard, tagged rows out."""
