"""Where a site's results go: written by log and number, so that repeating changes nothing."""
