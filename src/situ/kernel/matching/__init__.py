"""Candidates in, complex events out: the kernel, and what follows it."""
