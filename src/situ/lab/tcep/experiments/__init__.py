"""The figures of TCEP, a module for each question."""
