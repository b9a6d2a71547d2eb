"""Where a site's events come from: each source has a position, which is stored with what was read."""
