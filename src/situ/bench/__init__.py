"""Benchmarks: the streams, the peer that reads the same ones, and the figures of a run."""
