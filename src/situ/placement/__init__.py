"""Placement: where operators run, what is pushed to them and what they pull. One mechanism per file."""
