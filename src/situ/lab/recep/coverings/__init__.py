"""Which selections are processed on behalf of which others (RECEP, sections 4 and 5)."""
