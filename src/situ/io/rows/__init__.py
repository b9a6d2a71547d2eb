"""Rows that fit a stream's declaration, and rows that do not."""
