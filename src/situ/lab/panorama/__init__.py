"""PaNORAMA, again: where operators run and what is pulled. Experiments; `situ lab panorama` runs them."""
