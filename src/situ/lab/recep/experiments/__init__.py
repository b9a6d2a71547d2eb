"""RECEP's Figures 8a to 8i."""
