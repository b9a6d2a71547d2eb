"""MCEP, again: queries whose interest moves. Experiments, not the product; `situ lab mcep` runs them."""
