"""Switches to operator graphs that were prepared before: a discrete-event run (MCEP, sections 5.4 and 6.2)."""
