"""Demands of plans that run: measured, and, where that is wanted, kept by transitions (TCEP, section 5)."""
