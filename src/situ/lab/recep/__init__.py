"""RECEP, again: queries that share their work. Experiments, not the product; `situ lab recep` runs them."""
