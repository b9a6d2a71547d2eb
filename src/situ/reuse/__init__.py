"""Reuse: overlapping queries share their work at a stated quality (RECEP)."""
