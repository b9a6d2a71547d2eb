"""The content filterer: which events concern which conditions, by an index over all of them."""
