"""Conditions about single events as Catalyst columns."""
