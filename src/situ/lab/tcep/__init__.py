"""TCEP's experiments (section 6): transitions of operators between sites, on simulated and on real ones."""
