"""MCEP's Figures 6a to 6i, a module for each of its three mechanisms."""
