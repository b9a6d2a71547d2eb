"""PaNORAMA's Figures 9 to 11: cases, sweeps, what is measured, and the claims."""
