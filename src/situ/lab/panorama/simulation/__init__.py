"""A simulation of a plan, event by event: what its sites push and pull, counted."""
