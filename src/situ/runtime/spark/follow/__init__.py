"""Queries that run on: checkpoints, rules that change, progress."""
